"""DescribeShareGroupOffsets (key 90), versions 0–1: how far share groups have come; KIP-932.

The start offset of a share-partition is the first record that is not settled. Version 1 adds the lag:
records from there to the end of the log that are not settled (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING, Any

from headwater.broker.once import once
from headwater.broker.registry import Api, Context, Response, always
from headwater.broker.shares.records import Key
from headwater.broker.turns import in_turns

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.catalogue import Topic


async def describe(broker: Broker, request: Any, context: Context) -> Response:
    groups = once(request.groups, lambda each: each.group_id)
    read = await _read(broker, {each.group_id for each in groups if each.topics is None})
    return {"groups": [await _group(broker, each.group_id, each.topics, read) for each in groups]}


Read = dict[str, dict[str, list[int]]]
"""Group → topic → partitions that it has read from."""


async def _read(broker: Broker, groups: Set[str]) -> Read:
    """Of all these in one look at what there is, which may be very much."""
    found: Read = {}
    owners = list(broker.shares.owners.items()) if groups else []
    async for key, owner in in_turns(owners, broker.supervisor.monotonic):
        if key.group_id in groups and key.topic_id in broker.catalogue.by_id:
            topics = found.setdefault(key.group_id, {})
            topics.setdefault(owner.topic, []).append(key.partition)
    return found


async def _group(broker: Broker, group_id: str, asked: Any, read: Read) -> dict[str, Any]:
    if not broker.shares.has(group_id):
        return {"group_id": group_id, "topics": ()}  # as Kafka answers it: nothing was read
    if asked is None:
        known = read.get(group_id, {})
        topics = [
            await _topic(broker, group_id, name, sorted(found)) for name, found in known.items()
        ]
    else:
        topics = [
            await _topic(broker, group_id, each.topic_name, once(each.partitions))
            for each in once(asked, lambda each: each.topic_name)
        ]
    return {"group_id": group_id, "topics": topics}


async def _topic(
    broker: Broker, group_id: str, name: str, numbers: Iterable[int]
) -> dict[str, Any]:
    topic = broker.catalogue.topics.get(name)
    if topic is None:
        parts = [{"partition_index": n, "start_offset": -1} for n in numbers]
        return {"topic_name": name, "topic_id": None, "partitions": parts}
    parts = [
        _partition(broker, group_id, topic, number)
        async for number in in_turns(numbers, broker.supervisor.monotonic)
    ]
    return {"topic_name": name, "topic_id": topic.id, "partitions": parts}


def _partition(broker: Broker, group_id: str, topic: Topic, number: int) -> dict[str, Any]:
    owner = broker.shares.owners.get(Key(group_id, topic.id, number))
    partition = broker.partition(topic.name, number)
    if owner is None or owner.state is None or partition is None:
        return {"partition_index": number, "start_offset": -1, "lag": -1}
    owner.state.move_start(partition.log.start_offset)
    start = owner.state.start
    lag = partition.log.durable_offset - start - owner.state.settled_count()
    return {"partition_index": number, "start_offset": start, "lag": max(lag, 0)}


API = Api(90, "DescribeShareGroupOffsets", (0, 1), describe, lists=always)
