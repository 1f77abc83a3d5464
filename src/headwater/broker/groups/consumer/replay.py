"""From the log back to consumer groups: any bytes give a value or `BadRecord`; see `modern.replay`.

Layouts stand in `records`.
"""

from __future__ import annotations

from uuid import UUID

from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ClassicSide, ConsumerMember, Held
from headwater.broker.groups.consumer.records import (
    CURRENT,
    GROUP,
    KINDS,
    MEMBER,
    MEMBER_TARGET,
    REGEX,
    TARGET,
    CurrentValue,
    MemberValue,
    RegexValue,
)
from headwater.broker.groups.cursor import BadRecord, Cursor
from headwater.broker.groups.modern.flexible import close_value, open_value, read_ints, tag_zero
from headwater.broker.groups.modern.member import MemberState, without
from headwater.broker.groups.modern.records import read_target
from headwater.broker.groups.modern.replay import Parts, Replay


def read_group(data: bytes) -> tuple[int, int]:
    """Epoch and hash of the topics."""
    cursor = open_value(data)
    epoch = cursor.i32()
    tag = close_value(cursor)
    return epoch, tag.i64() if tag else 0


def read_member(data: bytes) -> MemberValue:
    cursor = open_value(data)
    instance_id, rack_id = cursor.nullable_string(), cursor.nullable_string()
    client_id, client_host = cursor.string(), cursor.string()
    names = frozenset([cursor.string() for _ in range(cursor.count())])
    regex = cursor.nullable_string()
    rebalance_timeout_ms, assignor = cursor.i32(), cursor.nullable_string()
    tag = close_value(cursor)
    classic = _classic(tag) if tag else None
    return MemberValue(
        instance_id,
        rack_id,
        client_id,
        client_host,
        names,
        regex,
        rebalance_timeout_ms,
        assignor,
        classic,
    )


def _classic(cursor: Cursor) -> ClassicSide | None:
    if cursor.i8() < 0:
        return None
    session_timeout_ms = cursor.i32()
    protocols = []
    for _ in range(cursor.count()):
        protocols.append((cursor.string(), cursor.bytes()))
        cursor.skip_tags()
    return ClassicSide(session_timeout_ms, tuple(protocols))


def read_member_target(data: bytes) -> dict[UUID, frozenset[int]]:
    cursor = open_value(data)
    target = {}
    for _ in range(cursor.count()):
        topic_id = UUID(bytes=cursor.take(16))
        target[topic_id] = frozenset(read_ints(cursor))
        cursor.skip_tags()
    close_value(cursor)
    return target


def read_current(data: bytes) -> CurrentValue:
    cursor = open_value(data)
    epoch, previous, number = cursor.i32(), cursor.i32(), cursor.i8()
    state = MemberState.read(number)
    value = CurrentValue(epoch, previous, state, _held(cursor, epoch), _held(cursor, epoch))
    close_value(cursor)
    return value


def _held(cursor: Cursor, epoch: int) -> Held:
    held: Held = {}
    for _ in range(cursor.count()):
        topic_id = UUID(bytes=cursor.take(16))
        numbers = read_ints(cursor)
        tag = tag_zero(cursor)
        epochs = (
            read_ints(tag) if tag else [epoch] * len(numbers)
        )  # before Kafka 4.3 there were none
        if len(epochs) != len(numbers):
            raise BadRecord(f"{len(epochs)} epochs of {len(numbers)} partitions")
        held[topic_id] = dict(zip(numbers, epochs, strict=True))
    return held


def read_regex(data: bytes) -> RegexValue:
    cursor = open_value(data)
    topics = frozenset([cursor.string() for _ in range(cursor.count())])
    value = RegexValue(topics, cursor.i64(), cursor.i64())
    close_value(cursor)
    return value


READERS = {
    GROUP: read_group,
    MEMBER: read_member,
    TARGET: read_target,
    MEMBER_TARGET: read_member_target,
    CURRENT: read_current,
    REGEX: read_regex,
}


class ConsumerReplay(Replay[ConsumerGroup]):
    kinds, readers = KINDS, READERS

    def built(self, group_id: str, parts: Parts) -> ConsumerGroup:
        group = ConsumerGroup(group_id)
        group.epoch, group.metadata_hash = parts.get(KINDS.group).get("", (0, 0))
        group.target_epoch, group.target_timestamp = parts.get(KINDS.target).get("", (0, 0))
        group.regexes = dict(parts.get(REGEX))
        said, currents = parts.get(KINDS.member), parts.get(KINDS.current)
        for id in self.newest_first(parts):
            group.add(_member(group, id, said[id], currents.get(id)))
        targets = parts.get(KINDS.member_target)
        group.target = {id: targets[id] for id in targets if id in group.members}
        group.subscribe()
        return group


def _member(
    group: ConsumerGroup, member_id: str, said: MemberValue, current: CurrentValue | None
) -> ConsumerMember:
    member = ConsumerMember(
        member_id,
        said.instance_id,
        said.rack_id,
        said.client_id,
        said.client_host,
        said.rebalance_timeout_ms,
        topic_names=said.topic_names,
        topic_regex=said.topic_regex or "",
        assignor=said.assignor,
        classic=said.classic,
    )
    if current is not None:
        member.epoch, member.previous_epoch = current.epoch, current.previous_epoch
        member.state = current.state
        member.assigned = without(current.assigned, group.owners)
        member.revoking = without(current.revoking, group.owners)
    return member
