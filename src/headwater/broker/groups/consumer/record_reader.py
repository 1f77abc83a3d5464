"""The values of `records`, read back: any bytes give a value or `BadRecord`.

`replay` calls these at start. Layouts stand in `records`.
"""

from __future__ import annotations

from uuid import UUID

from headwater.broker.groups.consumer.member import ClassicSide, Held, MemberState
from headwater.broker.groups.consumer.records import (
    CURRENT,
    GROUP,
    MEMBER,
    MEMBER_TARGET,
    OF_GROUP,
    OF_MEMBER,
    REGEX,
    TARGET,
    CurrentValue,
    Key,
    MemberValue,
    RegexValue,
)
from headwater.broker.groups.cursor import BadRecord, Cursor
from headwater.broker.groups.flexible import close_value, open_value, read_ints, tag_zero

Value = int | tuple[int, int] | MemberValue | CurrentValue | RegexValue | dict[UUID, frozenset[int]]


def read_key(data: bytes) -> Key | None:
    """The key, or None for a kind of record that is not a consumer group's."""
    cursor = Cursor(data)
    kind = cursor.i16()
    if kind not in OF_GROUP and kind not in OF_MEMBER:
        return None
    key = Key(kind, cursor.string(), cursor.string() if kind in OF_MEMBER else "")
    cursor.end()
    return key


def read_group(data: bytes) -> tuple[int, int]:
    """Epoch and hash of the topics."""
    cursor = open_value(data)
    epoch = cursor.i32()
    tag = close_value(cursor)
    return epoch, tag.i64() if tag else 0


def read_target(data: bytes) -> tuple[int, int]:
    """Epoch and time of the target assignment."""
    return read_group(data)


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
    known = number in (0, 1, 2)
    state = MemberState(number) if known else MemberState.UNKNOWN
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
