"""The messages of PostgreSQL's `pgoutput` plug-in, protocol versions 1 and 2; pure.

Called by `transactions` with one message at a time. All numbers are big-endian; a name ends with a zero
byte. Inside a stream of an unfinished transaction (between S and E) the messages R Y I U D T M have the
xid of their (sub)transaction after the first byte.

| byte | message | layout after the first byte |
|---|---|---|
| B | begin | final lsn i64, commit time i64 (µs since 2000), xid i32 |
| C | commit | flags i8, commit lsn i64, end lsn i64, time i64 |
| O | origin | lsn i64, name |
| R | relation | id i32, namespace, name, identity char, n i16, n × (flags i8, name, type i32, modifier i32) |
| Y | type | id i32, namespace, name |
| I | insert | relation i32, 'N', tuple |
| U | update | relation i32, optional ('K' or 'O', tuple), 'N', tuple |
| D | delete | relation i32, 'K' or 'O', tuple |
| T | truncate | n i32, options i8, n × relation i32 |
| M | logical message | flags i8 (1: transactional), lsn i64, prefix, length i32, content |
| S E c A | stream start, stop, commit, abort | xid, first i8 · – · xid and as C · xid, subxid |

A tuple is n i16, then for each column one byte: n (null), u (unchanged TOAST, not sent), t or b with
length i32 and the value as text or binary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct, error, unpack_from
from typing import NamedTuple

from headwater.capture.envelope import NULL, UNAVAILABLE

Converter = Callable[[bytes], str]

_BEGIN = Struct(">qqI")
_COMMIT = Struct(">Bqqq")
_COLUMN = Struct(">Ii")
_LENGTH = Struct(">i").unpack_from
_COUNT = Struct(">H").unpack_from
EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts from 2000-01-01; everyone else from 1970."""


class Malformed(ValueError):
    """Bytes that are no message of this protocol."""


class Begin(NamedTuple):
    final_lsn: int
    time_us: int
    xid: int


class Commit(NamedTuple):
    commit_lsn: int
    end_lsn: int
    time_us: int


class RelationColumn(NamedTuple):
    name: str
    type_id: int
    modifier: int
    in_identity: bool


class RelationMessage(NamedTuple):
    relation: int
    namespace: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class LogicalMessage(NamedTuple):
    transactional: bool
    lsn: int
    prefix: str
    content: bytes


def begin(data: bytes, at: int = 1) -> Begin:
    lsn, time_us, xid = _fixed(_BEGIN, data, at)
    return Begin(lsn, time_us + EPOCH_US, xid)


def commit(data: bytes, at: int = 1) -> Commit:
    _flags, commit_lsn, end_lsn, time_us = _fixed(_COMMIT, data, at)
    return Commit(commit_lsn, end_lsn, time_us + EPOCH_US)


def relation(data: bytes, at: int) -> RelationMessage:
    """`at`: where the message goes on after its first byte and, in a stream, its xid."""
    try:
        (identity,) = unpack_from(">I", data, at)
        namespace, at = _name(data, at + 4)
        name, at = _name(data, at)
        replica, (count,) = chr(data[at]), _COUNT(data, at + 1)
        at += 3
        columns = []
        for _ in range(count):
            flags = data[at]
            column, at = _name(data, at + 1)
            type_id, modifier = _COLUMN.unpack_from(data, at)
            at += 8
            columns.append(RelationColumn(column, type_id, modifier, bool(flags & 1)))
    except (error, IndexError) as problem:
        raise Malformed(f"a relation message ends too early: {problem}") from None
    _at_end(data, at)
    # pg_catalog is sent as an empty name.
    return RelationMessage(identity, namespace or "pg_catalog", name, replica, tuple(columns))


def truncate(data: bytes, at: int) -> tuple[int, ...]:
    """The relations that were emptied."""
    try:
        (count,) = unpack_from(">I", data, at)
        found: tuple[int, ...] = unpack_from(f">{count}I", data, at + 5)
    except error as problem:
        raise Malformed(f"a truncate message ends too early: {problem}") from None
    _at_end(data, at + 5 + 4 * count)
    return found


def message(data: bytes, at: int) -> LogicalMessage:
    try:
        flags = data[at]
        (lsn,) = unpack_from(">q", data, at + 1)
        prefix, at = _name(data, at + 9)
        (length,) = _LENGTH(data, at)
    except (error, IndexError) as problem:
        raise Malformed(f"a logical message ends too early: {problem}") from None
    _at_end(data, at + 4 + length)
    return LogicalMessage(bool(flags & 1), lsn, prefix, data[at + 4 :])


def row(data: bytes, at: int, converters: Sequence[Converter]) -> tuple[list[str], int]:
    """One tuple, from its column count on, as JSON fragments; and where the message goes on."""
    try:
        (count,) = _COUNT(data, at)
        if count != len(converters):
            raise Malformed(f"{count} columns, but the relation has {len(converters)}")
        at += 2
        values: list[str] = []
        add = values.append
        for convert in converters:
            kind = data[at]
            if kind == 0x74:  # t
                (length,) = _LENGTH(data, at + 1)
                end = at + 5 + length
                if length < 0 or end > len(data):
                    raise Malformed("a value goes beyond its message")
                add(convert(data[at + 5 : end]))
                at = end
            elif kind == 0x6E:  # n
                add(NULL)
                at += 1
            elif kind == 0x75:  # u
                add(UNAVAILABLE)
                at += 1
            else:
                raise Malformed(f"a column of kind {chr(kind)!r}, where text was asked for")
    except (error, IndexError) as problem:
        raise Malformed(f"a row ends too early: {problem}") from None
    return values, at


def insert(data: bytes, at: int, converters: Sequence[Converter]) -> list[str]:
    """`at`: after the relation's id."""
    _expect(data, at, b"N")
    values, end = row(data, at + 1, converters)
    _at_end(data, end)
    return values


def update(
    data: bytes, at: int, converters: Sequence[Converter]
) -> tuple[str, list[str] | None, list[str]]:
    """What the old row is (K: its identity, O: all of it, N: not sent), the old row, the new one."""
    kind = _expect(data, at, b"KON")
    if kind == "N":
        return kind, None, insert(data, at, converters)
    old, at = row(data, at + 1, converters)
    return kind, old, insert(data, at, converters)


def delete(data: bytes, at: int, converters: Sequence[Converter]) -> tuple[str, list[str]]:
    kind = _expect(data, at, b"KO")
    values, end = row(data, at + 1, converters)
    _at_end(data, end)
    return kind, values


def _expect(data: bytes, at: int, kinds: bytes) -> str:
    if at >= len(data) or data[at] not in kinds:
        raise Malformed(f"one of {kinds.decode()} was expected at byte {at}")
    return chr(data[at])


def _at_end(data: bytes, at: int) -> None:
    if at != len(data):
        raise Malformed(f"the message has {len(data)} bytes, its fields {at}")


def _fixed(shape: Struct, data: bytes, at: int) -> tuple[int, ...]:
    if len(data) != at + shape.size:
        raise Malformed(f"a message {data[:1]!r} of {len(data)} bytes")
    return shape.unpack_from(data, at)


def _name(data: bytes, at: int) -> tuple[str, int]:
    end = data.find(b"\0", at)
    if end < 0:
        raise Malformed("a name without its end")
    try:
        return data[at:end].decode(), end + 1
    except UnicodeDecodeError as problem:
        raise Malformed(f"a name that is not UTF-8: {problem}") from None
