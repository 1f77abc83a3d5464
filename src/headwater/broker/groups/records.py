"""The records of `__consumer_offsets`: Apache Kafka's own formats, byte for byte.

The coordinator writes them, `restore` reads them back at start, and so do Kafka's formatters and
`DumpLogSegments --offsets-decoder`. All integers are big-endian. `string` is an int16 length
(-1 = null) and UTF-8, `bytes` an int32 length and data, `[]` an int32 count and items; in flexible
versions (4) lengths are unsigned varints of length + 1 (0 = null) and every struct ends with its
tagged fields.

    OffsetCommitKey     version int16 (0, 1) | group string | topic string | partition int32
    OffsetCommitValue   version int16 (0 to 4) | offset int64 | leader_epoch int32 (3+)
                        | metadata string | commit_timestamp int64 | expire_timestamp int64 (1 only)
                        | tagged fields (4): 0 = topic_id uuid, 10000 = expire_timestamp int64 (ours)
    GroupMetadataKey    version int16 (2) | group string
    GroupMetadataValue  version int16 (0 to 4) | protocol_type string | generation int32
                        | protocol string? | leader string? | current_state_timestamp int64 (2+)
                        | members [] of: member_id string | group_instance_id string? (3+)
                          | client_id string | client_host string | rebalance_timeout int32 (1+)
                          | session_timeout int32 | subscription bytes | assignment bytes

A value of None (a tombstone) removes its key. An offset key must be written as version 1, a group
key as version 2: the key's version is what tells the kinds apart, and compaction compares keys as
bytes. An offset value must be version 4 with the id of the topic that it belongs to, because a name may be
another topic's tomorrow; an expiry of its own (OffsetCommit 2 to 4) is then in a tagged field, which Kafka
passes over. Without an id it is version 1 if it has an expiry, else 3. A group value must be version 3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

from headwater.broker.groups.cursor import BadRecord, Cursor

STRING_BYTES_MAX = 0x7FFF
OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
TOPIC_ID_TAG = 0
EXPIRY_TAG = 10_000

_i16 = struct.Struct(">h")
_i32 = struct.Struct(">i")
_i64 = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetValue:
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    topic_id: UUID | None = None
    """Of the topic it was committed for, where that is known."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class MemberValue:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupValue:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp: int
    members: tuple[MemberValue, ...]


# ---- writing -------------------------------------------------------------------------------------


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise BadRecord(f"a string of {len(data)} bytes does not fit an int16 length")
    return _i16.pack(len(data)) + data


def uvarint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _bytes(data: bytes) -> bytes:
    return _i32.pack(len(data)) + data


def offset_key(key: OffsetKey) -> bytes:
    version = _i16.pack(OFFSET_KEY_VERSION)
    return version + _string(key.group_id) + _string(key.topic) + _i32.pack(key.partition)


def offset_value(value: OffsetValue) -> bytes:
    if value.topic_id is not None:
        return _flexible_offset_value(value, value.topic_id)
    metadata = _string(value.metadata)
    if value.expire_timestamp >= 0:
        times = struct.pack(">qq", value.commit_timestamp, value.expire_timestamp)
        return struct.pack(">hq", 1, value.offset) + metadata + times
    head = struct.pack(">hqi", 3, value.offset, value.leader_epoch)
    return head + metadata + _i64.pack(value.commit_timestamp)


def _flexible_offset_value(value: OffsetValue, topic_id: UUID) -> bytes:
    text = value.metadata.encode()
    tags = [_tag(TOPIC_ID_TAG, topic_id.bytes)]
    if value.expire_timestamp >= 0:
        tags.append(_tag(EXPIRY_TAG, _i64.pack(value.expire_timestamp)))
    return b"".join(
        (
            struct.pack(">hqi", 4, value.offset, value.leader_epoch),
            uvarint(len(text) + 1) + text,
            _i64.pack(value.commit_timestamp),
            uvarint(len(tags)),
            *tags,
        )
    )


def _tag(number: int, data: bytes) -> bytes:
    return uvarint(number) + uvarint(len(data)) + data


def group_key(group_id: str) -> bytes:
    return _i16.pack(GROUP_KEY_VERSION) + _string(group_id)


def group_value(value: GroupValue) -> bytes:
    parts = [
        _i16.pack(3),
        _string(value.protocol_type),
        _i32.pack(value.generation),
        _string(value.protocol),
        _string(value.leader),
        struct.pack(">qi", value.state_timestamp, len(value.members)),
    ]
    parts += map(_member, value.members)
    return b"".join(parts)


def _member(member: MemberValue) -> bytes:
    return b"".join(
        (
            _string(member.member_id),
            _string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    )


# ---- reading -------------------------------------------------------------------------------------


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    """The key, or None for a kind of record that belongs to another type of group."""
    cursor = Cursor(data)
    version = cursor.i16()
    key: OffsetKey | GroupKey
    if version in (0, OFFSET_KEY_VERSION):
        key = OffsetKey(cursor.string(), cursor.string(), cursor.i32())
    elif version == GROUP_KEY_VERSION:
        key = GroupKey(cursor.string())
    elif version > GROUP_KEY_VERSION:
        return None
    else:
        raise BadRecord(f"a key of version {version}")
    cursor.end()
    return key


def _versioned(data: bytes) -> tuple[Cursor, int]:
    cursor = Cursor(data)
    version = cursor.i16()
    if not 0 <= version <= 4:
        raise BadRecord(f"a value of version {version}; versions 0 to 4 are known")
    cursor.flexible = version == 4
    return cursor, version


def read_offset_value(data: bytes) -> OffsetValue:
    cursor, version = _versioned(data)
    offset = cursor.i64()
    leader_epoch = cursor.i32() if version >= 3 else -1
    metadata = cursor.string()
    committed = cursor.i64()
    expires = cursor.i64() if version == 1 else -1
    tags = cursor.tags()
    topic_id, own_expiry = tags.get(TOPIC_ID_TAG), tags.get(EXPIRY_TAG)
    cursor.end()
    if topic_id is not None and len(topic_id) != 16:
        raise BadRecord(f"a topic id of {len(topic_id)} bytes")
    if own_expiry is not None:
        if len(own_expiry) != _i64.size:
            raise BadRecord(f"an expiry of {len(own_expiry)} bytes")
        (expires,) = _i64.unpack(own_expiry)
    found = UUID(bytes=topic_id) if topic_id is not None and any(topic_id) else None
    return OffsetValue(offset, leader_epoch, metadata, committed, expires, found)


def read_group_value(data: bytes) -> GroupValue:
    cursor, version = _versioned(data)
    protocol_type, generation = cursor.string(), cursor.i32()
    protocol, leader = cursor.nullable_string(), cursor.nullable_string()
    state_timestamp = cursor.i64() if version >= 2 else -1
    members = tuple(_read_member(cursor, version) for _ in range(cursor.count()))
    cursor.skip_tags()
    cursor.end()
    return GroupValue(protocol_type, generation, protocol, leader, state_timestamp, members)


def _read_member(cursor: Cursor, version: int) -> MemberValue:
    member_id = cursor.string()
    instance_id = cursor.nullable_string() if version >= 3 else None
    client_id, client_host = cursor.string(), cursor.string()
    rebalance = cursor.i32() if version >= 1 else -1
    session = cursor.i32()
    subscription, assignment = cursor.bytes(), cursor.bytes()
    cursor.skip_tags()
    if rebalance < 0:  # version 0 knew only one time-out
        rebalance = session
    return MemberValue(
        member_id, instance_id, client_id, client_host, rebalance, session, subscription, assignment
    )
