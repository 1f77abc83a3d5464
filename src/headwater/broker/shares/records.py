"""The records of `__share_group_state`: what a share group has done with a partition, in Kafka's bytes.

`state_topic` writes and reads them. Kafka's own tools print them (`ShareGroupStateMessageFormatter`).

    key         type int16 | group id string (int16 length) | topic id 16 bytes | partition int32
                type 0: a snapshot, type 1: an update

    snapshot    version int16 = 0 | snapshot epoch int32 | state epoch int32 | leader epoch int32 |
                start offset int64 | created int64 | written int64 | batches | tagged fields
    update      version int16 = 0 | snapshot epoch int32 | leader epoch int32 | start offset int64 |
                batches | tagged fields

    batches     count + 1 as unsigned varint, then for each: first offset int64 | last offset int64 |
                delivery state int8 | delivery count int16 | 0 (no tagged fields)
    tagged      tag 0: delivery complete count int32 (KIP-1226)

A snapshot must stand for everything before it under the same group, topic and partition; an update
must change only the offsets that it names. A snapshot key without a value removes the state.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from headwater.broker.groups.cursor import BadRecord
from headwater.broker.shares.state import Change, State
from headwater.wire.errors import WireError
from headwater.wire.guard import unsigned_varint
from headwater.wire.writer import uvarint

SNAPSHOT, UPDATE = 0, 1

_SNAPSHOT = struct.Struct(">hiiiqqq")
_UPDATE = struct.Struct(">hiiq")
_BATCH = struct.Struct(">qqbhb")
_COMPLETE = struct.Struct(">bbbi")
_TYPE_AND_LENGTH = struct.Struct(">hh")
_PARTITION = struct.Struct(">i")


class Key(NamedTuple):
    """A share-partition."""

    group_id: str
    topic_id: uuid.UUID
    partition: int


class Value(NamedTuple):
    """The state, or what has changed of it."""

    snapshot_epoch: int
    start: int
    batches: Sequence[Change]
    complete: int = -1
    state_epoch: int = 0
    created: int = 0
    written: int = 0


def write_key(kind: int, key: Key) -> bytes:
    group = key.group_id.encode()
    head = _TYPE_AND_LENGTH.pack(kind, len(group))
    return head + group + key.topic_id.bytes + _PARTITION.pack(key.partition)


def read_key(data: bytes) -> tuple[int, Key]:
    try:
        kind, length = _TYPE_AND_LENGTH.unpack_from(data)
        at = _TYPE_AND_LENGTH.size + length
        if kind not in (SNAPSHOT, UPDATE) or length < 0 or len(data) != at + 20:
            raise BadRecord(f"a key of type {kind} and {len(data)} bytes")
        group_id = data[_TYPE_AND_LENGTH.size : at].decode()
        topic_id = uuid.UUID(bytes=data[at : at + 16])
        return kind, Key(group_id, topic_id, _PARTITION.unpack_from(data, at + 16)[0])
    except (struct.error, UnicodeDecodeError) as error:
        raise BadRecord(str(error)) from None


def write_value(kind: int, value: Value) -> bytes:
    if kind == SNAPSHOT:
        head = _SNAPSHOT.pack(
            0,
            value.snapshot_epoch,
            value.state_epoch,
            0,
            value.start,
            value.created,
            value.written,
        )
    else:
        head = _UPDATE.pack(0, value.snapshot_epoch, 0, value.start)
    batches = [_BATCH.pack(c.first, c.last, c.state, c.deliveries, 0) for c in value.batches]
    tagged = b"\0" if value.complete < 0 else _COMPLETE.pack(1, 0, 4, value.complete)
    return b"".join((head, uvarint(len(batches) + 1), *batches, tagged))


def read_value(kind: int, data: bytes) -> Value:
    try:
        return _read_value(kind, data)
    except BadRecord:
        raise
    except (struct.error, IndexError, ValueError, WireError) as error:
        raise BadRecord(f"a value that breaks off: {error}") from None


def _read_value(kind: int, data: bytes) -> Value:
    state_epoch = created = written = 0
    if kind == SNAPSHOT:
        version, epoch, state_epoch, _, start, created, written = _SNAPSHOT.unpack_from(data)
        at = _SNAPSHOT.size
    else:
        version, epoch, _, start = _UPDATE.unpack_from(data)
        at = _UPDATE.size
    if version != 0:
        raise BadRecord(f"a value of version {version}")
    view = memoryview(data)
    count, at = unsigned_varint(view, at)
    batches: list[Change] = []
    for _ in range(count - 1):
        first, last, state, deliveries, tags = _BATCH.unpack_from(data, at)
        if tags or first > last:
            raise BadRecord(f"a batch {first}–{last} with {tags} tagged fields")
        batches.append(Change(first, last, State(state), deliveries))
        at += _BATCH.size
    complete, at = _read_tagged(data, view, at)
    if at != len(data):
        raise BadRecord(f"{len(data) - at} bytes behind a value")
    return Value(epoch, start, batches, complete, state_epoch, created, written)


def _read_tagged(data: bytes, view: memoryview, at: int) -> tuple[int, int]:
    complete = -1
    count, at = unsigned_varint(view, at)
    for _ in range(min(count, len(data))):
        tag, at = unsigned_varint(view, at)
        size, at = unsigned_varint(view, at)
        if tag == 0:
            (complete,) = _PARTITION.unpack_from(data, at)
        at += size
    return complete, at
