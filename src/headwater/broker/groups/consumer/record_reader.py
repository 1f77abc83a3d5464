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
    cursor = _open(data)
    epoch = cursor.i32()
    tag = _close(cursor)
    return epoch, tag.i64() if tag else 0


def read_target(data: bytes) -> tuple[int, int]:
    """Epoch and time of the target assignment."""
    return read_group(data)


def read_member(data: bytes) -> MemberValue:
    cursor = _open(data)
    instance_id, rack_id = cursor.nullable_string(), cursor.nullable_string()
    client_id, client_host = cursor.string(), cursor.string()
    names = frozenset([cursor.string() for _ in range(cursor.count())])
    regex = cursor.nullable_string()
    rebalance_timeout_ms, assignor = cursor.i32(), cursor.nullable_string()
    tag = _close(cursor)
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
    cursor = _open(data)
    target = {}
    for _ in range(cursor.count()):
        topic_id = UUID(bytes=cursor.take(16))
        target[topic_id] = frozenset(_ints(cursor))
        cursor.skip_tags()
    _close(cursor)
    return target


def read_current(data: bytes) -> CurrentValue:
    cursor = _open(data)
    epoch, previous, number = cursor.i32(), cursor.i32(), cursor.i8()
    known = number in (0, 1, 2)
    state = MemberState(number) if known else MemberState.UNKNOWN
    value = CurrentValue(epoch, previous, state, _held(cursor, epoch), _held(cursor, epoch))
    _close(cursor)
    return value


def _held(cursor: Cursor, epoch: int) -> Held:
    held: Held = {}
    for _ in range(cursor.count()):
        topic_id = UUID(bytes=cursor.take(16))
        numbers = _ints(cursor)
        tag = _tag_zero(cursor)
        epochs = _ints(tag) if tag else [epoch] * len(numbers)  # before Kafka 4.3 there were none
        if len(epochs) != len(numbers):
            raise BadRecord(f"{len(epochs)} epochs of {len(numbers)} partitions")
        held[topic_id] = dict(zip(numbers, epochs, strict=True))
    return held


def read_regex(data: bytes) -> RegexValue:
    cursor = _open(data)
    topics = frozenset([cursor.string() for _ in range(cursor.count())])
    value = RegexValue(topics, cursor.i64(), cursor.i64())
    _close(cursor)
    return value


READERS = {
    GROUP: read_group,
    MEMBER: read_member,
    TARGET: read_target,
    MEMBER_TARGET: read_member_target,
    CURRENT: read_current,
    REGEX: read_regex,
}


def _open(data: bytes) -> Cursor:
    cursor = Cursor(data, flexible=True)
    version = cursor.i16()
    if version != 0:
        raise BadRecord(f"a value of version {version}; only 0 is known")
    return cursor


def _close(cursor: Cursor) -> Cursor | None:
    tag = _tag_zero(cursor)
    cursor.end()
    return tag


def _tag_zero(cursor: Cursor) -> Cursor | None:
    """Read over tagged fields; the one with tag 0 is returned."""
    found = None
    for _ in range(cursor.uvarint()):
        tag, data = cursor.uvarint(), cursor.take(cursor.uvarint())
        if tag == 0:
            found = Cursor(data, flexible=True)
    return found


def _ints(cursor: Cursor) -> list[int]:
    return [cursor.i32() for _ in range(cursor.count())]
