"""Reading a log through, from an offset to its durable end: how state is rebuilt from it.

The catalogue, the coordinators' state topics, the excisions and the dead letters are read by this one
loop. It reads the segments themselves, checks every batch, and always moves on: to the next batch, or over
what is damaged to the next that is intact. What cannot be read is handed to `report`, once for each place;
whoever may not go on without it raises there. Nothing on disk is changed.

A batch counts if its checksum is right and its offsets, which lie outside the checksum, agree with those
before it and behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headwater.log.files import FileSystem
from headwater.log.partition import PartitionLog
from headwater.log.segment import SCAN_BYTES, Segment, file_name
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.batch import HEADER_BYTES, BatchHeader
from headwater.record.errors import CorruptBatch, RecordError
from headwater.record.records import Record

logger = logging.getLogger("headwater.log")

DAMAGED = ".damaged"
"""Of a file beside the segments: a copy of bytes that could not be read, named by their first offset."""
DAMAGED_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are no batch, or a batch whose records cannot be read."""

    path: Path
    """Of the segment."""
    file_position: int
    size: int
    first_offset: int
    next_offset: int
    """The records of the offsets [first_offset, next_offset) are missing from what was read."""
    reason: str

    def __str__(self) -> str:
        last = max(self.first_offset, self.next_offset - 1)
        return (
            f"{self.path.parent.name}: offsets {self.first_offset} to {last} cannot be read, because "
            f"{self.path.name} is damaged at byte {self.file_position} ({self.reason})"
        )


Report = Callable[[Damage], None]


class Batch(NamedTuple):
    """A whole and intact batch."""

    header: BatchHeader
    data: bytes
    """All of it, the header included."""
    records: list[Record]
    """Those from the first offset on that was asked for; none of a control batch."""


def read(
    log: PartitionLog, offset: int, report: Report, producer_id: int | None = None
) -> Iterator[Batch]:
    """Every durable batch with an offset of at least `offset`, in order. With `producer_id` those of that
    producer alone: into the others nobody looks, however many records they have."""
    offset = max(offset, log.start_offset)
    for segment, end in log.readable():
        if segment.next_offset > offset:
            yield from _read_segment(segment, end, offset, report, producer_id)


def intact(log: PartitionLog, offset: int, report: Report) -> Iterator[tuple[BatchHeader, bytes]]:
    """The same batches without a look at what is in them: a small one may have millions of records."""
    offset = max(offset, log.start_offset)
    for segment, end in log.readable():
        if segment.next_offset > offset:
            for _, header, data in walk(segment, end, offset, report):
                if header.last_offset >= offset:
                    yield header, data


def read_through(log: PartitionLog) -> None:
    """Whether the disk gives all that `read` would ask for. Raises OSError, with the file's name."""
    for segment, end in log.readable():
        try:
            for position in range(0, end, SCAN_BYTES):
                segment.file.read(position, min(SCAN_BYTES, end - position))
        except OSError as error:
            error.filename = error.filename or str(segment.path(".log"))
            raise


def copied(files: FileSystem, found: Damage) -> Path:
    """The file, beside the segment, that has its bytes; made if it is not there."""
    copy = found.path.with_name(file_name(found.first_offset, DAMAGED))
    try:
        file = files.open(found.path)
        try:
            data = file.read(found.file_position, min(found.size, DAMAGED_BYTES_MAX))
        finally:
            file.close()
        if files.read_bytes(copy) != data:
            files.write_atomic(copy, data)
    except OSError as error:
        logger.error("%s could not be written: %s", copy, error)
    return copy


def _read_segment(
    segment: Segment, end: int, offset: int, report: Report, producer_id: int | None
) -> Iterator[Batch]:
    for position, header, data in walk(segment, end, offset, report):
        is_meant = producer_id is None or header.producer_id == producer_id
        if header.last_offset < offset or not is_meant:
            continue
        found: list[Record] = []
        if not header.is_control:
            try:
                found = [each for each in records.each(data) if each.offset >= offset]
            except RecordError as error:
                offsets = header.base_offset, header.next_offset
                path = segment.path(".log")
                report(Damage(path, position, header.size, *offsets, str(error)))
                continue
        yield Batch(header, data, found)


def walk(
    segment: Segment, end: int, offset: int, report: Report
) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """(file position, header, bytes) of the intact batches, from near `offset` to file position `end`."""
    window = _Window(segment, end)
    position, follows = _begin(segment, offset)
    while position < end:
        try:
            header, data = _checked(window, position, follows)
        except RecordError as error:
            position, follows = _beyond(segment, position, end, follows, str(error), report)
            continue
        yield position, header, data
        position, follows = position + header.size, header.next_offset


class _Window:
    """A piece of a segment's file in memory, so that small batches do not take a read each."""

    __slots__ = ("_data", "_start", "end", "segment")

    def __init__(self, segment: Segment, end: int) -> None:
        self.segment, self.end = segment, end
        self._data, self._start = b"", 0

    def at(self, position: int, size: int) -> bytes:
        """These bytes; fewer only at the end."""
        size = min(size, self.end - position)
        first = position - self._start
        if first < 0 or first + size > len(self._data):
            wanted = min(max(size, SCAN_BYTES), self.end - position)
            self._data, self._start = self.segment.file.read(position, wanted), position
            first = 0
        return self._data[first : first + size]


def _begin(segment: Segment, offset: int) -> tuple[int, int]:
    """Where to begin for this offset: as the index says if the batch there agrees, else at 0."""
    last, position = segment.index.floor(offset) if offset > segment.base_offset else (0, 0)
    if position:
        try:
            header = batches.read_header(segment.file.read(position, HEADER_BYTES))
            if header.last_offset == last:
                return position, header.base_offset
        except RecordError:
            pass
    return 0, segment.base_offset


def _checked(window: _Window, position: int, follows: int) -> tuple[BatchHeader, bytes]:
    """The batch at this place; raises RecordError unless it is whole, intact and in order."""
    header = batches.read_header(window.at(position, HEADER_BYTES))
    if position + header.size > window.end:
        raise CorruptBatch(f"a batch of {header.size} bytes reaches beyond the end")
    data = window.at(position, header.size)
    batches.check_crc(data, 0, header)
    if not follows <= header.base_offset <= header.last_offset < window.segment.next_offset:
        raise CorruptBatch(f"offset {header.base_offset} stands where {follows} should")
    behind = _base_offset(window.at(position + header.size, HEADER_BYTES))
    if (
        header.base_offset > follows
        and behind is not None
        and follows <= behind < header.next_offset
    ):
        raise CorruptBatch(f"offset {header.base_offset} is followed by offset {behind}")
    return header, data


def _base_offset(data: bytes) -> int | None:
    """The base offset of the batch that begins here, if its header can be read."""
    try:
        return batches.read_header(data).base_offset
    except RecordError:
        return None


def _beyond(
    segment: Segment, position: int, end: int, follows: int, reason: str, report: Report
) -> tuple[int, int]:
    """Report what is damaged; returns where the next intact batch begins, and its offset."""
    beyond, offset = end, segment.next_offset
    found = segment.next_intact(position + 1, gaps=True)
    while found is not None and found[0] < end:
        if found[1].base_offset >= follows:
            beyond, offset = found[0], found[1].base_offset
            break
        found = segment.next_intact(found[0] + 1, gaps=True)
    path = segment.path(".log")
    report(Damage(path, position, beyond - position, follows, offset, reason))
    return beyond, offset
