"""ListOffsets (key 2), versions 1–11: offsets by time; KIP-79, KIP-207, KIP-734 (max timestamp), KIP-1023.

-1 latest (the stable offset for `read_committed`), -2 earliest, -3 the record with the latest timestamp,
-4 earliest local (as -2: there is no other tier), -5 latest tiered (none: -1), otherwise the first record
at or after that time. Lookups by time have threads and bounds of their own (`lookups`). A partition that is
asked for twice is INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.partition import Partition
from headwater.broker.registry import Api, Context, Response
from headwater.record.errors import CorruptBatch

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
EARLIEST_PENDING_UPLOAD = -6
_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version from which on each special time is known."""
_NOWHERE: dict[str, Any] = {"timestamp": -1, "offset": -1, "leader_epoch": -1}


async def list_offsets(broker: Broker, request: Any, context: Context) -> Response:
    committed = getattr(request, "isolation_level", 0) == 1
    counts = Counter(
        (t.name, part.partition_index) for t in request.topics for part in t.partitions
    )
    topics = []
    for asked in request.topics:
        rows = []
        for part in asked.partitions:
            wrong = _problem(part, counts[asked.name, part.partition_index], context.api_version)
            if wrong:
                row = {"partition_index": part.partition_index, "error_code": wrong, **_NOWHERE}
            else:
                row = await _one(broker, asked.name, part, committed, context.client_host)
            rows.append(row)
        topics.append({"name": asked.name, "partitions": rows})
    return {"topics": topics}


def _problem(part: Any, count: int, version: int) -> ErrorCode:
    if count > 1:
        return ErrorCode.invalid_request
    is_known = part.timestamp >= 0 or version >= _SINCE.get(part.timestamp, 2**15)
    return ErrorCode.none if is_known else ErrorCode.unsupported_version


async def _one(
    broker: Broker, topic: str, part: Any, committed: bool, address: str
) -> dict[str, Any]:
    row: dict[str, Any] = {"partition_index": part.partition_index, **_NOWHERE}
    partition = broker.partition(topic, part.partition_index)
    if partition is None:
        return row | {"error_code": broker.absence(topic, part.partition_index)}
    log = partition.log
    epoch = getattr(part, "current_leader_epoch", -1)
    if 0 <= epoch < log.epoch:
        return row | {"error_code": ErrorCode.fenced_leader_epoch}
    if epoch > log.epoch:
        return row | {"error_code": ErrorCode.unknown_leader_epoch}
    asked = part.timestamp
    if asked == LATEST:
        offset = log.last_stable_offset() if committed else log.durable_offset
        return row | {"offset": offset, "leader_epoch": log.epoch}
    if asked in (EARLIEST, EARLIEST_LOCAL):
        return row | {
            "offset": log.start_offset,
            "leader_epoch": log.epoch_of(log.start_offset),
        }
    if asked in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return row
    found = await _by_time(broker, partition, asked, address)
    if committed and found.get("offset", -1) >= log.last_stable_offset():
        return row  # a transaction is open before it: to this reader it is not there yet
    return row | found


async def _by_time(
    broker: Broker, partition: Partition, timestamp: int, address: str
) -> dict[str, Any]:
    log = partition.log
    try:
        found = await broker.lookups.find(
            partition, None if timestamp == MAX_TIMESTAMP else timestamp, address
        )
    except CorruptBatch as error:
        partition.report_damage(error)
        return {"error_code": ErrorCode.corrupt_message}
    except OSError as error:  # the disk, or the topic went while it was read
        partition.report_damage(error)
        return {"error_code": ErrorCode.kafka_storage_error}
    if found is None:
        return {}
    return {
        "timestamp": found.timestamp,
        "offset": found.offset,
        "leader_epoch": log.epoch_of(found.offset),
    }


API = Api(2, "ListOffsets", (1, 11), list_offsets, only_looks=True)
