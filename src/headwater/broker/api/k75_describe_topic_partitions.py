"""DescribeTopicPartitions (key 75), version 0: topics page by page; KIP-966.

At most `response_partition_limit` partitions an answer; `next_cursor` says where the next begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.api.k03_metadata import NO_OPERATIONS, TOPIC_OPERATIONS
from headwater.broker.catalogue import Topic
from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def describe_topic_partitions(broker: Broker, request: Any, context: Context) -> Response:
    names = sorted({asked.name for asked in request.topics} or set(broker.catalogue.topics))
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first = max(request.cursor.partition_index, 0)
    limit: int = broker.settings.get("max.request.partition.size.limit")
    left = min(max(request.response_partition_limit, 1), limit)
    rows: list[dict[str, Any]] = []
    for name in names:
        topic = broker.catalogue.topics.get(name)
        if topic is None:
            rows.append(_missing(name))
            first = 0
            continue
        if not left:
            return _answer(rows, {"topic_name": name, "partition_index": first})
        numbers = range(topic.partitions)[first : first + left]
        rows.append(_describe(broker, topic, numbers))
        left -= len(numbers)
        if numbers and numbers[-1] + 1 < topic.partitions:
            return _answer(rows, {"topic_name": name, "partition_index": numbers[-1] + 1})
        first = 0
    return _answer(rows, None)


def _answer(rows: list[dict[str, Any]], cursor: dict[str, Any] | None) -> Response:
    return {"topics": rows, "next_cursor": cursor}


def _missing(name: str) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.unknown_topic_or_partition,
        "name": name,
        "topic_authorized_operations": NO_OPERATIONS,
    }


def _describe(broker: Broker, topic: Topic, numbers: range) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [
            _partition(broker, topic.name, number)
            for number in numbers
            if broker.topics.has(topic.name, number)
        ],
        "topic_authorized_operations": TOPIC_OPERATIONS,
    }


def _partition(broker: Broker, topic: str, number: int) -> dict[str, Any]:
    nodes = [broker.node_id]
    row: dict[str, Any] = {
        "partition_index": number,
        "replica_nodes": nodes,
        "eligible_leader_replicas": (),
        "last_known_elr": (),
    }
    partition = broker.partition(topic, number)
    if partition is None:
        code = ErrorCode.leader_not_available
        return row | {"error_code": code, "leader_id": -1, "offline_replicas": nodes}
    epoch = partition.log.epoch
    return row | {"leader_id": broker.node_id, "leader_epoch": epoch, "isr_nodes": nodes}


API = Api(
    75,
    "DescribeTopicPartitions",
    (0, 0),
    describe_topic_partitions,
    only_looks=True,
)
