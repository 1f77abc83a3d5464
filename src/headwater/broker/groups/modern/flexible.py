"""The fields of the newer groups' records: plain strings in keys, flexible values in version 0.

`records` and `replay` of each kind of group write and read with it. Lengths of a value are
unsigned varints of length + 1 (0 = null), and every struct ends with its tagged fields.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from headwater.broker.groups.cursor import BadRecord, Cursor
from headwater.broker.groups.records import STRING_BYTES_MAX, uvarint

# ---- writing -------------------------------------------------------------------------------------


def plain(text: str) -> bytes:
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise BadRecord(f"a string of {len(data)} bytes does not fit an int16 length")
    return struct.pack(">h", len(data)) + data


def string(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    data = text.encode()
    return uvarint(len(data) + 1) + data


def strings(texts: Sequence[str]) -> bytes:
    return array([string(text) for text in texts])


def ints(numbers: Sequence[int]) -> bytes:
    return uvarint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)


def array(items: Sequence[bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


def tags(zero: bytes | None = None) -> bytes:
    """No tagged field, or the one with tag 0."""
    return b"\0" if zero is None else tagged({0: zero})


def tagged(found: Mapping[int, bytes]) -> bytes:
    """Tagged fields, in the order of their tags."""
    parts = [uvarint(len(found))]
    for tag, data in sorted(found.items()):
        parts += [uvarint(tag), uvarint(len(data)), data]
    return b"".join(parts)


# ---- reading -------------------------------------------------------------------------------------


def open_value(data: bytes) -> Cursor:
    cursor = Cursor(data, flexible=True)
    version = cursor.i16()
    if version != 0:
        raise BadRecord(f"a value of version {version}; only 0 is known")
    return cursor


def close_value(cursor: Cursor) -> Cursor | None:
    """Read over the tagged fields at the end; the one with tag 0 is returned."""
    tag = tag_zero(cursor)
    cursor.end()
    return tag


def tag_zero(cursor: Cursor) -> Cursor | None:
    found = cursor.tags().get(0)
    return None if found is None else Cursor(found, flexible=True)


def read_ints(cursor: Cursor) -> list[int]:
    return [cursor.i32() for _ in range(cursor.count())]


def read_strings(cursor: Cursor) -> tuple[str, ...]:
    return tuple([cursor.string() for _ in range(cursor.count())])
