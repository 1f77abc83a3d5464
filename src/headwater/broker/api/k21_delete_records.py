"""DeleteRecords (key 21), versions 0–2: move the start of a log (KIP-107).

The new start is durable before it is answered; whole segments before it go at once. Offset -1 stands
for everything that is readable. Only topics whose cleanup.policy has `delete` allow it, and none of those
that the broker keeps (`internal_topics`).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.partition import Partition
from headwater.broker.registry import Api, Context, Response
from headwater.log.partition import OffsetOutOfRange, StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


class _Moved(NamedTuple):
    """A partition whose start was moved, in memory."""

    partition: Partition
    before: int
    start: int


async def delete_records(broker: Broker, request: Any, context: Context) -> Response:
    moved: list[_Moved] = []
    topics: list[dict[str, Any]] = [
        {
            "name": asked.name,
            "partitions": [
                await _delete(broker, asked.name, part, moved) for part in asked.partitions
            ],
        }
        for asked in request.topics
    ]
    loop = asyncio.get_running_loop()
    logs = {(each.partition.topic, each.partition.number) for each in moved}
    try:
        await loop.run_in_executor(broker.duties, broker.store.checkpoint_starts, logs)
    except OSError:
        for each in reversed(moved):
            each.partition.log.put_start_back(each.before, each.start)
        with contextlib.suppress(OSError):  # beside a log it may stand already
            await loop.run_in_executor(broker.duties, broker.store.checkpoint_starts, ())
        return {"topics": [_not_stored(topic) for topic in topics]}
    for asked in request.topics:
        for part in asked.partitions:
            partition = broker.partition(asked.name, part.partition_index)
            if partition is not None:
                await _drop_segments(broker, partition)
    return {"topics": topics}


async def _drop_segments(broker: Broker, partition: Partition) -> None:
    """The records are gone already; what cannot be removed now goes with the next retention."""
    try:
        await broker.housekeeping.retain_partition(partition, broker.clock.now_ms())
    except (OSError, StorageFailed) as error:
        partition.report_damage(error)


def _not_stored(topic: dict[str, Any]) -> dict[str, Any]:
    """The new start could not be written down: nobody may rely on it."""
    code = {"error_code": ErrorCode.kafka_storage_error}
    return {"name": topic["name"], "partitions": [code | row for row in topic["partitions"]]}


async def _delete(broker: Broker, topic: str, part: Any, moved: list[_Moved]) -> dict[str, Any]:
    """Not while the log is read anew: the one that is on its way would begin where this one did."""
    partition = broker.partition(topic, part.partition_index)
    if partition is None:
        return _move(broker, topic, part, moved)
    async with partition.maintenance:
        return _move(broker, topic, part, moved)


def _move(broker: Broker, topic: str, part: Any, moved: list[_Moved]) -> dict[str, Any]:
    row = {"partition_index": part.partition_index, "low_watermark": -1}
    partition = broker.partition(topic, part.partition_index)
    known = broker.catalogue.topics.get(topic)
    if partition is None or known is None:  # of one that is being deleted some are left
        return row | {"error_code": broker.absence(topic, part.partition_index)}
    if known.is_internal or internal_topics.why_kept(topic):
        return row | {"error_code": ErrorCode.invalid_topic_exception}
    log = partition.log
    if log.config.compact and not log.config.delete:
        return row | {"error_code": ErrorCode.policy_violation}
    try:
        before = log.delete_before(log.durable_offset if part.offset == -1 else part.offset)
    except OffsetOutOfRange:
        return row | {"error_code": ErrorCode.offset_out_of_range}
    moved.append(_Moved(partition, before, log.start_offset))
    return row | {"low_watermark": log.start_offset}


API = Api(21, "DeleteRecords", (0, 2), delete_records)
