"""What a segment's time index says, as far as the file agrees: where a search by time begins, and the
latest timestamp; and the first, which no index has.

Lookups by time, retention, compaction and recovery come here. The index has no checksum. One wrong bit in
it must hide no record from those who look by time, and must make no segment older than its records: it
would be removed too early. So the batch that an entry names must have the entry's timestamp. Where it has
another, both indexes are made anew; so they are where the file has entries that cannot be
(`Segment._load_indexes`). An entry that was cut off at the end, and nothing else, is not noticed.
"""

from __future__ import annotations

from headwater.log import lookup
from headwater.log.segment import Segment
from headwater.record import batch as batches
from headwater.record.errors import CorruptBatch, RecordError

_PIECE_BYTES = 4096
"""Between two entries of the other index there is about as much."""


def floor(segment: Segment, timestamp: int) -> int:
    """The file position of a batch before which no record is as late as `timestamp`."""
    for attempt in range(2):
        entry = segment.times.floor(timestamp)
        if entry is None:
            return 0
        if agrees(segment, *entry):
            return lookup.floor(segment, entry[1])[1]
        if attempt == 0:
            segment.rebuild_indexes()
    return 0


def largest(segment: Segment) -> int:
    """Latest timestamp in the segment.

    Of a segment that was found on disk the time index may lack the last entry: what follows the last
    place that is indexed is looked at, once.
    """
    if segment.max_timestamp < 0 and segment.size:
        index, times = segment.index, segment.times
        if not last_agrees(segment):
            index, times = segment.rebuild_indexes()
        segment.max_timestamp, segment.max_timestamp_offset = times.last()
        position = index.entry(len(index) - 1)[1] if len(index) else 0
        try:
            for _, header in segment.headers(position, segment.size, checked=False):
                segment.note(header, header.last_offset)
        except CorruptBatch:
            pass  # the readers' business
    return segment.max_timestamp


def first(segment: Segment) -> int:
    """Timestamp of the first batch, by which the segment's age is told; -1 if it has none."""
    if segment.first_timestamp is None:
        try:
            header = batches.read_header(segment.file.read(0, batches.HEADER_BYTES))
        except RecordError:
            return -1  # empty or damaged; who reads it will say so
        segment.first_timestamp = header.max_timestamp
    return segment.first_timestamp


def tell_age(active: Segment) -> None:
    """A segment that is filled on is as old as its first batch, however often the broker was started."""
    try:
        timestamp = first(active) if active.size else -1
    except OSError:
        return  # whoever reads it will say so
    if timestamp >= 0:
        active.created_ms = min(active.created_ms, timestamp)


def last_agrees(segment: Segment) -> bool:
    """Whether the last entry, if there is one, is as the file has it."""
    times = segment.times
    return not len(times) or agrees(segment, *times.last())


def agrees(segment: Segment, timestamp: int, offset: int) -> bool:
    """Whether the batch with this offset has this latest timestamp. Where the batches on the way to it are
    damaged nobody knows: whoever searches there meets that."""
    try:
        found = lookup.position_of(segment, offset, segment.size, _PIECE_BYTES)
    except CorruptBatch:
        return True
    return found is not None and found[1].max_timestamp == timestamp


def first_timestamp(segment: Segment) -> int | None:
    try:
        return batches.read_header(segment.file.read(0, batches.HEADER_BYTES)).max_timestamp
    except RecordError:
        return None  # an empty file, or damage that the scan or a reader will meet
