"""The sparse indexes of a segment, held against its batches while these are gone through.

`segments` makes one `Indexes` for each segment and shows it every batch. An index is only a short cut:
what it lacks is found by reading on, and the broker makes a missing one anew. But an entry that is wrong
leads lookups astray, and a time index that ends too early makes them (and retention) overlook records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from headwater.log import aborted_transactions
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.record.batch import BatchHeader
from headwater.record.errors import RecordError

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


def read(path: Path) -> bytes | None:
    """None where there is no such file. Raises OSError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


class OffsetIndexCheck:
    """Every entry must name the last offset of a batch and the place where that batch begins."""

    def __init__(self, base_offset: int, data: bytes) -> None:
        self._base_offset = base_offset
        self.problem: str | None = None
        if len(data) % _OFFSET_ENTRY.size:
            self.problem = f"{len(data)} bytes are no whole number of entries"
        self._entries = _unpacked(_OFFSET_ENTRY, data)
        self._next = next(self._entries, None)
        whole = len(data) - len(data) % _OFFSET_ENTRY.size
        self.last_position = 0
        if whole:
            self.last_position = _OFFSET_ENTRY.unpack_from(data, whole - _OFFSET_ENTRY.size)[1]

    def see(self, position: int, header: BatchHeader) -> None:
        while self._next is not None and self._next[1] <= position:
            offset, at = self._next
            if (at, offset + self._base_offset) != (position, header.last_offset):
                self.problem = self.problem or f"no batch with offset {offset} begins at byte {at}"
            self._next = next(self._entries, None)

    def finish(self) -> str | None:
        if self._next is not None and self.problem is None:
            self.problem = f"an entry points to byte {self._next[1]}, where no batch begins"
        return self.problem


class TimeIndexCheck:
    """Every entry must be the latest timestamp up to its offset; the last must not be too early."""

    def __init__(self, base_offset: int, data: bytes, last_position: int) -> None:
        self._base_offset = base_offset
        self.problem: str | None = None
        if len(data) % _TIME_ENTRY.size:
            self.problem = f"{len(data)} bytes are no whole number of entries"
        self._entries = _unpacked(_TIME_ENTRY, data)
        self._next = next(self._entries, None)
        self._last_position = last_position
        self._latest = self._latest_beyond = self._latest_entry = -1

    def see(self, position: int, header: BatchHeader) -> None:
        if not header.record_count:
            return
        timestamp = header.max_timestamp
        if timestamp > self._latest:
            self._latest = timestamp
        if position >= self._last_position:
            self._latest_beyond = max(self._latest_beyond, timestamp)
        while self._next is not None and self._next[1] + self._base_offset <= header.last_offset:
            at, offset = self._next[0], self._next[1] + self._base_offset
            if offset < header.base_offset or at != self._latest:
                self.problem = self.problem or f"timestamp {at} is not the latest up to {offset}"
            self._latest_entry = max(self._latest_entry, at)
            self._next = next(self._entries, None)

    def finish(self) -> str | None:
        if self.problem is None and self._next is not None:
            self.problem = f"an entry names offset {self._next[1] + self._base_offset}"
        if self.problem is None and max(self._latest_entry, self._latest_beyond) < self._latest:
            self.problem = f"it does not know of timestamp {self._latest}"
        return self.problem


def _unpacked(entry: struct.Struct, data: bytes) -> Iterator[tuple[int, int]]:
    """Entries without the zeros that Kafka fills the file of an active segment up with."""
    whole = data[: len(data) - len(data) % entry.size]
    count = len(whole) // entry.size
    while count and not any(whole[(count - 1) * entry.size : count * entry.size]):
        count -= 1
    for values in entry.iter_unpack(whole[: count * entry.size]):
        yield values[0], values[1]


def check_aborted(
    base_offset: int,
    data: bytes | None,
    expected: list[AbortedTransaction],
    markers: set[int],
    must_be_known_before: int,
) -> str | None:
    """What is wrong with a list of aborted transactions; `expected`: what the batches tell.

    It may have more than that: compaction takes aborted records and leaves the marker for a while.
    """
    try:
        found = aborted_transactions.unpack(data or b"", base_offset)
    except RecordError as error:
        return str(error)
    by_marker = {each.last_offset: each for each in found}
    for each in expected:
        there = by_marker.get(each.last_offset)
        if there is None:
            if each.last_offset < must_be_known_before:
                return f"the transaction that offset {each.last_offset} aborts is not in it"
        elif there.producer_id != each.producer_id or there.first_offset > each.first_offset:
            return f"the transaction that offset {each.last_offset} aborts is not as the log has it"
    for each in found:
        if each.last_offset not in markers:
            return f"offset {each.last_offset} aborts nothing"
    return None
