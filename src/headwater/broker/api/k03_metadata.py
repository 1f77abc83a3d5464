"""Metadata (key 3), versions 0–13: topics, partitions and where they live; KIP-4, KIP-516 (topic ids).

There is one node, which leads everything. A named topic that is not there is made when the client
allows it and `auto.create.topics.enable` is on; it is then in this very answer.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.audit.changes import topic_made
from headwater.broker.catalogue import Topic
from headwater.broker.once import once
from headwater.broker.registry import Api, Context, Response
from headwater.broker.slices import SLICE_ELEMENTS
from headwater.broker.topic_admission import TopicError, check_name
from headwater.broker.turns import give_way

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

NO_OPERATIONS = -(2**31)
TOPIC_OPERATIONS = sum(1 << n for n in (3, 4, 5, 6, 7, 8, 10, 11))
"""read, write, create, delete, alter, describe, describe configs, alter configs."""
CLUSTER_OPERATIONS = sum(1 << n for n in (5, 7, 8, 9, 10, 11, 12))
"""create, alter, describe, cluster action, describe and alter configs, idempotent write."""


MANY_PARTITIONS = 1_000


def is_much(broker: Broker, request: object) -> bool:
    """Whether it asks for very many partitions; an empty list means all topics in the oldest version."""
    topics = getattr(request, "topics", None)
    if not topics:
        return len(broker.topics.partitions) > MANY_PARTITIONS
    if len(topics) > MANY_PARTITIONS:
        return True
    named = (broker.catalogue.topics.get(item.name) for item in topics)
    return sum(topic.partitions for topic in named if topic) > MANY_PARTITIONS


async def metadata(broker: Broker, request: Any, context: Context) -> Response:
    asked = request.topics
    everything = asked is None or (context.api_version == 0 and not asked)
    operations = getattr(request, "include_topic_authorized_operations", False)
    if everything:
        topics = await _everything(broker, operations)
    else:
        create = getattr(request, "allow_auto_topic_creation", True)
        named = once(asked, lambda item: (item.name, getattr(item, "topic_id", None)))
        topics = [await _named(broker, item, create, operations, context) for item in named]
    cluster = getattr(request, "include_cluster_authorized_operations", False)
    host, port = context.address(broker)
    return {
        "brokers": [
            {
                "node_id": broker.node_id,
                "host": host,
                "port": port,
                "rack": broker.settings.get("broker.rack"),
            }
        ],
        "cluster_id": broker.cluster_id,
        "controller_id": broker.node_id,
        "topics": topics,
        "cluster_authorized_operations": CLUSTER_OPERATIONS if cluster else NO_OPERATIONS,
    }


async def _everything(broker: Broker, operations: bool) -> list[dict[str, Any]]:
    """In several turns of the event loop, if there is much; what is deleted meanwhile is left out."""
    rows: list[dict[str, Any]] = []
    described = 0
    for topic in sorted(broker.catalogue.topics.values(), key=lambda topic: topic.name):
        if broker.catalogue.topics.get(topic.name) is topic:
            rows.append(_describe(broker, topic, operations))
            described += 1 + topic.partitions
        if described > SLICE_ELEMENTS:
            described = 0
            await give_way()
    return rows


async def _named(
    broker: Broker, asked: Any, create: bool, operations: bool, context: Context
) -> dict[str, Any]:
    name: str | None = asked.name
    topic_id: uuid.UUID | None = getattr(asked, "topic_id", None)
    if name is None:
        topic = broker.catalogue.by_id.get(topic_id) if topic_id else None
        if topic is None:
            return {"error_code": ErrorCode.unknown_topic_id, "name": None, "topic_id": topic_id}
        return _describe(broker, topic, operations)
    topic = broker.catalogue.topics.get(name)
    try:
        if topic is None:
            check_name(name)
            if not (create and broker.settings.get("auto.create.topics.enable")):
                raise TopicError(ErrorCode.unknown_topic_or_partition, "there is no such topic")
            broker.disk_space.check_topic()
            if next(context.topics_left, None) is None:
                raise TopicError(ErrorCode.unknown_topic_or_partition, "too many new ones at once")
            topic = await _create(broker, name, context)
    except TopicError as error:
        return {"error_code": error.code, "name": name}
    return _describe(broker, topic, operations)


async def _create(broker: Broker, name: str, context: Context) -> Topic:
    row, settings = internal_topics.find(name), broker.settings
    partitions = settings.get("num.partitions") if row is None else row.count(settings)
    try:
        topic = await broker.topics.create(name, partitions, {})
    except TopicError as error:
        known = broker.catalogue.topics.get(name)
        if error.code != ErrorCode.topic_already_exists or known is None:
            raise
        return known  # another client was quicker
    broker.trail.tell(API.name, topic_made(name, partitions), context)
    return topic


def _describe(broker: Broker, topic: Topic, operations: bool) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(broker, topic.name, n) for n in range(topic.partitions)],
        "topic_authorized_operations": TOPIC_OPERATIONS if operations else NO_OPERATIONS,
    }


def _partition(broker: Broker, topic: str, number: int) -> dict[str, Any]:
    partition = broker.partition(topic, number)
    if partition is None:  # just being made or removed, or offline
        return {
            "error_code": ErrorCode.leader_not_available,
            "partition_index": number,
            "leader_id": -1,
            "replica_nodes": [broker.node_id],
            "offline_replicas": [broker.node_id]
            if (topic, number) in broker.topics.offline
            else [],
        }
    nodes = [broker.node_id]
    return {
        "partition_index": number,
        "leader_id": broker.node_id,
        "leader_epoch": partition.log.epoch,
        "replica_nodes": nodes,
        "isr_nodes": nodes,
    }


API = Api(3, "Metadata", (0, 13), metadata, lists=is_much)
