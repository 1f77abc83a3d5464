"""Consumer groups: who is in them, how far they are, and how to put them elsewhere.

`lag` of a partition is what lies between the committed offset and the end. A reset is planned first and
applied then, so that both can be shown; it is refused while the group has members, because these would go on
from where they are and commit over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from headwater.client import share_groups
from headwater.client.cluster import LATEST
from headwater.client.errors import BadRequest, NotThere, RequestRefused, told, translated
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.places import Place, located

_ENDED = ("EMPTY", "DEAD", "UNKNOWN")
_CONSUMERS = (ConsumerGroupType.CLASSIC, ConsumerGroupType.CONSUMER)


@dataclass(frozen=True)
class Member:
    id: str
    client_id: str
    host: str
    partitions: tuple[tuple[str, int], ...]
    instance_id: str | None = None


@dataclass(frozen=True)
class PartitionLag:
    """`verdict` None: nothing committed yet; `end` None: the topic is gone."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: str | None = None
    told: int | None = None
    """Of a share group: how many records are not settled, where the broker knows it."""

    @property
    def lag(self) -> int | None:
        if self.told is not None:
            return self.told
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


@dataclass(frozen=True)
class Group:
    """`kind`: classic, consumer (KIP-848) or share (a queue, whose `verdict` is where its start is)."""

    name: str
    state: str
    kind: str
    members: tuple[Member, ...] = ()
    partitions: tuple[PartitionLag, ...] = ()
    assignor: str = ""

    @property
    def lag(self) -> int:
        return sum(each.lag or 0 for each in self.partitions)

    @property
    def is_active(self) -> bool:
        return bool(self.members) or self.state not in _ENDED

    @property
    def topics(self) -> list[str]:
        return sorted({each.topic for each in self.partitions})


def listed(log: Log) -> list[Group]:
    """Every group, with members and lag, by name."""
    found = _groups(log, consumer_names(log)) + _share_groups(log, share_groups.names(log))
    return sorted(found, key=lambda each: each.name)


def consumer_names(log: Log) -> list[str]:
    """All but share groups, and nothing else of them."""
    with told("listing groups", log.bootstrap):
        answer = log.admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
    return [each.group_id for each in answer.valid if each.type in _CONSUMERS]


def committed(log: Log, names: Iterable[str]) -> dict[str, dict[tuple[str, int], int]]:
    """Group → place → offset, of consumer groups; one that is not there has none."""
    with told("asking how far groups are", log.bootstrap):
        return committed_by(log.admin, names)


def committed_by(admin: AdminClient, names: Iterable[str]) -> dict[str, dict[tuple[str, int], int]]:
    """The same, with what confluent-kafka raises. One question for each, all under way at once."""
    asked = {
        name: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=TIMEOUT_S
        )[name]
        for name in names
    }
    return {name: _committed(future) for name, future in asked.items()}


def commit(
    log: Log, group: str, position: Mapping[tuple[str, int], int], what: str = "committing offsets"
) -> None:
    """Say that a group without members has done everything below these offsets."""
    places = [TopicPartition(*place, offset) for place, offset in position.items()]
    with told(what, log.bootstrap):
        asked = [ConsumerGroupTopicPartitions(group, places)]
        done = log.admin.alter_consumer_group_offsets(asked, request_timeout=TIMEOUT_S)
        for place in done[group].result().topic_partitions:
            if place.error is not None:
                raise translated(place.error, what, log.bootstrap)


def named(log: Log, name: str) -> Group:
    (found,) = _groups(log, [name])
    if found.state in ("DEAD", "UNKNOWN") and not found.partitions:
        if name in share_groups.names(log):
            return _share_groups(log, [name])[0]
        raise NotThere(
            f"there is no group {name!r}", hint="headwater groups list shows those that exist"
        )
    return found


def delete(log: Log, name: str) -> None:
    """The group with its committed offsets."""
    _refuse_active(named(log, name), "deleted")
    with told(f"deleting group {name}", log.bootstrap):
        log.admin.delete_consumer_groups([name], request_timeout=TIMEOUT_S)[name].result()


# ---- reset ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reset:
    """To a place, or by so many offsets from where the group is."""

    place: Place | None = None
    shift: int | None = None


@dataclass(frozen=True)
class Move:
    topic: str
    partition: int
    before: int | None
    after: int


@dataclass(frozen=True)
class ResetPlan:
    group: str
    moves: tuple[Move, ...] = field(default=())
    is_share: bool = False

    @property
    def changes(self) -> list[Move]:
        return [each for each in self.moves if each.before != each.after]


def plan_reset(
    log: Log,
    name: str,
    reset: Reset,
    topics: Sequence[str] = (),
    partitions: Sequence[int] | None = None,
) -> ResetPlan:
    """What would change; a dry run. A group that does not exist yet may be given a first position."""
    shared = _share_groups(log, [name] if name in share_groups.names(log) else [])
    (group,) = shared or _groups(log, [name])
    _refuse_active(group, "reset")
    known = {(each.topic, each.partition): each.committed for each in group.partitions}
    chosen = list(topics) or group.topics
    if not chosen:
        raise NotThere(
            f"the group {name!r} has no committed offsets",
            hint="name the topics that it is to begin with",
        )
    moves: list[Move] = []
    for topic in chosen:
        held = log.ranges(topic, None if partitions is None else list(partitions))
        at: dict[int, int] = {}
        if reset.place is not None:
            at = dict(located(log, topic, reset.place, held))
        elif reset.shift is not None:
            for p, (first, end) in held.items():
                if (committed := known.get((topic, p))) is not None:
                    at[p] = max(first, min(committed + reset.shift, end))
        else:
            raise BadRequest("a reset needs a place or a shift", hint="say where to")
        moves += [Move(topic, p, known.get((topic, p)), offset) for p, offset in sorted(at.items())]
    return ResetPlan(name, tuple(moves), bool(shared))


def apply_reset(log: Log, planned: ResetPlan) -> None:
    if not planned.moves:
        return
    if planned.is_share:
        starts = {(each.topic, each.partition): each.after for each in planned.moves}
        share_groups.move(log, planned.group, starts)
        return
    places = {(each.topic, each.partition): each.after for each in planned.moves}
    commit(log, planned.group, places, f"resetting group {planned.group}")


def _refuse_active(group: Group, what: str) -> None:
    if group.is_active:
        members = len(group.members)
        raise RequestRefused(
            f"the group {group.name!r} has {members} member{'' if members == 1 else 's'} and "
            f"cannot be {what}",
            hint="stop them first; headwater groups show names them",
        )


# ---- asking ---------------------------------------------------------------------------------------


def _groups(log: Log, names: list[str]) -> list[Group]:
    if not names:
        return []
    with told("describing groups", log.bootstrap):
        described = log.admin.describe_consumer_groups(names, request_timeout=TIMEOUT_S)
        committed = committed_by(log.admin, names)
        found = {name: _described(future) for name, future in described.items()}
    ends = _ends(log, {place for each in committed.values() for place in each} | _held(found))
    return [_group(name, found[name], committed[name], ends) for name in names]


def _share_groups(log: Log, names: list[str]) -> list[Group]:
    found = share_groups.described(log, names)
    held = {place for each in found.values() for one in each.members for place in one.partitions}
    ends = _ends(log, {place for each in found.values() for place in each.starts} | held)
    groups = []
    for each in found.values():
        places = sorted({*each.starts, *(p for one in each.members for p in one.partitions)})
        partitions = tuple(
            PartitionLag(
                *place, each.starts.get(place), ends.get(place), None, each.lags.get(place)
            )
            for place in places
        )
        members = tuple(Member(*one) for one in each.members)
        groups.append(Group(each.name, each.state, "share", members, partitions, each.assignor))
    return groups


def _described(future: Any) -> Any:
    try:
        return future.result()
    except KafkaException as failure:
        if failure.args[0].name() == "GROUP_ID_NOT_FOUND":
            return None
        raise


def _committed(future: Any) -> dict[tuple[str, int], int]:
    try:
        places = future.result().topic_partitions or []
    except KafkaException as failure:
        if failure.args[0].name() == "GROUP_ID_NOT_FOUND":
            return {}
        raise
    return {(each.topic, each.partition): each.offset for each in places if each.offset >= 0}


def _held(found: dict[str, Any]) -> set[tuple[str, int]]:
    members = [each for group in found.values() if group is not None for each in group.members]
    return {place for member in members for place in _assigned(member)}


def _assigned(member: Any) -> list[tuple[str, int]]:
    if member.assignment is None:
        return []
    return [(each.topic, each.partition) for each in member.assignment.topic_partitions]


def _ends(log: Log, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    with told("listing topics", log.bootstrap):
        topics = log.admin.list_topics(timeout=TIMEOUT_S).topics
    there = [(t, p) for t, p in places if t in topics and p in topics[t].partitions]
    return log.offsets(sorted(there), LATEST)


def _group(
    name: str,
    described: Any,
    committed: dict[tuple[str, int], int],
    ends: dict[tuple[str, int], int],
) -> Group:
    if described is None:
        members: tuple[Member, ...] = ()
        state, kind, assignor = "DEAD", "", ""
    else:
        members = tuple(
            Member(
                each.member_id,
                each.client_id,
                each.host.lstrip("/"),
                tuple(sorted(_assigned(each))),
                each.group_instance_id,
            )
            for each in described.members
        )
        state, kind = described.state.name, described.type.name.lower()
        assignor = described.partition_assignor or ""
    owner = {place: each.client_id for each in members for place in each.partitions}
    places = sorted({*committed, *owner})
    partitions = tuple(
        PartitionLag(*place, committed.get(place), ends.get(place), owner.get(place))
        for place in places
    )
    return Group(name, state, kind, members, partitions, assignor)
