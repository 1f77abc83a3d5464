"""TABLE_MAP events: what a table looked like at the moment of the rows that follow; pure.

| part                | what it holds                                                       |
|---------------------|---------------------------------------------------------------------|
| 6 bytes             | table id, by which row events name the table                        |
| 2 bytes             | flags                                                               |
| 1 + n + 1           | database, its length before and a zero after                        |
| 1 + n + 1           | table, likewise                                                     |
| packed integer      | number of columns                                                   |
| 1 per column        | wire type                                                           |
| packed integer + n  | what the types need: lengths, precision, fraction digits            |
| 1 bit per column    | may be NULL                                                         |
| rest                | optional parts (type, packed length, value): see `_OPTIONAL` below  |

The optional parts make the event self-describing when the server has `binlog_row_metadata=FULL`.
Called by `stream`; the same event comes before nearly every row event, so it caches by bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headwater.capture.errors import BinlogUnreadable
from headwater.capture.mysql.events import packed_integer

DECIMAL, TINY, SHORT, LONG, FLOAT, DOUBLE = 0, 1, 2, 3, 4, 5
NULL, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR = 6, 7, 8, 9, 10, 11, 12, 13
NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 14, 15, 16, 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
VECTOR, JSON, NEWDECIMAL, ENUM, SET = 242, 245, 246, 247, 248
TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB = 249, 250, 251, 252
VAR_STRING, STRING, GEOMETRY = 253, 254, 255

_META_BYTES = {
    **dict.fromkeys((FLOAT, DOUBLE, BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, GEOMETRY, JSON), 1),
    **dict.fromkeys((TIMESTAMP2, DATETIME2, TIME2, BLOB_COMPRESSED), 1),
    **dict.fromkeys((VARCHAR, VAR_STRING, STRING, NEWDECIMAL, BIT, ENUM, SET), 2),
    VARCHAR_COMPRESSED: 2,
    VECTOR: 1,
}
# Both servers count YEAR among the numbers that have a sign bit.
_SIGNED = frozenset((TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL, DECIMAL, YEAR))
_TEXT = frozenset((VARCHAR, VAR_STRING, STRING, BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB))


class Dialect(NamedTuple):
    """Which columns the optional parts speak of, and how a VECTOR is logged: the two servers differ."""

    signed: frozenset[int]
    text: frozenset[int]
    vector: int


# MariaDB gives geometries a character set.
MARIADB = Dialect(_SIGNED, _TEXT | {BLOB_COMPRESSED, VARCHAR_COMPRESSED, GEOMETRY}, vector=VARCHAR)
MYSQL = Dialect(_SIGNED, _TEXT, vector=VECTOR)

(
    SIGNEDNESS,
    DEFAULT_CHARSET,
    COLUMN_CHARSET,
    COLUMN_NAME,
    SET_VALUES,
    ENUM_VALUES,
    GEOMETRY_TYPE,
    SIMPLE_PRIMARY_KEY,
    PRIMARY_KEY_WITH_PREFIX,
    ENUM_AND_SET_DEFAULT_CHARSET,
    ENUM_AND_SET_COLUMN_CHARSET,
) = _OPTIONAL = range(1, 12)


class Wire(NamedTuple):
    """A column's type as the log has it: type, two numbers whose meaning depends on it."""

    type: int
    first: int = 0
    second: int = 0


@dataclass(frozen=True)
class TableMap:
    """A table at one moment. What the server did not log is None."""

    database: str
    table: str
    wires: tuple[Wire, ...]
    nullable: tuple[bool, ...]
    names: tuple[str, ...] | None = None
    unsigned: tuple[bool, ...] | None = None
    collations: tuple[int | None, ...] | None = None
    members: tuple[tuple[bytes, ...] | None, ...] | None = None
    key: tuple[int, ...] = ()
    has_key: bool = field(default=False)
    """Whether `key` was logged; without names it means nothing."""


def parse(data: bytes, dialect: Dialect = MARIADB) -> TableMap:
    """The body of a TABLE_MAP event from the database's name on, without checksum."""
    try:
        return _parse(data, dialect)
    except (IndexError, UnicodeDecodeError) as error:
        raise BinlogUnreadable(f"A table map in the binary log is damaged: {error}.") from None


def _parse(data: bytes, dialect: Dialect) -> TableMap:
    database, at = _name(data, 0)
    table, at = _name(data, at)
    count, at = packed_integer(data, at)
    types = _exactly(data, at, count)
    meta_bytes, at = packed_integer(data, at + count)
    wires = _wires(types, data[at : at + meta_bytes])
    at += meta_bytes
    null_bytes = (count + 7) // 8
    nulls = int.from_bytes(_exactly(data, at, null_bytes), "little")
    nullable = tuple(bool(nulls >> place & 1) for place in range(count))
    parts = dict(_optional_parts(data, at + null_bytes))
    return TableMap(database, table, wires, nullable, **_described(wires, parts, dialect))


def _name(data: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    return _exactly(data, at + 1, data[at]).decode("utf-8"), end + 1


def _exactly(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise IndexError("it is cut short")
    return data[at : at + length]


def _wires(types: bytes, meta: bytes) -> tuple[Wire, ...]:
    wires = []
    at = 0
    for kind in types:
        size = _META_BYTES.get(kind, 0)
        given = _exactly(meta, at, size)
        at += size
        wires.append(_wire(kind, given))
    return tuple(wires)


def _wire(kind: int, meta: bytes) -> Wire:
    if kind == STRING:
        real, length = meta
        if real & 0x30 != 0x30:  # lengths beyond 255 hide their high bits in the type, inverted
            length |= ((real & 0x30) ^ 0x30) << 4
            real |= 0x30
        return Wire(real, length)
    if kind in (VARCHAR, VAR_STRING, VARCHAR_COMPRESSED):
        return Wire(kind, int.from_bytes(meta, "little"))
    if kind == BIT:
        return Wire(kind, meta[1] * 8 + meta[0])
    return Wire(kind, *meta)


def _optional_parts(data: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(data):
        kind = data[at]
        length, at = packed_integer(data, at + 1)
        yield kind, _exactly(data, at, length)
        at += length


def _described(
    wires: tuple[Wire, ...], parts: dict[int, bytes], dialect: Dialect
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if COLUMN_NAME in parts:
        found["names"] = tuple(text.decode("utf-8") for text in _strings(parts[COLUMN_NAME]))
        if len(found["names"]) != len(wires):
            raise IndexError("it names another number of columns than it has")
        # A table without a primary key has neither part: with the names that is knowledge too.
        found["key"], found["has_key"] = _key(parts), True
    if SIGNEDNESS in parts:
        found["unsigned"] = _unsigned(wires, parts[SIGNEDNESS], dialect)
    elif COLUMN_NAME in parts:
        found["unsigned"] = (False,) * len(wires)
    collations = _collations(wires, parts, dialect)
    if collations is not None:
        found["collations"] = collations
    if COLUMN_NAME in parts:
        found["members"] = _members(wires, parts)
    return found


def _key(parts: dict[int, bytes]) -> tuple[int, ...]:
    if SIMPLE_PRIMARY_KEY in parts:
        return tuple(_integers(parts[SIMPLE_PRIMARY_KEY]))
    return tuple(_integers(parts.get(PRIMARY_KEY_WITH_PREFIX, b"")))[::2]


def _unsigned(wires: tuple[Wire, ...], bits: bytes, dialect: Dialect) -> tuple[bool, ...]:
    """One bit per numeric column, the highest of a byte first."""
    flags = [bool(byte >> shift & 1) for byte in bits for shift in range(7, -1, -1)]
    numeric = [place for place, wire in enumerate(wires) if wire.type in dialect.signed]
    if len(bits) != (len(numeric) + 7) // 8:
        raise IndexError(f"{len(bits)} bytes of sign bits for {len(numeric)} numeric columns")
    found = [False] * len(wires)
    for place, flag in zip(numeric, flags, strict=False):
        found[place] = flag
    return tuple(found)


def _collations(
    wires: tuple[Wire, ...], parts: dict[int, bytes], dialect: Dialect
) -> tuple[int | None, ...] | None:
    texts = [place for place, wire in enumerate(wires) if wire.type in dialect.text]
    choices = [place for place, wire in enumerate(wires) if wire.type in (ENUM, SET)]
    found: dict[int, int] = {}
    for places, default, each in (
        (texts, DEFAULT_CHARSET, COLUMN_CHARSET),
        (choices, ENUM_AND_SET_DEFAULT_CHARSET, ENUM_AND_SET_COLUMN_CHARSET),
    ):
        if each in parts:
            found.update(zip(places, _integers(parts[each]), strict=False))
        elif default in parts:
            first, *pairs = _integers(parts[default])
            found.update(dict.fromkeys(places, first))
            for number, collation in zip(pairs[::2], pairs[1::2], strict=True):
                found[places[number]] = collation
        elif places:
            return None
    return tuple(found.get(place) for place in range(len(wires)))


def _members(
    wires: tuple[Wire, ...], parts: dict[int, bytes]
) -> tuple[tuple[bytes, ...] | None, ...]:
    enums, sets = _lists(parts.get(ENUM_VALUES, b"")), _lists(parts.get(SET_VALUES, b""))
    found: list[tuple[bytes, ...] | None] = []
    for wire in wires:
        source = enums if wire.type == ENUM else sets if wire.type == SET else None
        found.append(None if source is None else next(source, None))
    return tuple(found)


def _lists(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = packed_integer(data, at)
        texts = []
        for _ in range(count):
            length, at = packed_integer(data, at)
            texts.append(_exactly(data, at, length))
            at += length
        yield tuple(texts)


def _strings(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length, at = packed_integer(data, at)
        yield _exactly(data, at, length)
        at += length


def _integers(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        number, at = packed_integer(data, at)
        yield number
