"""Protobuf values by a table of their fields, in compiled code (numba): what each value says, field by field.

`plan` makes the table from a descriptor, and calls `run` with a column of values. A message has a row of
`places`, which leads from a field's number to its row in `fields`, or to -1: then it is passed over, as is a
field that comes with another wire type than its own. A field has a slot: a row of `found` (a number, the bits
of a float, where a text begins) and of `lengths`; `there` says whether it came at all. What comes again
counts, as Protobuf has it: the last of a number, all fields of a message.

| fields  | kind | slot | the message inside | wire type |
|---------|------|------|--------------------|-----------|

`verdicts` has a 1 where a value is none, or has what is not read here (groups, more than DEEPEST messages in
one another): who called reads it in another way.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

from typing import TypeAlias

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from headwater.client.decode.headers import BYTES

LONG, INT, UNSIGNED, TRUTH, ZIGZAG, ZIGZAG_INT, FIXED, TEXT, MESSAGE = range(9)
DEEPEST = 32
_ENDS = types.Array(types.int32, 1, "C", readonly=True)
_TABLE, _LENGTHS, _THERE = types.int64[:, ::1], types.int32[:, ::1], types.uint8[:, ::1]
_U8 = types.uint8[::1]

Field: TypeAlias = tuple[int, int, int, int]
Bytes: TypeAlias = NDArray[np.uint8]
Long: TypeAlias = np.int64
Longs: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int32]


def _read_varint(data: Bytes, at: Long, end: Long) -> tuple[Long, Long]:
    """The 64 bits of a number and where it ends; -1 where it breaks off or has more of them."""
    value, shift = types.uint64(0), types.uint64(0)
    while at < end and shift < 64:
        byte = types.uint64(data[at])
        at += 1
        if shift == 63 and byte > 1:
            break
        value |= (byte & types.uint64(0x7F)) << shift
        if byte < 0x80:
            return types.int64(value), at
        shift += types.uint64(7)
    return types.int64(0), types.int64(-1)


_varint = numba.njit(
    types.UniTuple(types.int64, 2)(BYTES, types.int64, types.int64), cache=True, nogil=True
)(_read_varint)


def _passed(data: Bytes, at: Long, end: Long, wire: Long) -> Long:
    """Behind a value of this wire type; -1 where there is none."""
    size = types.int64(0)
    if wire == 0:
        _, at = _varint(data, at, end)
    elif wire == 1:
        size = types.int64(8)
    elif wire == 5:
        size = types.int64(4)
    elif wire == 2:
        size, at = _varint(data, at, end)
    else:
        return types.int64(-1)
    return types.int64(-1) if at < 0 or size < 0 or size > end - at else at + size


_pass = numba.njit(
    types.int64(BYTES, types.int64, types.int64, types.int64), cache=True, nogil=True
)(_passed)


def _read_number(data: Bytes, at: Long, end: Long, kind: Long) -> tuple[Long, Long]:
    value, at = _varint(data, at, end)
    if kind == INT:
        value = types.int64(types.int32(value & types.int64(0xFFFFFFFF)))
    elif kind == UNSIGNED:
        value = value & types.int64(0xFFFFFFFF)
    elif kind == TRUTH:
        value = types.int64(1 if value != 0 else 0)
    elif kind in (ZIGZAG, ZIGZAG_INT):
        if kind == ZIGZAG_INT:
            value = value & types.int64(0xFFFFFFFF)
        value = types.int64(types.uint64(value) >> types.uint64(1)) ^ -(value & types.int64(1))
    return value, at


_number = numba.njit(
    types.UniTuple(types.int64, 2)(BYTES, types.int64, types.int64, types.int64),
    cache=True,
    nogil=True,
)(_read_number)


def _read_value(
    data: Bytes, at: Long, end: Long, kind: Long, wire: Long
) -> tuple[Long, Long, Long]:
    """What stands for it (a number, bits, or where it begins), its length, and where it ends or -1."""
    if wire == 0:
        value, at = _number(data, at, end, kind)
        return value, types.int64(0), at
    if wire == 2:
        size, at = _varint(data, at, end)
        if at < 0 or size < 0 or size > end - at:
            return types.int64(0), types.int64(0), types.int64(-1)
        return at, size, at + size
    size = types.int64(4 if wire == 5 else 8)
    if size > end - at:
        return types.int64(0), types.int64(0), types.int64(-1)
    found = types.uint64(0)
    for n in range(size):
        found |= types.uint64(data[at + n]) << types.uint64(8 * n)
    return types.int64(found), size, at + size


_value = numba.njit(
    types.UniTuple(types.int64, 3)(BYTES, types.int64, types.int64, types.int64, types.int64),
    cache=True,
    nogil=True,
)(_read_value)


def _read_tag(data: Bytes, at: Long, end: Long) -> tuple[Long, Long]:
    """A field's number with its wire type, and where it ends or -1."""
    tag, behind = _varint(data, at, end)
    if behind - at > 5 or tag >> 3 < 1 or tag > 0xFFFFFFFF:
        behind = types.int64(-1)
    return tag, behind


_tag = numba.njit(
    types.UniTuple(types.int64, 2)(BYTES, types.int64, types.int64), cache=True, nogil=True
)(_read_tag)


def _read_one(
    data: Bytes,
    at: Long,
    end: Long,
    places: Longs,
    fields: Longs,
    row: Long | int,
    found: Longs,
    lengths: Ints,
    there: Bytes,
    ends: Longs,
) -> Long:
    """Where the value ends, or -1. `ends` is room for the messages that are open: their ends, and numbers."""
    depth = 0
    ends[0, 0], ends[0, 1] = end, 0
    while True:
        while at == ends[depth, 0]:
            if depth == 0:
                return at
            depth -= 1
        end, message = ends[depth, 0], ends[depth, 1]
        tag, at = _tag(data, at, end)
        if at < 0:
            return at
        number, wire = tag >> 3, tag & 7
        place = places[message, number] if number < places.shape[1] else types.int64(-1)
        if place < 0 or fields[place, 3] != wire:
            at = _pass(data, at, end, wire)
            if at < 0:
                return at
            continue
        kind, slot = fields[place, 0], fields[place, 1]
        value, size, at = _value(data, at, end, kind, wire)
        if at < 0 or (kind == MESSAGE and depth + 1 >= DEEPEST):
            return types.int64(-1)
        found[slot, row], lengths[slot, row], there[slot, row] = value, size, 1
        if kind == MESSAGE:
            depth += 1
            ends[depth, 0], ends[depth, 1] = at, fields[place, 2]
            at = value


_one = numba.njit(
    types.int64(
        BYTES,
        types.int64,
        types.int64,
        _TABLE,
        _TABLE,
        types.int64,
        _TABLE,
        _LENGTHS,
        _THERE,
        _TABLE,
    ),
    cache=True,
    nogil=True,
)(_read_one)


def _run(
    data: Bytes,
    ends: Ints,
    wanted: Bytes,
    skip: Long | int,
    places: Longs,
    fields: Longs,
    found: Longs,
    lengths: Ints,
    there: Bytes,
    verdicts: Bytes,
) -> None:
    """`ends`: of the values in `data`, from the first one's start; `skip` bytes before each are its id.
    Behind them a 0, or 2 and 0, says that it is the file's first message."""
    room = np.empty((DEEPEST, 2), np.int64)
    for row in range(len(ends) - 1):
        if not wanted[row]:
            continue
        at, end = types.int64(ends[row]) + skip, types.int64(ends[row + 1])
        if at < end and data[at] == 0:
            at += 1
        elif at + 1 < end and data[at] == 2 and data[at + 1] == 0:
            at += 2
        else:
            verdicts[row] = 1
            continue
        if _one(data, at, end, places, fields, row, found, lengths, there, room) != end:
            verdicts[row] = 1


run = numba.njit(
    types.void(BYTES, _ENDS, _U8, types.int64, _TABLE, _TABLE, _TABLE, _LENGTHS, _THERE, _U8),
    cache=True,
    nogil=True,
)(_run)
