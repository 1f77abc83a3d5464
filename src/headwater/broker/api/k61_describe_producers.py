"""DescribeProducers (key 61), version 0: the idempotent producers of a partition; KIP-664."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.bounds import shown
from headwater.broker.once import once
from headwater.broker.registry import Api, Context, Response, always
from headwater.broker.slices import SLICE_ELEMENTS, pieces
from headwater.broker.turns import Pace
from headwater.log.producers import Producer

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def describe_producers(broker: Broker, request: Any, context: Context) -> Response:
    pace = Pace(broker.supervisor.monotonic)
    topics = []
    for asked in once(request.topics, lambda asked: asked.name):
        rows = [await _one(broker, asked.name, n, pace) for n in once(asked.partition_indexes)]
        topics.append({"name": asked.name, "partitions": rows})
    return {"topics": topics}


async def _one(broker: Broker, topic: str, number: int, pace: Pace) -> dict[str, Any]:
    partition = broker.partition(topic, number)
    if partition is None:
        return {
            "partition_index": number,
            "error_code": broker.absence(topic, number),
            "error_message": f"There is no partition {shown(topic)}-{number} here.",
        }
    found: list[dict[str, Any]] = []
    for some in pieces(list(partition.log.producers.by_id.items()), SLICE_ELEMENTS):
        found += [_described(producer_id, producer) for producer_id, producer in some]
        await pace.rest()
    return {"partition_index": number, "active_producers": found}


def _described(producer_id: int, producer: Producer) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": producer.epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.timestamp,
        "coordinator_epoch": producer.coordinator_epoch,
        "current_txn_start_offset": producer.transaction_start,
    }


API = Api(61, "DescribeProducers", (0, 0), describe_producers, only_looks=True, lists=always)
