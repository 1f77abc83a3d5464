"""OffsetForLeaderEpoch (key 23), versions 2–4: where an epoch ended; KIP-101, KIP-320.

A new epoch begins with every start that was not preceded by a clean stop; so a client can find out
whether what it read last is still the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def offset_for_leader_epoch(broker: Broker, request: Any, context: Context) -> Response:
    return {
        "topics": [
            {
                "topic": asked.topic,
                "partitions": [_one(broker, asked.topic, part) for part in asked.partitions],
            }
            for asked in request.topics
        ]
    }


def _one(broker: Broker, topic: str, part: Any) -> dict[str, Any]:
    row = {"partition": part.partition, "leader_epoch": -1, "end_offset": -1}
    partition = broker.partition(topic, part.partition)
    if partition is None:
        return row | {"error_code": broker.absence(topic, part.partition)}
    current = getattr(part, "current_leader_epoch", -1)
    if 0 <= current < partition.log.epoch:
        return row | {"error_code": ErrorCode.fenced_leader_epoch}
    if current > partition.log.epoch:
        return row | {"error_code": ErrorCode.unknown_leader_epoch}
    if part.leader_epoch < 0:
        return row
    epoch, end = partition.log.end_of_epoch(part.leader_epoch)
    return row | {"leader_epoch": epoch, "end_offset": end}


API = Api(23, "OffsetForLeaderEpoch", (2, 4), offset_for_leader_epoch, only_looks=True)
