"""AlterPartitionReassignments (key 45), versions 0 and 1: choose the replicas of partitions.

To the only node it is done already; to any other node, or to more than one replica, it is refused as
Kafka refuses a broker that is not registered. No reassignment is ever in progress, so there is none to
cancel. KIP-455, KIP-860.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import shown
from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Response:
    return {
        "allow_replication_factor_change": getattr(
            request, "allow_replication_factor_change", True
        ),
        "error_message": None if request.topics else "",
        "responses": [
            {
                "name": topic.name,
                "partitions": [_row(broker, topic.name, each) for each in topic.partitions],
            }
            for topic in request.topics
        ],
    }


def _row(broker: Broker, topic: str, asked: Any) -> dict[str, Any]:
    number = asked.partition_index
    code, sentence = ErrorCode.none, None
    if topic not in broker.catalogue.topics:
        code = ErrorCode.unknown_topic_or_partition
        sentence = f"Unable to find a topic named {shown(topic)}."
    elif broker.partition(topic, number) is None:
        code = ErrorCode.unknown_topic_or_partition
        sentence = f"Unable to find partition {shown(topic)}:{number}."
    elif asked.replicas is None:
        code = ErrorCode.no_reassignment_in_progress
    else:
        sentence = _problem(broker.node_id, asked.replicas)
        if sentence is not None:
            code = ErrorCode.invalid_replica_assignment
    return {"partition_index": number, "error_code": code, "error_message": sentence}


def _problem(node_id: int, replicas: Sequence[int]) -> str | None:
    says = "The manual partition assignment includes"
    if not replicas:
        return f"{says} an empty replica list."
    seen: set[int] = set()
    for each in sorted(replicas):
        if each in seen:
            return f"{says} the broker {each} more than once."
        if each != node_id:
            return f"{says} broker {each}, but no such broker is registered."
        seen.add(each)
    return None


API = Api(45, "AlterPartitionReassignments", (0, 1), handle)
