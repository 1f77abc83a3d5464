"""Columns of events into topics, as whole record batches; `generate` hands them over piece by piece.

Compiled code finds the partition of each record (Kafka's own rule, murmur2 of the key) and lays the records
of a partition out one behind the other, each with its own time; Python sees only batches. Up to `WINDOW`
requests are on their way.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.nexmark.events import Columns
from bench.nexmark.text import Bytes, put_number
from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client.cluster import Cluster
from headwater.client.transaction import PRODUCE_VERSION
from headwater.record import batch as batches
from headwater.spark.sink.partitioner import murmur2

WINDOW = 4
BATCH_BYTES = 900_000
"""Below the largest that a topic takes by itself (`max.message.bytes`)."""
_BESIDES = 64
"""Bytes that a record has besides its value, at most."""
_TIMEOUT_MS = 30_000


class LogWriter:
    """Records of events into the topics of one broker that are there; `close` waits until all are on disk."""

    def __init__(self, bootstrap: str) -> None:
        self._cluster = Cluster({"bootstrap.servers": bootstrap})
        self._partitions: dict[str, int] = {}
        self._node = min(self._cluster.metadata(None).brokers)

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self._cluster.close()

    def put(self, topic: str, rows: Columns) -> None:
        """Send; waits only while the window is full."""
        for partition, data in record_batches(rows, self._count(topic)):
            self._send(topic, partition, data)

    def flush(self) -> None:
        while self._connection().pending:
            self._land()

    def _count(self, topic: str) -> int:
        if topic not in self._partitions:
            self._partitions[topic] = len(self._cluster.metadata([topic]).topics[topic].leaders)
        return self._partitions[topic]

    def _connection(self) -> api.Connection:
        return self._cluster.node(self._node, "produce")

    def _send(self, topic: str, partition: int, data: bytes) -> None:
        while self._connection().pending >= WINDOW:
            self._land()
        records = [{"index": partition, "records": data}]
        body: dict[str, Any] = {"transactional_id": None, "acks": -1, "timeout": _TIMEOUT_MS}
        body["topic_data"] = [{"name": topic, "partition_data": records}]
        self._connection().send(api.PRODUCE, body, PRODUCE_VERSION)

    def _land(self) -> None:
        for topic in self._connection().receive().responses:
            for each in topic.partition_responses:
                connect.check(each.error_code, f"writing to {topic.name}-{each.index}")


def record_batches(rows: Columns, partitions: int) -> Iterator[tuple[int, bytes]]:
    """The batches for each partition, in the order in which they must be sent."""
    if rows.keys.size == 0:
        return
    places = np.empty(rows.keys.size, np.int64)
    sizes = np.zeros(partitions, np.int64)
    _place(rows.keys, rows.offsets, places, sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    room = np.empty(int(starts[-1]), np.uint8)
    cuts = np.empty((int(starts[-1]) // BATCH_BYTES + 2 * partitions + 1, 6), np.int64)
    for number in range(_lay_out(rows, places, starts[:-1].copy(), room, cuts)):
        partition, begin, end, size, first_ms, last_ms = map(int, cuts[number])
        head = batches.BatchHeader(0, 0, -1, 2, 0, 0, size - 1, first_ms, last_ms, -1, -1, -1, size)
        yield partition, batches.pack(head, room[begin:end].data)


@njit(cache=True, nogil=True)
def _place(
    keys: NDArray[np.int64],
    offsets: NDArray[np.int64],
    places: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    text = np.empty(20, np.uint8)
    for row in range(keys.size):
        end = put_number(text, 0, keys[row])
        place = (murmur2(text, 0, end) & 0x7FFFFFFF) % sizes.size
        places[row] = place
        sizes[place] += offsets[row + 1] - offsets[row] + _BESIDES


@njit(cache=True, nogil=True)
def _lay_out(
    rows: Columns,
    places: NDArray[np.int64],
    at: NDArray[np.int64],
    room: Bytes,
    cuts: NDArray[np.int64],
) -> int:
    """The records of each partition, and where its batches begin and end.

    A cut: partition, begin, end, records, earliest and latest time. Times are told from the batch's first
    record on; of which the header's is the base.
    """
    text = np.empty(20, np.uint8)
    open_cut = np.full(at.size, -1, np.int64)
    base, used = np.empty(at.size, np.int64), 0
    for row in range(places.size):
        place, time = places[row], rows.times_ms[row]
        cut = open_cut[place]
        if cut >= 0 and at[place] - cuts[cut, 1] > BATCH_BYTES - (1 << 12):
            cut = -1
        if cut < 0:
            cut, base[place] = used, time
            used += 1
            open_cut[place] = cut
            cuts[cut, 0], cuts[cut, 1], cuts[cut, 3] = place, at[place], 0
            cuts[cut, 4], cuts[cut, 5] = time, time
        key_end = put_number(text, 0, rows.keys[row])
        value_at, value_end = rows.offsets[row], rows.offsets[row + 1]
        delta, number = time - base[place], cuts[cut, 3]
        body = 1 + _varint(delta) + _varint(number) + _varint(key_end) + key_end
        body += _varint(value_end - value_at) + value_end - value_at + 1
        end = _put_varint(room, at[place], body)
        room[end] = 0
        end = _put_varint(room, end + 1, delta)
        end = _put_varint(room, end, number)
        end = _put_varint(room, end, key_end)
        for index in range(key_end):
            room[end + index] = text[index]
        end = _put_varint(room, end + key_end, value_end - value_at)
        room[end : end + value_end - value_at] = rows.data[value_at:value_end]
        end += value_end - value_at
        room[end] = 0
        at[place] = end + 1
        cuts[cut, 2], cuts[cut, 3] = end + 1, number + 1
        cuts[cut, 5] = max(cuts[cut, 5], time)
    return used


@njit(cache=True, nogil=True)
def _varint(number: int) -> int:
    """Bytes of a number in Kafka's zigzag form."""
    left = (number << 1) ^ (number >> 63)
    size = 1
    while left > 127:
        left >>= 7
        size += 1
    return size


@njit(cache=True, nogil=True)
def _put_varint(room: Bytes, at: int, number: int) -> int:
    left = (number << 1) ^ (number >> 63)
    while left > 127:
        room[at] = (left & 127) | 128
        left >>= 7
        at += 1
    room[at] = left
    return at + 1
