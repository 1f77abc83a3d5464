"""Avro values by a program of a few steps, in compiled code (numba): what each value says, field by field.

`plan` makes the program from a writer's schema, calls `run` with a column of values, and builds
Arrow's columns from what it finds. A field has a slot: a row of `found` (a number, the bits of a float, where
a text begins) and of `lengths`; `there` says whether a value was there at all. Slot -1 is passed over.

| step    | a            | b                   | c                        |
|---------|--------------|---------------------|--------------------------|
| NUMBER  | slot         | bits                |                          |
| FLOAT   | slot         |                     |                          |
| DOUBLE  | slot         |                     |                          |
| BOOLEAN | slot         |                     |                          |
| BYTES   | slot         |                     |                          |
| FIXED   | slot         | size                |                          |
| ENUM    | slot         | how many symbols    |                          |
| UNION   | null's place | how many branches   | the step behind it       |
| STRUCT  | slot         |                     |                          |

A value must end where its last step ends: `verdicts` has a 1 where one does not, or breaks off.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

from typing import TypeAlias

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from headwater.client.decode.headers import BYTES

NUMBER, FLOAT, DOUBLE, BOOLEAN, STRING, FIXED, ENUM, UNION, STRUCT = range(9)
ENDS = types.Array(types.int32, 1, "C", readonly=True)
_STEPS, _FOUND, _LENGTHS = types.int64[:, ::1], types.int64[:, ::1], types.int32[:, ::1]
_THERE, _U8 = types.uint8[:, ::1], types.uint8[::1]


Bytes: TypeAlias = NDArray[np.uint8]
Long: TypeAlias = np.int64
Longs: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int32]


def _read_varint(data: Bytes, at: Long, end: Long) -> tuple[Long, Long]:
    """A zigzag number and where it ends; -1 where it breaks off or has more than 64 bits."""
    value, shift = types.uint64(0), types.uint64(0)
    while at < end:
        byte = types.uint64(data[at])
        at += 1
        if shift == 63 and byte > 1:
            return types.int64(0), types.int64(-1)
        value |= (byte & types.uint64(0x7F)) << shift
        if byte < 0x80:
            return types.int64(value >> types.uint64(1)) ^ -types.int64(value & types.uint64(1)), at
        shift += types.uint64(7)
        if shift > 63:
            break
    return types.int64(0), types.int64(-1)


def _read_little(data: Bytes, at: Long, count: Long) -> Long:
    value = types.uint64(0)
    for n in range(count):
        value |= types.uint64(data[at + n]) << types.uint64(8 * n)
    return types.int64(value)


_varint = numba.njit(
    types.UniTuple(types.int64, 2)(BYTES, types.int64, types.int64), cache=True, nogil=True
)(_read_varint)
_little = numba.njit(types.int64(BYTES, types.int64, types.int64), cache=True, nogil=True)(
    _read_little
)


def _read_size(data: Bytes, at: Long, end: Long, kind: Long, size: Long) -> tuple[Long, Long]:
    """How long a value is, a text by its own number and the others by their type, and where it begins; -1:
    it is none."""
    if kind == STRING:
        size, at = _varint(data, at, end)
    elif kind == BOOLEAN:
        size = types.int64(1)
        if at < end and data[at] > 1:
            return types.int64(0), types.int64(-1)
    elif kind == FLOAT:
        size = types.int64(4)
    elif kind == DOUBLE:
        size = types.int64(8)
    if at < 0 or size < 0 or size > end - at:
        return types.int64(0), types.int64(-1)
    return size, at


_size = numba.njit(
    types.UniTuple(types.int64, 2)(BYTES, types.int64, types.int64, types.int64, types.int64),
    cache=True,
    nogil=True,
)(_read_size)


def _read_one(
    data: Bytes,
    at: Long,
    end: Long,
    steps: Longs,
    row: Long | int,
    found: Longs,
    lengths: Ints,
    there: Bytes,
) -> Long:
    """Where the value ends; -1 where it is none."""
    step = 0
    while step < len(steps):
        kind, slot, limit = steps[step, 0], steps[step, 1], steps[step, 2]
        if kind == STRUCT:
            if slot >= 0:
                there[slot, row] = 1
        elif kind in (NUMBER, ENUM, UNION):
            value, at = _varint(data, at, end)
            if at < 0 or (kind != NUMBER and (value < 0 or value >= limit)):
                return types.int64(-1)
            if kind == NUMBER and limit == 32 and (value < -2147483648 or value > 2147483647):
                return types.int64(-1)
            if kind == UNION:
                if value == slot:
                    step = steps[step, 3]
                    continue
            elif slot >= 0:
                found[slot, row] = value
                there[slot, row] = 1
        else:
            size, at = _size(data, at, end, kind, limit)
            if at < 0:
                return types.int64(-1)
            if slot >= 0:
                value = at if kind in (STRING, FIXED) else _little(data, at, size)
                found[slot, row], lengths[slot, row], there[slot, row] = value, size, 1
            at += size
        step += 1
    return at


_one = numba.njit(
    types.int64(BYTES, types.int64, types.int64, _STEPS, types.int64, _FOUND, _LENGTHS, _THERE),
    cache=True,
    nogil=True,
)(_read_one)


def _run(
    data: Bytes,
    ends: Ints,
    wanted: Bytes,
    skip: Long | int,
    steps: Longs,
    found: Longs,
    lengths: Ints,
    there: Bytes,
    verdicts: Bytes,
) -> None:
    """`ends`: of the values in `data`, from the first one's start; `skip` bytes before each are no part of
    it; `wanted` says which values are to be read."""
    for row in range(len(ends) - 1):
        if not wanted[row]:
            continue
        end = types.int64(ends[row + 1])
        at = _one(data, types.int64(ends[row]) + skip, end, steps, row, found, lengths, there)
        if at != end:
            verdicts[row] = 1
            for slot in range(len(there)):
                there[slot, row] = 0


def _text_ends(lengths: Ints, there: Bytes, ends: Ints) -> Long:
    """Where each text ends when they are one behind the other; how many bytes that is."""
    total = types.int64(0)
    ends[0] = 0
    for row in range(len(lengths)):
        if there[row]:
            total += lengths[row]
        ends[row + 1] = types.int32(total)
    return total


def _gather(data: Bytes, starts: Longs, there: Bytes, ends: Ints, out: Bytes) -> None:
    """The texts one behind the other."""
    for row in range(len(starts)):
        if there[row]:
            at, to = starts[row], ends[row]
            for n in range(ends[row + 1] - to):
                out[to + n] = data[at + n]


def _decimals(
    data: Bytes, starts: Longs, lengths: Ints, there: Bytes, out: NDArray[np.uint64]
) -> Long:
    """Big-endian two's complement as 128 bits; the row of one that has more, or -1."""
    for row in range(len(starts)):
        if not there[row]:
            continue
        size = lengths[row]
        if size > 16:
            return types.int64(row)
        negative = size > 0 and data[starts[row]] >= 0x80
        low = types.uint64(0xFFFFFFFFFFFFFFFF) if negative else types.uint64(0)
        high = low
        for n in range(size):
            high = (high << types.uint64(8)) | (low >> types.uint64(56))
            low = (low << types.uint64(8)) | types.uint64(data[starts[row] + n])
        out[row, 0], out[row, 1] = low, high
    return types.int64(-1)


run = numba.njit(
    types.void(BYTES, ENDS, _U8, types.int64, _STEPS, _FOUND, _LENGTHS, _THERE, _U8),
    cache=True,
    nogil=True,
)(_run)
text_ends = numba.njit(
    types.int64(types.int32[::1], _U8, types.int32[::1]), cache=True, nogil=True
)(_text_ends)
gather = numba.njit(
    types.void(BYTES, types.int64[::1], _U8, types.int32[::1], _U8), cache=True, nogil=True
)(_gather)
decimals = numba.njit(
    types.int64(BYTES, types.int64[::1], types.int32[::1], _U8, types.uint64[:, ::1]),
    cache=True,
    nogil=True,
)(_decimals)


def bits(there: Bytes) -> Bytes:
    """Bytes as Arrow's bits."""
    return np.packbits(there, bitorder="little")
