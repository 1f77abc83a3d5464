"""Rows to the records of batches, column by column in compiled code. `rows` calls `encode`.

One Arrow batch becomes one buffer with, for each target, one or more chunks; each chunk is the records
of one record batch (`record.batch` has the layout) with room for its header before them:

    │ 61 bytes free │ records │ 61 bytes free │ records │ …

A record: length · attributes 0 · timestamp delta 0 · offset delta · key · value · headers, all lengths
as zigzag varints, -1 for null. Within a target the rows must keep their order.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from headwater.client.decode.memcpy import copy_bytes
from headwater.record.batch import HEADER_BYTES
from headwater.spark.sink.buffers import Column, Headers
from headwater.spark.sink.partitioner import Numbers, mix64

Bytes = NDArray[np.uint8]
Sizes = NDArray[np.int64]


class Chunk(NamedTuple):
    """Records for one target: `buffer[start:end]`, header room included."""

    target: int
    size: int
    start: int
    end: int


class Encoded(NamedTuple):
    buffer: Bytes
    chunks: list[Chunk]
    digest: int
    """Of all rows, whatever their order; modulo 2**64."""


def encode(
    key: Column,
    value: Column,
    headers: Headers,
    targets: Numbers,
    bytes_max: int,
    target_count: int,
) -> Encoded:
    """The rows as chunks of at most `bytes_max` bytes, or of one record where that is larger."""
    count = targets.size
    bodies, deltas, owners = (np.empty(count, np.int32) for _ in range(3))
    chunk_targets, chunk_counts = np.empty(count, np.int32), np.zeros(count, np.int32)
    chunk_bytes = np.zeros(count, np.int64)
    current = np.full(target_count, -1, np.int32)
    made = _plan(
        key, value, headers, targets, bytes_max, current,
        bodies, deltas, owners, chunk_targets, chunk_counts, chunk_bytes,
    )  # fmt: skip
    sizes = chunk_bytes[:made] + HEADER_BYTES
    ends = np.cumsum(sizes)
    starts = ends - sizes
    buffer = np.empty(int(ends[-1]) if made else 0, np.uint8)
    digest = _write(key, value, headers, bodies, deltas, owners, starts + HEADER_BYTES, buffer)
    found = zip(
        chunk_targets[:made].tolist(),
        chunk_counts[:made].tolist(),
        starts.tolist(),
        ends.tolist(),
        strict=True,
    )
    return Encoded(buffer, [Chunk(*each) for each in found], int(digest))


@njit(cache=True, nogil=True, inline="always")
def _varint_size(number: int) -> int:
    """Bytes of a non-negative number, zigzag."""
    size, rest = 1, number >> 6
    while rest:
        size += 1
        rest >>= 7
    return size


@njit(cache=True, nogil=True, inline="always")
def _put_varint(buffer: Bytes, at: int, number: Any) -> int:
    rest = number << 1
    while rest >= 0x80:
        buffer[at] = rest & 0x7F | 0x80
        rest >>= 7
        at += 1
    buffer[at] = rest
    return at + 1


@njit(cache=True, nogil=True, inline="always")
def _is_null(column: Column, row: int) -> bool:
    return column.absent or (column.nulls.size > 0 and column.nulls[row])


@njit(cache=True, nogil=True, inline="always")
def _field_size(column: Column, row: int) -> int:
    if _is_null(column, row):
        return 1
    length = column.offsets[row + 1] - column.offsets[row]
    return _varint_size(length) + length


@njit(cache=True, nogil=True, inline="always")
def _put_field(buffer: Bytes, at: int, column: Column, row: int) -> Any:
    if _is_null(column, row):
        buffer[at] = 1  # -1, zigzag
        return at + 1
    start, end = column.offsets[row], column.offsets[row + 1]
    length = np.int64(end - start)
    at = _put_varint(buffer, at, length)
    copy_bytes(buffer, at, column.data, start, length)
    return at + length


@njit(cache=True, nogil=True)
def _plan(
    key: Column,
    value: Column,
    headers: Headers,
    targets: Numbers,
    bytes_max: int,
    current: Numbers,
    bodies: Numbers,
    deltas: Numbers,
    owners: Numbers,
    chunk_targets: Numbers,
    chunk_counts: Numbers,
    chunk_bytes: Sizes,
) -> int:
    """Give each row its chunk, its number in it and its size; the number of chunks."""
    made = 0
    for row in range(targets.size):
        fixed = 2 + _field_size(key, row) + _field_size(value, row)
        if headers.absent:
            fixed += 1
        else:
            first, last = headers.offsets[row], headers.offsets[row + 1]
            fixed += _varint_size(last - first)
            for each in range(first, last):
                fixed += _field_size(headers.names, each) + _field_size(headers.values, each)
        target = targets[row]
        chunk = current[target]
        if chunk < 0 or chunk_bytes[chunk] + fixed + 10 > bytes_max:
            chunk = made
            current[target] = chunk
            chunk_targets[chunk] = target
            made += 1
        delta = chunk_counts[chunk]
        body = fixed + _varint_size(delta)
        bodies[row], deltas[row], owners[row] = body, delta, chunk
        chunk_counts[chunk] += 1
        chunk_bytes[chunk] += _varint_size(body) + body
    return made


@njit(cache=True, nogil=True)
def _write(
    key: Column,
    value: Column,
    headers: Headers,
    bodies: Numbers,
    deltas: Numbers,
    owners: Numbers,
    positions: Sizes,
    buffer: Bytes,
) -> np.uint64:
    digest = np.uint64(0)
    for row in range(bodies.size):
        at = positions[owners[row]]
        at = _put_varint(buffer, at, np.int64(bodies[row]))
        buffer[at] = 0
        buffer[at + 1] = 0
        at = _put_varint(buffer, at + 2, np.int64(deltas[row]))
        start = at
        at = _put_field(buffer, at, key, row)
        at = _put_field(buffer, at, value, row)
        if headers.absent:
            buffer[at] = 0
            at += 1
        else:
            first, last = headers.offsets[row], headers.offsets[row + 1]
            at = _put_varint(buffer, at, np.int64(last - first))
            for each in range(first, last):
                at = _put_field(buffer, at, headers.names, each)
                at = _put_field(buffer, at, headers.values, each)
        digest += mix64(np.uint64(0), buffer, start, at)
        positions[owners[row]] = at
    return digest
