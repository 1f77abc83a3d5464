"""OffsetDelete (key 47), version 0: forget what a group has committed for some partitions.

Answered when the tombstones are durable. A topic that an active consumer group subscribes to is
refused (GROUP_SUBSCRIBED_TO_TOPIC), an active group of another protocol as a whole (NON_EMPTY_GROUP).

KIP-496.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    if not request.group_id:
        return {"error_code": ErrorCode.invalid_group_id}
    answers: dict[tuple[str, int], ErrorCode] = {
        (topic.name, partition.partition_index): ErrorCode.unknown_topic_or_partition
        for topic in request.topics
        for partition in topic.partitions
    }
    known = [key for key in answers if _exists(broker, *key)]
    error, errors = await broker.groups.offsets.delete(request.group_id, known)
    if error is not ErrorCode.none:
        return {"error_code": error}
    answers.update(zip(known, errors, strict=True))
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": each.partition_index,
                        "error_code": answers[topic.name, each.partition_index],
                    }
                    for each in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _exists(broker: Broker, name: str, partition: int) -> bool:
    topic = broker.catalogue.topics.get(name)
    return topic is not None and 0 <= partition < topic.partitions


API = Api(47, "OffsetDelete", (0, 0), handle)
