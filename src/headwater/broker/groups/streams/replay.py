"""From the log back to streams groups: any bytes give a value or `BadRecord`; see `modern.replay`.

Layouts stand in `records`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.broker.groups.cursor import BadRecord, Cursor
from headwater.broker.groups.modern.flexible import (
    close_value,
    open_value,
    read_ints,
    read_strings,
    tag_zero,
)
from headwater.broker.groups.modern.member import MemberState, without
from headwater.broker.groups.modern.records import read_target
from headwater.broker.groups.modern.replay import Parts, Replay
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import (
    Assignment,
    Endpoint,
    Held,
    Holding,
    StreamsMember,
    Tasks,
)
from headwater.broker.groups.streams.records import (
    CURRENT,
    GROUP,
    KINDS,
    MEMBER,
    MEMBER_TARGET,
    TARGET,
    TOPOLOGY,
    GroupValue,
)
from headwater.broker.groups.streams.topology import Copartition, Subtopology, TopicInfo, Topology


@dataclass(frozen=True, slots=True)
class CurrentValue:
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Holding
    revoking: Holding


def read_group(data: bytes) -> GroupValue:
    cursor = open_value(data)
    epoch, metadata_hash = cursor.i32(), cursor.i64()
    found = cursor.tags()
    cursor.end()
    validated = Cursor(found[0]).i32() if 0 in found else -1
    configs = _pairs(Cursor(found[1], flexible=True)) if 1 in found else ()
    return GroupValue(epoch, metadata_hash, validated, configs)


def read_member(data: bytes) -> StreamsMember:
    """A member as it described itself; its id stands in the key."""
    cursor = open_value(data)
    instance_id, rack_id = cursor.nullable_string(), cursor.nullable_string()
    client_id, client_host = cursor.string(), cursor.string()
    rebalance_timeout_ms, topology_epoch = cursor.i32(), cursor.i32()
    process_id = cursor.string()
    endpoint = _endpoint(cursor) if cursor.i8() >= 0 else None
    client_tags = _pairs(cursor)
    close_value(cursor)
    return StreamsMember(
        "",
        instance_id,
        rack_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        topology_epoch=topology_epoch,
        process_id=process_id,
        endpoint=endpoint,
        tags=client_tags,
    )


def _endpoint(cursor: Cursor) -> Endpoint:
    endpoint = Endpoint(cursor.string(), cursor.i16() & 0xFFFF)
    cursor.skip_tags()
    return endpoint


def read_member_target(data: bytes) -> Assignment:
    cursor = open_value(data)
    target = Assignment(_tasks(cursor), _tasks(cursor), _tasks(cursor))
    close_value(cursor)
    return target


def _tasks(cursor: Cursor) -> Tasks:
    tasks = {}
    for _ in range(cursor.count()):
        subtopology = cursor.string()
        tasks[subtopology] = frozenset(read_ints(cursor))
        cursor.skip_tags()
    return {subtopology: numbers for subtopology, numbers in tasks.items() if numbers}


def read_current(data: bytes) -> CurrentValue:
    cursor = open_value(data)
    epoch, previous, number = cursor.i32(), cursor.i32(), cursor.i8()
    state = MemberState.read(number)
    assigned, revoking = (Holding(*(_held(cursor, epoch) for _ in range(3))) for _ in range(2))
    close_value(cursor)
    return CurrentValue(epoch, previous, state, assigned, revoking)


def _held(cursor: Cursor, epoch: int) -> Held:
    held: Held = {}
    for _ in range(cursor.count()):
        subtopology, numbers = cursor.string(), read_ints(cursor)
        tag = tag_zero(cursor)
        epochs = read_ints(tag) if tag and tag.data != b"\0" else [epoch] * len(numbers)
        if len(epochs) != len(numbers):
            raise BadRecord(f"{len(epochs)} epochs of {len(numbers)} tasks")
        if numbers:
            held[subtopology] = dict(zip(numbers, epochs, strict=True))
    return held


def read_topology(data: bytes) -> Topology:
    cursor = open_value(data)
    epoch = cursor.i32()
    found = [_subtopology(cursor) for _ in range(cursor.count())]
    close_value(cursor)
    by_id = {each.id: each for each in found}
    return Topology(epoch, tuple(by_id[id] for id in sorted(by_id)))


def _subtopology(cursor: Cursor) -> Subtopology:
    id, sources, regexes = cursor.string(), read_strings(cursor), read_strings(cursor)
    changelogs, sinks, repartitions = _topics(cursor), read_strings(cursor), _topics(cursor)
    groups = tuple([_copartition(cursor) for _ in range(cursor.count())])
    cursor.skip_tags()
    each = Subtopology(id, sources, regexes, changelogs, sinks, repartitions, groups)
    if each.has_wrong_places:
        raise BadRecord(f"subtopology {id} has a copartition group of topics that it does not have")
    return each


def _topics(cursor: Cursor) -> tuple[TopicInfo, ...]:
    found = []
    for _ in range(cursor.count()):
        found.append(TopicInfo(cursor.string(), cursor.i32(), cursor.i16(), _pairs(cursor)))
        cursor.skip_tags()
    return tuple(found)


def _copartition(cursor: Cursor) -> Copartition:
    group = Copartition(_shorts(cursor), _shorts(cursor), _shorts(cursor))
    cursor.skip_tags()
    return group


def _shorts(cursor: Cursor) -> tuple[int, ...]:
    return tuple([cursor.i16() for _ in range(cursor.count())])


def _pairs(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    found = []
    for _ in range(cursor.count()):
        found.append((cursor.string(), cursor.string()))
        cursor.skip_tags()
    return tuple(found)


READERS = {
    GROUP: read_group,
    MEMBER: read_member,
    TARGET: read_target,
    MEMBER_TARGET: read_member_target,
    CURRENT: read_current,
    TOPOLOGY: read_topology,
}


class StreamsReplay(Replay[StreamsGroup]):
    kinds, readers = KINDS, READERS

    def built(self, group_id: str, parts: Parts) -> StreamsGroup:
        group = StreamsGroup(group_id)
        value: GroupValue = parts.get(KINDS.group).get("", GroupValue(1, 0))
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        group.validated_epoch, group.configs = value.validated_epoch, dict(value.configs)
        group.target_epoch, group.target_timestamp = parts.get(KINDS.target).get("", (1, 0))
        group.topology = parts.get(TOPOLOGY).get("")
        said, currents = parts.get(KINDS.member), parts.get(KINDS.current)
        for id in self.newest_first(parts):
            member, current = replace(said[id], id=id), currents.get(id)
            if current is not None:
                member.epoch, member.previous_epoch = current.epoch, current.previous_epoch
                member.state = current.state
                member.assigned = _unowned(group, current.assigned)
                member.revoking = _unowned(group, current.revoking)
            group.add(member)
        targets = parts.get(KINDS.member_target)
        group.target = {id: targets[id] for id in targets if id in group.members}
        return group


def _unowned(group: StreamsGroup, holding: Holding) -> Holding:
    return holding._replace(active=without(holding.active, group.owners))
