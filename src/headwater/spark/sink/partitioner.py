"""Which partition each row goes to, in compiled code. `rows` calls `place` once per Arrow batch.

    partition column, if not null   that partition; one that the topic lacks is an error
    key, if not null                murmur2(key) & 0x7fffffff modulo the topic's partitions, as the
                                    partitioner of Kafka's Java clients has it
    neither                         one partition for `STICKY_BYTES`, then the next: few large batches
                                    rather than many small ones, and as much for each (KIP-794)

A target is a partition of a topic: topic t's partitions are the targets from `bases[t]` on.

Hashes over the bytes of a column, in compiled code. `partitioner` and `encoder` call them.

`murmur2` must be, bit for bit, what Kafka's Java clients compute: it decides which partition a key
belongs to, and other producers write the same topic. `mix64` is ours; it only has to tell rows apart.
Compiled once per machine: numba keeps the machine code in a cache.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

import numpy as np
from numba import njit
from numpy.typing import NDArray

from headwater.client.decode.memcpy import load64
from headwater.spark.sink.buffers import Column

STICKY_BYTES = 64 * 1024
Numbers = NDArray[np.int32]


@njit(cache=True, nogil=True)
def place(
    key: Column,
    value: Column,
    wanted: Numbers,
    topics: Numbers,
    counts: Numbers,
    bases: Numbers,
    sticky: NDArray[np.int64],
    targets: Numbers,
) -> int:
    """Fill `targets`; the first row whose wanted partition does not exist, or -1.

    `wanted` is empty, or has -1 where the row does not say; `topics` is empty for a single topic.
    `sticky[t]` is (partition, bytes given to it) and is carried from batch to batch.
    """
    for row in range(targets.size):
        topic = topics[row] if topics.size else 0
        count = counts[topic]
        if wanted.size and wanted[row] != -1:
            partition = np.int64(wanted[row])
            if partition < 0 or partition >= count:
                return row
        elif not key.absent and not (key.nulls.size and key.nulls[row]):
            hashed = murmur2(key.data, key.offsets[row], key.offsets[row + 1])
            partition = (hashed & 0x7FFFFFFF) % count
        else:
            if sticky[topic, 1] >= STICKY_BYTES:
                sticky[topic, 0] += 1
                sticky[topic, 1] = 0
            sticky[topic, 1] += value.offsets[row + 1] - value.offsets[row] + 8
            partition = sticky[topic, 0] % count
        targets[row] = bases[topic] + partition
    return -1


Bytes = NDArray[np.uint8]

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(0xD6E8FEB86659FD93)


@njit(cache=True, nogil=True, inline="always")
def murmur2(data: Bytes, start: int, end: int) -> np.int64:
    """The hash of `data[start:end]`, as an unsigned 32-bit number."""
    length = end - start
    h = _SEED ^ np.uint32(length)
    at = start
    for _ in range(length >> 2):
        k = (
            np.uint32(data[at])
            | np.uint32(data[at + 1]) << np.uint32(8)
            | np.uint32(data[at + 2]) << np.uint32(16)
            | np.uint32(data[at + 3]) << np.uint32(24)
        )
        k = np.uint32(k * _M)
        k ^= k >> np.uint32(24)
        k = np.uint32(k * _M)
        h = np.uint32(np.uint32(h * _M) ^ k)
        at += 4
    left = end - at
    if left >= 3:
        h ^= np.uint32(data[at + 2]) << np.uint32(16)
    if left >= 2:
        h ^= np.uint32(data[at + 1]) << np.uint32(8)
    if left >= 1:
        h ^= np.uint32(data[at])
        h = np.uint32(h * _M)
    h ^= h >> np.uint32(13)
    h = np.uint32(h * _M)
    h ^= h >> np.uint32(15)
    return np.int64(h)


@njit(cache=True, nogil=True, inline="always")
def mix64(seed: np.uint64, data: Bytes, start: int, end: int) -> np.uint64:
    """`seed` changed by `data[start:end]` and by its length."""
    h = np.uint64(seed) ^ (np.uint64(end - start) * _PRIME)
    at = start
    while at + 8 <= end:
        h = (h ^ load64(data, at)) * _SPREAD
        h ^= h >> np.uint64(32)
        at += 8
    word = np.uint64(0)
    while at < end:
        word = (word << np.uint64(8)) | np.uint64(data[np.uintp(at)])
        at += 1
    h = (h ^ word) * _SPREAD
    return h ^ (h >> np.uint64(29))
