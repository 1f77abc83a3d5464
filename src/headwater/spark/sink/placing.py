"""Which partition each row goes to, in compiled code. `rows` calls `place` once per Arrow batch.

    partition column, if not null   that partition; one that the topic lacks is an error
    key, if not null                murmur2(key) & 0x7fffffff modulo the topic's partitions, as the
                                    partitioner of Kafka's Java clients has it
    neither                         one partition for `STICKY_BYTES`, then the next: few large batches
                                    rather than many small ones, and as much for each (KIP-794)

A target is a partition of a topic: topic t's partitions are the targets from `bases[t]` on.
"""

from __future__ import annotations

from headwater.spark.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

import numpy as np
from numba import njit
from numpy.typing import NDArray

from headwater.spark.sink.buffers import Column
from headwater.spark.sink.hashing import murmur2

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
