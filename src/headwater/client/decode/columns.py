"""Bytes of record batches in, Arrow record batches out, in the columns that the query asked for.

A task makes one `Columns` for its range and hands it what it read, piece after piece; `next_offset` then
says where to go on. Left out are: control batches, batches of aborted transactions under read_committed,
records outside the range, and those that a pushed-down filter on time excludes. Offsets are the records'
own, so what compaction removed leaves gaps and nothing else.

An Arrow record batch holds about BATCH_BYTES of records, however much was handed in or however well it
was compressed; one Kafka batch is never split. So a column stays far below Arrow's 2 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from numpy.typing import NDArray

from headwater.client.decode import headers as h
from headwater.client.decode import records as r
from headwater.client.decode.memory import pool
from headwater.record import codecs
from headwater.record.errors import CorruptBatch

BATCH_BYTES = 16 * 1024 * 1024
RECORD_BYTES_MIN = 7
NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

Bytes = NDArray[np.uint8]
Table = NDArray[np.int64]
Aborted = Sequence[tuple[int, int, int | None]]
"""(producer id, first offset, offset of its marker or None): sorted by first offset."""

_MAX = (1 << 63) - 1
_NOTHING = np.zeros(1, np.uint8)
_NO_ENDS = np.zeros(2, np.int32)


@dataclass(frozen=True)
class Bounds:
    """Offsets [first, end), and microseconds [since, until] where a filter says so."""

    first: int
    end: int
    since: int = -_MAX
    until: int = _MAX


class Columns:
    """The decoder of one range of one partition."""

    def __init__(
        self,
        schema: pa.Schema,
        topic: str,
        partition: int,
        bounds: Bounds,
        *,
        check_crcs: bool = True,
    ) -> None:
        self.schema = schema
        self.next_offset = bounds.first
        self._names = tuple(schema.names)
        self._constants = _Constants(topic, partition)
        self._bounds = bounds
        self._check_crcs = check_crcs

    def decode(self, data: Bytes, aborted: Aborted = ()) -> Iterator[pa.RecordBatch]:
        """The records in the whole batches of `data`."""
        table, _ = h.scan(data, self._bounds.end)
        if not len(table):
            return
        if self.next_offset > self._bounds.first:  # a batch may begin before where we are
            self._bounds = replace(self._bounds, first=self.next_offset)
        kept = table[self._counts(table, data, aborted)]
        if np.any(kept[:, h.COUNT] < 0):
            raise CorruptBatch("a batch of fewer than no records")
        if self._check_crcs:
            _check_crcs(data, kept)
        for payload, rows in _payloads(data, kept):
            batch = self._arrow(payload, rows)
            self._go_on(rows)
            if batch.num_rows:
                yield batch
        self._go_on(table)

    def _go_on(self, table: Table) -> None:
        """Only behind what was handed out: should the rest be damaged, it can be read elsewhere."""
        last = table[-1, h.BASE_OFFSET] + table[-1, h.LAST_DELTA]
        self.next_offset = max(self.next_offset, int(last) + 1)

    def _counts(self, table: Table, data: Bytes, aborted: Aborted) -> NDArray[np.bool_]:
        """Which batches have records for us."""
        bounds = self._bounds
        first = table[:, h.BASE_OFFSET]
        mask: NDArray[np.bool_] = (first + table[:, h.LAST_DELTA] >= bounds.first) & (
            first < bounds.end
        )
        mask &= (table[:, h.ATTRIBUTES] & h.CONTROL) == 0
        mask &= table[:, h.COUNT] != 0
        if bounds.since > -_MAX:
            mask &= table[:, h.MAX_TIME] >= bounds.since // 1000
        if aborted:
            mask &= ~_is_aborted(table, data, aborted)
        return mask

    def _arrow(self, payload: Bytes, table: Table) -> pa.RecordBatch:
        out = _Outputs(self._names, table)
        bounds = self._bounds
        error = r.fill(
            payload,
            table,
            (bounds.first, bounds.end, bounds.since, bounds.until),
            out.wanted,
            out.fixed,
            out.keys,
            out.values,
            out.headers,
            out.sizes,
        )
        if error:
            first = int(table[0, h.BASE_OFFSET])
            raise CorruptBatch(f"a batch at offset {first} or later does not hold what it says")
        arrays = [self._array(name, out) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, out: _Outputs) -> pa.Array:
        rows = int(out.sizes[r.ROWS])
        kind = self.schema.field(name).type
        if name == "key":
            return _binary(kind, rows, out.keys, out.sizes[r.KEY_BYTES], out.sizes[r.KEY_NULLS])
        if name == "value":
            return _binary(
                kind, rows, out.values, out.sizes[r.VALUE_BYTES], out.sizes[r.VALUE_NULLS]
            )
        if name == "topic":
            return self._constants.topic(rows)
        if name == "partition":
            return self._constants.partition(rows)
        if name == "headers":
            return _header_lists(kind, rows, out)
        column = out.fixed[("offset", "timestamp", "timestampType").index(name)]
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(column[:rows])], 0)


class _Outputs:
    """Room for whatever these batches can hold. What is not wanted gets a token of room."""

    def __init__(self, names: Sequence[str], table: Table) -> None:
        rows = int(table[:, h.COUNT].sum())
        size = int(table[:, h.PAYLOAD_SIZE].sum())
        if rows * RECORD_BYTES_MIN > size:
            raise CorruptBatch(f"{rows} records do not fit into {size} bytes")
        self.sizes = np.zeros(r.SIZES, np.int64)
        self.wanted = ("key" in names, "value" in names, "headers" in names)
        take = pool.take
        self.fixed = (take(rows, np.int64), take(rows, np.int64), take(rows, np.int32))
        self.keys, self.values = (
            (take(rows + 1, np.int32), take(size, np.uint8), take(rows, np.uint8))
            if wanted
            else (_NO_ENDS.copy(), _NOTHING, _NOTHING)
            for wanted in self.wanted[:2]
        )
        if self.wanted[2]:
            most = size // 2 + 1
            self.headers = (
                take(rows + 1, np.int32),
                take(rows, np.uint8),
                take(most + 1, np.int32),
                take(size, np.uint8),
                take(most + 1, np.int32),
                take(size, np.uint8),
                take(most, np.uint8),
            )
        else:
            none = _NO_ENDS.copy()
            self.headers = (none, _NOTHING, none, _NOTHING, none, _NOTHING, _NOTHING)


class _Constants:
    """Columns that have one value: made once, as long as was ever needed, and cut to size."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic.encode()
        self._partition = partition
        self._topics = pa.array([], pa.string())
        self._partitions = pa.array([], pa.int32())

    def topic(self, rows: int) -> pa.Array:
        if len(self._topics) < rows:
            ends = np.arange(rows + 1, dtype=np.int32) * len(self._topic)
            text = np.tile(np.frombuffer(self._topic, np.uint8), rows)
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
            self._topics = pa.Array.from_buffers(pa.string(), rows, buffers, 0)
        return self._topics.slice(0, rows)

    def partition(self, rows: int) -> pa.Array:
        if len(self._partitions) < rows:
            self._partitions = pa.array(np.full(rows, self._partition, np.int32))
        return self._partitions.slice(0, rows)


def _check_crcs(data: Bytes, table: Table) -> None:
    view = data.data
    rows = table[:, (h.START, h.SIZE, h.CRC, h.BASE_OFFSET)].tolist()
    for start, size, crc, offset in rows:
        if crc32c(view[start + 21 : start + size]) != crc:
            raise CorruptBatch(f"the checksum of the batch at offset {offset} is wrong")


def _payloads(data: Bytes, table: Table) -> Iterator[tuple[Bytes, Table]]:
    """The records of these batches, uncompressed, about BATCH_BYTES at a time."""
    if not len(table):
        return
    if not np.any(table[:, h.ATTRIBUTES] & h.CODEC):
        ends = np.cumsum(table[:, h.PAYLOAD_SIZE])
        parts = max(round(int(ends[-1]) / BATCH_BYTES), 1)
        group = ends * parts // (ends[-1] + 1)
        for rows in np.split(table, np.flatnonzero(np.diff(group)) + 1):
            yield data, np.ascontiguousarray(rows)
        return
    yield from _decompressed(data, table)


def _decompressed(data: Bytes, table: Table) -> Iterator[tuple[Bytes, Table]]:
    view = data.data
    pieces: list[bytes | memoryview] = []
    begin = filled = 0
    places = []
    for n, (start, size, attributes) in enumerate(
        table[:, (h.PAYLOAD, h.PAYLOAD_SIZE, h.ATTRIBUTES)].tolist()
    ):
        stored = view[start : start + size]
        codec = attributes & h.CODEC
        piece = stored if codec == codecs.NONE else codecs.decompress(codec, stored)
        pieces.append(piece)
        places.append((filled, len(piece)))
        filled += len(piece)
        if filled >= BATCH_BYTES or n == len(table) - 1:
            rows = table[begin : n + 1].copy()
            rows[:, (h.PAYLOAD, h.PAYLOAD_SIZE)] = places
            whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            yield np.frombuffer(whole, np.uint8), rows
            pieces, places, begin, filled = [], [], n + 1, 0


def _is_aborted(table: Table, data: Bytes, aborted: Aborted) -> NDArray[np.bool_]:
    """Batches of transactions that were aborted (as Kafka's consumer finds them).

    A transaction's records begin at its first offset and end with its marker, which is given or is
    met on the way.
    """
    mask = np.zeros(len(table), np.bool_)
    ahead = list(aborted)
    active: dict[int, int | None] = {}
    columns = (h.BASE_OFFSET, h.LAST_DELTA, h.ATTRIBUTES, h.PRODUCER)
    for n, (base, delta, attributes, producer) in enumerate(table[:, columns].tolist()):
        while ahead and ahead[0][1] <= base + delta:
            producer_id, _, marker = ahead.pop(0)
            active[producer_id] = marker
        if producer not in active:
            continue
        marker = active[producer]
        if attributes & h.CONTROL or (marker is not None and base > marker):
            del active[producer]
        elif attributes & h.TRANSACTIONAL:
            mask[n] = True
    return mask


def _validity(there: Bytes, count: int) -> pa.Buffer:
    return pa.py_buffer(np.packbits(there[:count], bitorder="little"))


def _binary(
    kind: pa.DataType,
    rows: int,
    column: tuple[NDArray[np.int32], Bytes, Bytes],
    size: int,
    nulls: int,
) -> pa.Array:
    ends, data, there = column
    validity = _validity(there, rows) if nulls else None
    buffers = [validity, pa.py_buffer(ends[: rows + 1]), pa.py_buffer(data[:size])]
    return pa.Array.from_buffers(kind, rows, buffers, int(nulls))


def _header_lists(kind: pa.ListType, rows: int, out: _Outputs) -> pa.Array:
    """As Spark's Kafka source has them: null where a record has no headers."""
    list_ends, list_there, name_ends, names, content_ends, contents, there = out.headers
    count = int(out.sizes[r.HEADERS])
    struct = kind.value_type
    name_type, content_type = struct.field(0).type, struct.field(1).type
    name_buffers = [
        None,
        pa.py_buffer(name_ends[: count + 1]),
        pa.py_buffer(names[: out.sizes[r.NAME_BYTES]]),
    ]
    content_buffers = [
        _validity(there, count),
        pa.py_buffer(content_ends[: count + 1]),
        pa.py_buffer(contents[: out.sizes[r.CONTENT_BYTES]]),
    ]
    children = [
        pa.Array.from_buffers(name_type, count, name_buffers),
        pa.Array.from_buffers(content_type, count, content_buffers),
    ]
    pairs = pa.Array.from_buffers(struct, count, [None], 0, children=children)
    outer = [_validity(list_there, rows), pa.py_buffer(list_ends[: rows + 1])]
    return pa.Array.from_buffers(kind, rows, outer, children=[pairs])
