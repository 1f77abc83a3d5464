"""Arrow batches of a task to record batches for partitions: reads columns, finds topics, encodes.

`part` pushes each Arrow batch through; `producer` sends what comes out. One per task, because null keys
remember between batches which partition they stick to.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.spark.sink import buffers, encoder, partitioner
from headwater.spark.sink.columns import Columns
from headwater.spark.sink.errors import BadRow
from headwater.spark.sink.unsent import Unsent

PartitionsOf = Callable[[str], int]
"""How many partitions a topic has; raises if there is no such topic."""

_NONE: NDArray[np.int32] = np.zeros(0, np.int32)


class Rows:
    def __init__(
        self, columns: Columns, topic: str | None, batch_bytes: int, partitions_of: PartitionsOf
    ) -> None:
        self._columns = columns
        self._fixed = topic
        self._batch_bytes = batch_bytes
        self._partitions_of = partitions_of
        self._topics: dict[str, int] = {}
        self._targets: list[tuple[str, int]] = []
        self._counts, self._bases = _NONE, _NONE
        self._sticky: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        self.count, self.digest = 0, 0
        if topic is not None:
            self._know(topic)

    def encode(self, batch: Any) -> list[Unsent]:
        """Chunks for the partitions, in the order in which they must be sent."""
        columns = self._columns
        value = buffers.column(batch.column(columns.value))
        key = buffers.absent() if columns.key < 0 else buffers.column(batch.column(columns.key))
        codes = self._topic_codes(batch)
        wanted = self._wanted(batch)
        targets = np.empty(batch.num_rows, np.int32)
        bad = partitioner.place(
            key, value, wanted, codes, self._counts, self._bases, self._sticky, targets
        )
        if bad >= 0:
            self._refuse_partition(int(wanted[bad]), int(codes[bad]) if codes.size else 0)
        encoded = encoder.encode(
            key, value, self._headers(batch), targets, self._batch_bytes, len(self._targets)
        )
        self.count += batch.num_rows
        self.digest = (self.digest + encoded.digest) % 2**64
        view = encoded.buffer.data
        return [
            Unsent(*self._targets[each.target], each.size, view[each.start : each.end])
            for each in encoded.chunks
        ]

    def _topic_codes(self, batch: Any) -> NDArray[np.int32]:
        """Which topic each row goes to; empty where all go to the one of the option."""
        if self._fixed is not None:
            return _NONE
        column = batch.column(self._columns.topic)
        if column.null_count:
            raise BadRow(
                "A row's topic is null.",
                hint='Fill the column, or give .option("topic", "...") for all rows.',
            )
        distinct = column.dictionary_encode()
        known = np.array([self._know(name) for name in distinct.dictionary.to_pylist()], np.int32)
        return known[distinct.indices.to_numpy()]

    def _know(self, topic: str) -> int:
        """The topic's number; a new one is asked for its partitions."""
        if topic not in self._topics:
            count = self._partitions_of(topic)
            self._topics[topic] = len(self._topics)
            self._bases = np.append(self._bases, np.int32(len(self._targets))).astype(np.int32)
            self._counts = np.append(self._counts, np.int32(count)).astype(np.int32)
            # Tasks that all began with partition 0 would fill it more than the others.
            start = np.array([[random.randrange(count), 0]], np.int64)
            self._sticky = np.concatenate([self._sticky, start])
            self._targets += [(topic, partition) for partition in range(count)]
        return self._topics[topic]

    def _wanted(self, batch: Any) -> NDArray[np.int32]:
        if self._columns.partition < 0:
            return _NONE
        column = batch.column(self._columns.partition)
        # A negative number must not pass for "does not say".
        asked = pc.min(column).as_py()
        if asked is not None and asked < 0:
            self._refuse_partition(asked, -1)
        return column.fill_null(-1).to_numpy().astype(np.int32)

    def _refuse_partition(self, asked: int, topic: int) -> None:
        if topic < 0:
            raise BadRow(f"A row asks for partition {asked}.", hint="Numbers begin at 0.")
        name = list(self._topics)[topic]
        raise BadRow(
            f"A row asks for partition {asked} of topic {name!r}, which has {self._counts[topic]}.",
            hint="Partitions are numbered from 0; null lets the key decide.",
        )

    def _headers(self, batch: Any) -> buffers.Headers:
        if self._columns.headers < 0:
            return buffers.no_headers()
        try:
            return buffers.headers(batch.column(self._columns.headers))
        except ValueError as error:
            raise BadRow(f"A row cannot be written: {error}.") from None
