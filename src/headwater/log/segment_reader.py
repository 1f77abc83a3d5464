"""Finding and reading batches in segments: by offset, by time. Called by `PartitionLog` only.

A read begins at the place that the sparse index names, and walks from header to header to the batch
that is wanted. What the index says is believed only as far as the file agrees. Data that this process
did not write itself is checked on the way: checksums, and that offsets follow one another (the base
offset lies outside the checksum).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from headwater.log import lookup, time_lookup
from headwater.log.allowance import Allowance, TooMuch
from headwater.log.segment import CorruptSegment, Segment
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.batch import HEADER_BYTES, BatchHeader
from headwater.record.errors import RecordError
from headwater.record.varint import Buffer

_SLACK_BYTES = 8192
"""Read beyond what was asked for, so that finding the first batch seldom takes a second read."""


class Found(NamedTuple):
    """A record found by time."""

    timestamp: int
    offset: int


class Wanted(NamedTuple):
    """What a reader asks of one segment."""

    offset: int
    end: int
    """File position at which to stop."""
    size_max: int
    at_least_one: bool
    within: Allowance | None
    """Given: only what is cached is read, and not much is looked at."""
    gaps: bool
    """Offsets may be missing between batches: compaction has been here."""


def read_segment(segment: Segment, wanted: Wanted) -> tuple[Buffer | None, bool]:
    """(data, whether the offset is in this segment). None: the disk would have to be waited for, or
    the segment to be searched; with an allowance neither is done.

    Data starts with the batch that holds the offset; the last batch may be cut. Empty although the
    offset is here: the first batch is larger than `size_max`. Raises CorruptSegment, TooMuch.
    """
    if wanted.within is not None:
        if not segment.is_loaded:
            return None, True
        start = lookup.floor_cached(segment, wanted.offset)
        return (None, True) if start is None else _find(segment, wanted, start, wanted.within)
    start = lookup.floor(segment, wanted.offset)[1]
    try:
        return _find(segment, wanted, start, Allowance())
    except TooMuch:  # its index was made with fewer entries, and every reader would go as far again
        if start < segment.trusted_from:
            segment.rebuild_indexes()
    return _find(segment, wanted, lookup.floor(segment, wanted.offset)[1], None)


def _find(
    segment: Segment, wanted: Wanted, start: int, within: Allowance | None
) -> tuple[Buffer | None, bool]:
    """`within`: for the search alone."""
    follows = segment.base_offset if start == 0 else None
    while start < wanted.end:
        try:
            found = _search(segment, wanted, start, follows, within)
        except CorruptSegment as error:
            if wanted.within is not None:
                return None, True
            start = _beyond(segment, wanted, start, error)
            follows = None
            continue
        if isinstance(found, tuple):
            return found
        start, follows = found, None
    if wanted.offset < segment.next_offset and wanted.end == segment.size:
        # A segment ends with a batch that reaches to the next one, compacted or not. Where it does
        # not, either records are missing since a start that has reported them, or this is damage.
        if wanted.within is not None:
            return None, True
        lookup.check_last(segment)
    return b"", False


def _search(
    segment: Segment, wanted: Wanted, start: int, follows: int | None, within: Allowance | None
) -> tuple[Buffer | None, bool] | int:
    """One read at `start`: the answer, or where to go on because the offset comes later."""
    read = segment.file.read if wanted.within is None else segment.file.read_cached
    data = read(start, min(max(wanted.size_max, 0) + _SLACK_BYTES, wanted.end - start))
    if data is None:
        return None, True
    skipped = 0
    for position, header in _headers(segment, data, start, wanted, follows):
        if within is not None:
            within.take()
        if header.last_offset >= wanted.offset:
            return _take(segment, data, start, position, header, wanted)
        skipped = position + header.size
    if not skipped:
        raise segment.corrupt(start, f"{wanted.end - start} bytes are left, which is no batch")
    return start + skipped


def _beyond(segment: Segment, wanted: Wanted, start: int, error: CorruptSegment) -> int:
    """Where to go on after damage before the offset; raises it again if the offset is in it.

    The batch before the place where the walk failed may be the one that lies about its length, so
    the search begins right behind the start of the walk.
    """
    if error.file_position < segment.trusted_from:
        found = segment.next_intact(start + 1, gaps=wanted.gaps)
        if found is not None and found[1].base_offset <= wanted.offset:
            return found[0]
    raise error


def _headers(
    segment: Segment, data: bytes, start: int, wanted: Wanted, follows: int | None
) -> Iterator[tuple[int, BatchHeader]]:
    """Headers in `data`, which was read at `start`; the last batch may reach beyond it."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        try:
            header = batches.read_header(data, position)
            if start + position + header.size > wanted.end:
                raise batches.CorruptBatch("a batch reaches beyond the end")
            if start + position < segment.trusted_from:
                _check_order(segment, header, follows, wanted.gaps)
        except RecordError as error:
            raise segment.corrupt(start + position, str(error)) from error
        yield position, header
        position += header.size
        follows = header.next_offset


def _check_order(segment: Segment, header: BatchHeader, follows: int | None, gaps: bool) -> None:
    if not segment.base_offset <= header.base_offset <= header.last_offset < segment.next_offset:
        raise batches.CorruptBatch(f"offset {header.base_offset} does not belong here")
    if follows is not None and (
        header.base_offset < follows or (header.base_offset > follows and not gaps)
    ):
        raise batches.CorruptBatch(f"offset {header.base_offset} stands where {follows} should")


def _take(
    segment: Segment, data: bytes, start: int, position: int, header: BatchHeader, wanted: Wanted
) -> tuple[Buffer | None, bool]:
    """The answer, from the batch at `position` on."""
    size = wanted.size_max
    if header.size > size:
        if not wanted.at_least_one:
            return b"", True
        size = header.size
    if position + header.size > len(data):
        read = segment.file.read if wanted.within is None else segment.file.read_cached
        start, position = start + position, 0
        fresh = read(start, min(size, wanted.end - start))
        if fresh is None:
            return None, True
        data = fresh
    found = memoryview(data)[position : position + size]
    if start + position >= segment.trusted_from:
        return found, True
    return _checked_prefix(segment, bytes(found), start + position, wanted), True


def _checked_prefix(segment: Segment, data: bytes, start: int, wanted: Wanted) -> bytes:
    """Whole and intact batches only; raises CorruptSegment if already the first is damaged, TooMuch."""
    good = 0
    follows: int | None = None
    while good + HEADER_BYTES <= len(data):
        if wanted.within is not None:
            wanted.within.take()
        try:
            header = batches.read_header(data, good)
            if good + header.size > len(data):
                break
            batches.check_crc(data, good, header)
            _check_order(segment, header, follows, wanted.gaps)
        except RecordError as error:
            if good == 0:
                raise segment.corrupt(start, str(error)) from error
            break
        good += header.size
        follows = header.next_offset
    return data[:good]


Counted = Callable[[int], None]
"""Hears how many bytes a lookup holds now."""


def uncounted(size: int) -> None:
    """For those who need not know."""


def find_time(
    segments: list[tuple[Segment, int]],
    timestamp: int,
    start_offset: int,
    counted: Counted = uncounted,
) -> Found | None:
    """The first record from `start_offset` on, by offset, that is at or after `timestamp`.

    `segments`: with each the file position at which to stop.
    """
    for segment, end in segments:
        if time_lookup.largest(segment) < timestamp:
            continue
        position = time_lookup.floor(segment, timestamp)
        for at, header in segment.headers(position, end, checked=False):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            for offset, found in _times(segment, at, header, counted):
                if found >= timestamp and offset >= start_offset:
                    return Found(found, offset)
    return None


def _times(
    segment: Segment, at: int, header: BatchHeader, counted: Counted
) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of each record of a batch; no more of it is held than its bytes."""
    data = segment.file.read(at, header.size)
    payload = records.payload(data, header)
    counted(len(data) + len(payload))
    return records.times(payload, header)


def latest_timestamp(
    segment: Segment, end: int, start_offset: int, counted: Counted = uncounted
) -> int:
    """The latest timestamp in [start_offset, file position `end`) of a segment, or -1."""
    if segment.base_offset >= start_offset and segment.size == end:
        return time_lookup.largest(segment)
    latest = -1
    _, position = lookup.floor(segment, start_offset)
    for at, header in segment.headers(position, end, checked=False):
        if not header.record_count:
            continue  # compaction left nothing of it
        if header.base_offset >= start_offset:
            latest = max(latest, header.max_timestamp)
        elif header.last_offset >= start_offset:  # the start lies inside this batch
            inside = _times(segment, at, header, counted)
            times = (found for offset, found in inside if offset >= start_offset)
            latest = max(latest, max(times, default=-1))
    return latest
