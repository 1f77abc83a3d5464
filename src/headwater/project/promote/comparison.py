"""Whether two partitions are the same to every reader: records, offsets, times, headers, what is committed.

Pure, over batches as `partitions` gives them. Batches whose bytes are the same are not taken apart; where
they differ (records that were gathered anew) they are compared record by record. Markers are not compared:
nobody is shown them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.project.promote.steps import Stored
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.records import Record

_CODEC, _TIME_MARKS = 0x07, 0x48


@dataclass
class Compared:
    """What two partitions, or all of them, have in common; `difference` is the first that is not so."""

    records: int = 0
    bytes: int = 0
    difference: str | None = None
    append_timed: tuple[str, ...] = ()
    """Topics with records whose time the broker gave: Kafka takes it as their producer's only."""


def compare(old: Iterable[Stored], new: Iterable[Stored], start: int, end: int) -> Compared:
    """Compare from offset `start` up to `end`."""
    found = Compared()
    left, right = _Side(old, start, end), _Side(new, start, end)
    while True:
        if left.at_batch and right.at_batch and _same(left.head, right.head):
            assert left.head is not None
            found.records += left.head.header.record_count
            found.bytes += left.head.header.size
            left.next_batch()
            right.next_batch()
            continue
        ours, theirs = left.next_record(), right.next_record()
        if ours != theirs:
            found.difference = _said(ours, theirs)
            return found
        if ours is None:
            return found
        found.records += 1
        record = ours[0]
        found.bytes += len(record.key or b"") + len(record.value or b"")


class _Side:
    """One partition, by batches as long as that goes, else by records."""

    def __init__(self, stored: Iterable[Stored], start: int, end: int) -> None:
        self._batches = (each for each in stored if not each.header.is_control)
        self._start, self._end = start, end
        self._records: Iterator[tuple[Record, bool]] = iter(())
        self._pending: tuple[Record, bool] | None = None
        self.head: Stored | None = None
        self.next_batch()

    @property
    def at_batch(self) -> bool:
        """Whether all records before `head` have been taken."""
        if self._pending is None:
            self._pending = next(self._records, None)
        return self._pending is None

    def next_batch(self) -> None:
        self.head = next(self._batches, None)

    def next_record(self) -> tuple[Record, bool] | None:
        """The next record, and whether it was aborted."""
        while self.at_batch:
            if self.head is None:
                return None
            self._records = self._inside(self.head)
            self.next_batch()
        found, self._pending = self._pending, None
        return found

    def _inside(self, stored: Stored) -> Iterator[tuple[Record, bool]]:
        for record in records.decode(stored.data):
            if self._start <= record.offset < self._end:
                yield record, stored.aborted


def _same(old: Stored | None, new: Stored | None) -> bool:
    if old is None or new is None:
        return False
    left, right = old.header, new.header
    if (left.attributes | right.attributes) & _TIME_MARKS:
        return False
    return (
        left.base_offset == right.base_offset
        and left.last_offset_delta == right.last_offset_delta == left.record_count - 1
        and left.record_count == right.record_count
        and left.base_timestamp == right.base_timestamp
        and left.attributes & _CODEC == right.attributes & _CODEC
        and old.aborted == new.aborted
        and _payload(old) == _payload(new)
    )


def _payload(stored: Stored) -> memoryview:
    return memoryview(stored.data)[batches.HEADER_BYTES :]


def _said(ours: tuple[Record, bool] | None, theirs: tuple[Record, bool] | None) -> str:
    if ours is None:
        assert theirs is not None
        return f"Kafka has a record at offset {theirs[0].offset} that the log has not"
    if theirs is None or theirs[0].offset > ours[0].offset:
        return f"Kafka lacks the record at offset {ours[0].offset}"
    if theirs[0].offset < ours[0].offset:
        return f"Kafka has a record at offset {theirs[0].offset} that the log has not"
    names = [name for name, a, b in zip(Record._fields, ours[0], theirs[0], strict=True) if a != b]
    if ours[1] != theirs[1]:
        names.append("transaction")
    return f"the record at offset {ours[0].offset} differs in its {' and its '.join(names)}"
