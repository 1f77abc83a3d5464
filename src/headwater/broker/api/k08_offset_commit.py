"""OffsetCommit (key 8), versions 2 to 10: a group says how far it has read.

Answered when the offsets are durable in `__consumer_offsets`. A member must give its id and the current
generation; one of the newer protocol an epoch since which it has had the partition, and this in version
9+ (else UNSUPPORTED_VERSION); a simple consumer (generation -1) may commit to a group without members.
Unknown topics and partitions are refused one by one (by name up to version 9, by topic id from 10 on),
and so is metadata above `offset.metadata.max.bytes`; an error of the group goes to all other partitions.

KIP-211 (2 to 4: a retention of its own), KIP-345 (7: static members), KIP-848 (9), KIP-1148 (10: ids).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.registry import Api, Context

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.catalogue import Topic

_MS = timedelta(milliseconds=1)
_NONE = timedelta(milliseconds=-1)


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    commits: list[Commit] = []
    slots: list[dict[str, Any]] = []
    topics = [_topic(broker, topic, commits, slots) for topic in request.topics]
    if commits:
        errors = await _commit(broker, _committer(request, context), commits)
        for slot, error in zip(slots, errors, strict=True):
            slot["error_code"] = error
    return {"topics": topics}


async def _commit(broker: Broker, committer: Committer, commits: list[Commit]) -> list[ErrorCode]:
    room = broker.state.for_offsets(committer.group_id, commits)
    if room is None:
        return [ErrorCode.invalid_commit_offset_size] * len(commits)
    errors = await broker.groups.offsets.commit(committer, commits)
    if ErrorCode.none not in errors:
        room.give_back()
    return errors


def _committer(request: Any, context: Context) -> Committer:
    return Committer(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        generation=request.generation_id_or_member_epoch,
        knows_group_not_found=context.api_version >= 9,
        retention_ms=getattr(request, "retention_time", _NONE) // _MS,
    )


def _topic(
    broker: Broker, topic: Any, commits: list[Commit], slots: list[dict[str, Any]]
) -> dict[str, Any]:
    """The topic's part of the answer; what can be committed is added to `commits` and `slots`."""
    if hasattr(topic, "name"):
        found, unknown = broker.catalogue.topics.get(topic.name), _UNKNOWN_NAME
        answer: dict[str, Any] = {"name": topic.name}
    else:
        found, unknown = broker.catalogue.by_id.get(topic.topic_id), ErrorCode.unknown_topic_id
        answer = {"topic_id": topic.topic_id}
    answer["partitions"] = partitions = []
    for partition in topic.partitions:
        index = partition.partition_index
        partitions.append({"partition_index": index, "error_code": unknown})
        if found is None:
            continue
        partitions[-1]["error_code"] = _UNKNOWN_NAME
        if 0 <= index < found.partitions:
            slots.append(partitions[-1])
            commits.append(_row_of(found, partition))
    return answer


_UNKNOWN_NAME = ErrorCode.unknown_topic_or_partition


def _row_of(topic: Topic, partition: Any) -> Commit:
    return Commit(
        topic.name,
        partition.partition_index,
        partition.committed_offset,
        getattr(partition, "committed_leader_epoch", -1),
        partition.committed_metadata,
        topic.id,
    )


API = Api(8, "OffsetCommit", (2, 10), handle)
