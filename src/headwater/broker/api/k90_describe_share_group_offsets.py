"""DescribeShareGroupOffsets (key 90), versions 0–1: how far share groups have come; KIP-932.

The start offset of a share-partition is the first record that is not settled. Version 1 adds the lag:
records from there to the end of the log that are not settled (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headwater.broker.once import once
from headwater.broker.registry import Api, Context, Response
from headwater.broker.shares.records import Key

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.catalogue import Topic


def describe(broker: Broker, request: Any, context: Context) -> Response:
    groups = once(request.groups, lambda each: each.group_id)
    return {"groups": [_group(broker, each.group_id, each.topics) for each in groups]}


def _group(broker: Broker, group_id: str, asked: Any) -> dict[str, Any]:
    if not broker.shares.has(group_id):
        return {"group_id": group_id, "topics": ()}  # as Kafka answers it: nothing was read
    if asked is None:
        topics = _known(broker, group_id)
    else:
        topics = [
            _topic(broker, group_id, each.topic_name, once(each.partitions))
            for each in once(asked, lambda each: each.topic_name)
        ]
    return {"group_id": group_id, "topics": topics}


def _known(broker: Broker, group_id: str) -> list[dict[str, Any]]:
    """Every partition that the group has read from."""
    numbers: dict[str, list[int]] = {}
    for key, keeper in broker.shares.keepers.items():
        if key.group_id == group_id and key.topic_id in broker.catalogue.by_id:
            numbers.setdefault(keeper.topic, []).append(key.partition)
    return [_topic(broker, group_id, name, sorted(found)) for name, found in numbers.items()]


def _topic(broker: Broker, group_id: str, name: str, numbers: Iterable[int]) -> dict[str, Any]:
    topic = broker.catalogue.topics.get(name)
    if topic is None:
        parts = [{"partition_index": n, "start_offset": -1} for n in numbers]
        return {"topic_name": name, "topic_id": None, "partitions": parts}
    return {
        "topic_name": name,
        "topic_id": topic.id,
        "partitions": [_partition(broker, group_id, topic, number) for number in numbers],
    }


def _partition(broker: Broker, group_id: str, topic: Topic, number: int) -> dict[str, Any]:
    keeper = broker.shares.keepers.get(Key(group_id, topic.id, number))
    partition = broker.partition(topic.name, number)
    if keeper is None or keeper.state is None or partition is None:
        return {"partition_index": number, "start_offset": -1, "lag": -1}
    keeper.state.move_start(partition.log.start_offset)
    start = keeper.state.start
    lag = partition.log.durable_offset - start - keeper.state.settled_count()
    return {"partition_index": number, "start_offset": start, "lag": max(lag, 0)}


API = Api(90, "DescribeShareGroupOffsets", (0, 1), describe)
