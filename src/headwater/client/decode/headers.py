"""The headers of the record batches in a buffer: a table of numbers, one row per batch.

`columns` asks for it first, decides with it which batches count, and hands the rows to `records`.
The layout of a header is in `headwater.record.batch`. Lengths come from strangers: a batch that says
it is shorter than a header, or of another format, ends the scan with an error, and nothing beyond the
buffer is read.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from headwater.record.batch import HEADER_BYTES
from headwater.record.errors import CorruptBatch, UnknownMagic

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
TABLE = types.int64[:, ::1]

(
    START,
    SIZE,
    BASE_OFFSET,
    LAST_DELTA,
    ATTRIBUTES,
    BASE_TIME,
    MAX_TIME,
    PRODUCER,
    COUNT,
    CRC,
    PAYLOAD,
    PAYLOAD_SIZE,
) = range(12)
"""The columns of the table. PAYLOAD says where a batch's records are, in the buffer they are in."""
WIDTH = 12
CODEC, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20

_BAD_MAGIC, _BAD_LENGTH = -1, -2


@numba.njit(types.int64(BYTES, types.int64), cache=True, nogil=True, inline="always")
def _i64(data, at):  # type: ignore[no-untyped-def]
    value = types.int64(0)
    for n in range(8):
        value = (value << 8) | data[at + n]
    return value


@numba.njit(types.int64(BYTES, types.int64), cache=True, nogil=True, inline="always")
def _i32(data, at):  # type: ignore[no-untyped-def]
    value = (
        (types.int64(data[at]) << 24)
        | (types.int64(data[at + 1]) << 16)
        | (types.int64(data[at + 2]) << 8)
        | types.int64(data[at + 3])
    )
    return value - (types.int64(1) << 32) if value >= (types.int64(1) << 31) else value


@numba.njit(types.UniTuple(types.int64, 2)(BYTES, types.int64), cache=True, nogil=True)
def _count(data, end_offset):  # type: ignore[no-untyped-def]
    """How many whole batches, and where the last one ends; (error, where) for nonsense."""
    count, at, end = types.int64(0), types.int64(0), types.int64(len(data))
    while end - at >= HEADER_BYTES:
        if data[at + 16] != 2:
            return types.int64(_BAD_MAGIC), at
        size = _i32(data, at + 8) + 12
        if size < HEADER_BYTES:
            return types.int64(_BAD_LENGTH), at
        if size > end - at:
            break
        following = _i64(data, at) + _i32(data, at + 23) + 1
        at += size
        count += 1
        if following >= end_offset:
            break
    return count, at


@numba.njit(types.void(BYTES, TABLE), cache=True, nogil=True)
def _fill(data, table):  # type: ignore[no-untyped-def]
    at = types.int64(0)
    for n in range(table.shape[0]):
        size = _i32(data, at + 8) + 12
        table[n, START] = at
        table[n, SIZE] = size
        table[n, BASE_OFFSET] = _i64(data, at)
        table[n, CRC] = _i32(data, at + 17) & 0xFFFFFFFF
        table[n, ATTRIBUTES] = (types.int64(data[at + 21]) << 8) | types.int64(data[at + 22])
        table[n, LAST_DELTA] = _i32(data, at + 23)
        table[n, BASE_TIME] = _i64(data, at + 27)
        table[n, MAX_TIME] = _i64(data, at + 35)
        table[n, PRODUCER] = _i64(data, at + 43)
        table[n, COUNT] = _i32(data, at + 57)
        table[n, PAYLOAD] = at + HEADER_BYTES
        table[n, PAYLOAD_SIZE] = size - HEADER_BYTES
        at += size


def scan(data: NDArray[np.uint8], end_offset: int = (1 << 63) - 1) -> tuple[NDArray[np.int64], int]:
    """The table of the whole batches in `data`, and where the first one that is cut off begins.

    Nothing is looked at behind the batch that reaches `end_offset`: a broker may be writing there.
    """
    count, end = _count(data, end_offset)
    if count == _BAD_MAGIC:
        raise UnknownMagic(f"message format {data[end + 16]} is not supported, only 2 is")
    if count == _BAD_LENGTH:
        raise CorruptBatch(f"a batch at byte {end} is shorter than its header")
    table = np.empty((count, WIDTH), np.int64)
    _fill(data, table)
    return table, end
