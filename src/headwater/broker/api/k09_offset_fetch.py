"""OffsetFetch (key 9), versions 1 to 10: how far a group has read, as far as that is durable.

A partition without a commit, or of a group that nobody knows, has offset -1 and no error. No topics
(null) means all that the group has committed. Member id and epoch (9+) must be right if they are
given to a group of the newer type. `require_stable` (7+) makes a partition with an open transaction answer
UNSTABLE_OFFSET_COMMIT.

KIP-447 (7: require_stable), KIP-709 (8: several groups), KIP-848 (9), KIP-1148 (10: topic ids).
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.groups.offsets import GroupOffsets
from headwater.broker.once import once
from headwater.broker.registry import Api, Context
from headwater.broker.slices import SLICE_ELEMENTS, pieces
from headwater.broker.turns import Pace

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

T = TypeVar("T")
Row = dict[str, Any]

Steps = Generator[None, None, T]
"""Yields where others may be served, if there is much to do."""
MANY_OFFSETS = 1_000


def is_much(broker: Broker, request: Any) -> bool:
    """Whether it asks for very many offsets, by name or as all that a group has."""
    left = MANY_OFFSETS
    for group in getattr(request, "groups", (request,)):
        if group.topics is None:
            known = broker.groups.offsets_of(group.group_id).topics
            left -= sum(map(len, known.values()))
        else:
            left -= sum(len(topic.partition_indexes) for topic in group.topics)
        if left < 0:
            return True
    return False


def handle(broker: Broker, request: Any, context: Context) -> Row | Awaitable[Row]:
    steps = _answer(broker, request, context)
    if is_much(broker, request):
        return _in_turns(steps, Pace(broker.supervisor.monotonic))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Row = end.value
            return found


async def _in_turns(steps: Steps[Row], pace: Pace) -> Row:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Row = end.value
            return found
        await pace.rest()


def _answer(broker: Broker, request: Any, context: Context) -> Steps[Row]:
    stable = getattr(request, "require_stable", False)
    if context.api_version < 8:
        return (yield from _group(broker, request, stable, context))
    groups = []
    for group in once(request.groups, lambda group: group.group_id):
        answer = yield from _group(broker, group, stable, context)
        groups.append({"group_id": group.group_id, **answer})
    return {"groups": groups}


def _group(broker: Broker, group: Any, stable: bool, context: Context) -> Steps[Row]:
    member_id, epoch = getattr(group, "member_id", None), getattr(group, "member_epoch", -1)
    error, offsets = broker.groups.offsets.fetch(group.group_id, member_id, epoch)
    if broker.topics.is_offline(internal_topics.CONSUMER_OFFSETS, group.group_id):
        error = ErrorCode.coordinator_not_available  # "none" would send consumers to the beginning
    if error is not ErrorCode.none:
        return {"error_code": error, "topics": _failed(group, error, context.api_version)}
    by_id = context.api_version >= 10
    if group.topics is None:
        topics = yield from _all_topics(broker, offsets, stable, by_id)
    else:
        named = once(group.topics, lambda topic: topic.topic_id if by_id else topic.name)
        topics = [_topic(broker, topic, offsets, stable, by_id) for topic in named]
    return {"topics": topics}


def _topic(broker: Broker, topic: Any, offsets: GroupOffsets, stable: bool, by_id: bool) -> Row:
    if not by_id:
        partitions = [
            _partition(offsets, topic.name, index, stable)
            for index in once(topic.partition_indexes)
        ]
        return {"name": topic.name, "partitions": partitions}
    found = broker.catalogue.by_id.get(topic.topic_id)
    partitions = [
        _partition(offsets, found.name, index, stable)
        if found is not None
        else _nothing(index, ErrorCode.unknown_topic_id)
        for index in once(topic.partition_indexes)
    ]
    return {"topic_id": topic.topic_id, "partitions": partitions}


def _all_topics(
    broker: Broker, offsets: GroupOffsets, stable: bool, by_id: bool
) -> Steps[list[Row]]:
    answer = []
    for name in list(offsets.topics):
        found = broker.catalogue.topics.get(name)
        if by_id and found is None:
            continue
        partitions: list[Row] = []
        for some in pieces(list(offsets.topics.get(name, ())), SLICE_ELEMENTS):
            partitions += [_partition(offsets, name, index, stable) for index in some]
            yield
        named = {"topic_id": found.id} if by_id and found is not None else {"name": name}
        answer.append({**named, "partitions": partitions})
    return answer


def _partition(offsets: GroupOffsets, topic: str, index: int, stable: bool) -> Row:
    if stable and offsets.is_unstable(topic, index):
        return _nothing(index, ErrorCode.unstable_offset_commit)
    value = offsets.get(topic, index)
    if value is None:
        return _nothing(index, ErrorCode.none)
    return {
        "partition_index": index,
        "committed_offset": value.offset,
        "committed_leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "error_code": ErrorCode.none,
    }


def _nothing(index: int, error: ErrorCode) -> Row:
    return {
        "partition_index": index,
        "committed_offset": -1,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": error,
    }


def _failed(group: Any, error: ErrorCode, version: int) -> list[Row]:
    """Version 1 has no place for an error but each partition; later ones leave the topics out."""
    if version >= 2:
        return []
    return [
        {
            "name": topic.name,
            "partitions": [_nothing(index, error) for index in topic.partition_indexes],
        }
        for topic in group.topics
    ]


API = Api(9, "OffsetFetch", (1, 10), handle, only_looks=True, lists=is_much)
