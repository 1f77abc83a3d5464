"""The records of `__transaction_state`: Apache Kafka's own formats, byte for byte.

The coordinator writes them and reads them back at start; `DumpLogSegments --transaction-log-decoder`
reads them, too. Big-endian; in version 1 lengths are unsigned varints of length + 1 (0 = null) and
every struct ends with its tagged fields.

    TransactionLogKey    version int16 (0) | transactional_id string
    TransactionLogValue  version int16 (0, 1) | producer_id int64 | producer_epoch int16
                         | transaction_timeout_ms int32 | status int8
                         | partitions []? of: topic string | partition_ids [] of int32
                         | last_update_timestamp_ms int64 | start_timestamp_ms int64
                         | tagged fields (1): 0 = previous_producer_id int64,
                           1 = next_producer_id int64, 2 = client_transaction_version int16

A value of None (a tombstone) forgets the id. Values must be written as version 1.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from headwater.broker.groups.cursor import BadRecord, Cursor
from headwater.broker.transactions.transaction import NO_ID, State, TopicPartition, Transaction
from headwater.wire.writer import uvarint

_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
_i32 = struct.Struct(">i").pack


def key(name: str) -> bytes:
    data = name.encode()
    return struct.pack(">hh", 0, len(data)) + data


def value(known: Transaction) -> bytes:
    parts = [
        _HEAD.pack(1, known.producer_id, known.epoch, known.timeout_ms, known.state),
        _partitions(known),
        _TIMES.pack(known.updated_ms, known.start_ms),
        _tags(known),
    ]
    return b"".join(parts)


def _partitions(known: Transaction) -> bytes:
    if known.state is State.EMPTY:
        return b"\0"
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(known.partitions):
        topics.setdefault(topic, []).append(number)
    parts = [uvarint(len(topics) + 1)]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts += (uvarint(len(name) + 1), name, uvarint(len(numbers) + 1))
        parts += map(_i32, numbers)
        parts.append(b"\0")
    return b"".join(parts)


def _tags(known: Transaction) -> bytes:
    tags: list[tuple[int, bytes]] = []
    if known.previous_producer_id != NO_ID:
        tags.append((0, struct.pack(">q", known.previous_producer_id)))
    if known.next_producer_id != NO_ID:
        tags.append((1, struct.pack(">q", known.next_producer_id)))
    if known.version:
        tags.append((2, struct.pack(">h", known.version)))
    parts = [uvarint(len(tags))]
    for tag, data in tags:
        parts += (uvarint(tag), uvarint(len(data)), data)
    return b"".join(parts)


# ---- reading ---------------------------------------------------------------------------------------


def read_key(data: bytes) -> str | None:
    """The transactional id, or None for a kind of record that we do not know."""
    cursor = Cursor(data)
    if cursor.i16() != 0:
        return None
    name = cursor.string()
    cursor.end()
    return name


def read_value(name: str, data: bytes) -> Transaction:
    """Raises BadRecord."""
    cursor = Cursor(data)
    version = cursor.i16()
    if version not in (0, 1):
        raise BadRecord(f"a transaction of version {version}; versions 0 and 1 are known")
    cursor.flexible = version == 1
    producer_id, epoch, timeout_ms = cursor.i64(), cursor.i16(), cursor.i32()
    try:
        state = State(cursor.take(1)[0])
    except ValueError as error:
        raise BadRecord(str(error)) from None
    partitions = _read_partitions(cursor)
    updated_ms, start_ms = cursor.i64(), cursor.i64()
    known = Transaction(
        name,
        producer_id,
        epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        start_ms=start_ms,
        updated_ms=updated_ms,
    )
    if cursor.flexible:
        known = _read_tags(cursor, known)
    cursor.end()
    return known


def _read_partitions(cursor: Cursor) -> frozenset[TopicPartition]:
    count = cursor.uvarint() - 1 if cursor.flexible else cursor.i32()
    if count > len(cursor.data):
        raise BadRecord(f"{count} topics cannot be in {len(cursor.data)} bytes")
    found: set[TopicPartition] = set()
    for _ in range(count):
        topic = cursor.string()
        found.update((topic, cursor.i32()) for _ in range(cursor.count()))
        cursor.skip_tags()
    return frozenset(found)


def _read_tags(cursor: Cursor, known: Transaction) -> Transaction:
    for _ in range(cursor.uvarint()):
        tag, size = cursor.uvarint(), cursor.uvarint()
        number = int.from_bytes(cursor.take(size), "big", signed=True)
        if tag == 0:
            known = replace(known, previous_producer_id=number)
        elif tag == 1:
            known = replace(known, next_producer_id=number)
        elif tag == 2:
            known = replace(known, version=number)
    return known
