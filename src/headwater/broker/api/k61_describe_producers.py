"""DescribeProducers (key 61), version 0: the idempotent producers of a partition; KIP-664."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.once import once
from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def describe_producers(broker: Broker, request: Any, context: Context) -> Response:
    return {
        "topics": [
            {
                "name": asked.name,
                "partitions": [_one(broker, asked.name, n) for n in once(asked.partition_indexes)],
            }
            for asked in once(request.topics, lambda asked: asked.name)
        ]
    }


def _one(broker: Broker, topic: str, number: int) -> dict[str, Any]:
    partition = broker.partition(topic, number)
    if partition is None:
        return {
            "partition_index": number,
            "error_code": ErrorCode.unknown_topic_or_partition,
            "error_message": f"There is no partition {topic}-{number} here.",
        }
    return {
        "partition_index": number,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.timestamp,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.transaction_start,
            }
            for producer_id, producer in partition.log.producers.by_id.items()
        ],
    }


API = Api(61, "DescribeProducers", (0, 0), describe_producers)
