"""Where in a segment's file the search for an offset begins: by the sparse index, as far as the file agrees.

Whoever looks for an offset comes here: readers, lookups by time, the replay of state and of producers,
recovery. An index has no checksum. One wrong bit in it must not lead over records that are there, into the
middle of a batch, or beyond the last stable offset; so of what this process did not write itself, the batch
that an entry names must begin where the entry says. Where it does not, both indexes are made anew.
"""

from __future__ import annotations

from headwater.log.allowance import Allowance
from headwater.log.segment import SCAN_BYTES, Segment
from headwater.record import batch as batches
from headwater.record.batch import HEADER_BYTES, BatchHeader
from headwater.record.errors import RecordError


def floor(segment: Segment, offset: int) -> tuple[int, int]:
    """(last offset, file position) of a batch before which none has `offset` or more; the segment's start
    where the index knows none. May read all of the segment."""
    for attempt in range(2):
        last_offset, position = segment.index.floor(offset)
        if position >= segment.trusted_from or is_at(segment, position, last_offset):
            return last_offset, position
        if attempt == 0:
            segment.rebuild_indexes()
    return segment.base_offset, 0


def floor_cached(segment: Segment, offset: int) -> int | None:
    """The file position alone; None: the disk would have to be waited for."""
    last_offset, position = segment.index.floor(offset)
    if not position or position >= segment.trusted_from:
        return position
    data = segment.file.read_cached(position, HEADER_BYTES)
    return position if data is not None and _is_last_offset(data, last_offset) else None


def is_at(segment: Segment, position: int, last_offset: int) -> bool:
    """Whether the batch with this last offset begins there. A segment's start needs no index."""
    return not position or _is_last_offset(segment.file.read(position, HEADER_BYTES), last_offset)


def position_of(
    segment: Segment,
    offset: int,
    end: int,
    piece_bytes: int = SCAN_BYTES,
    within: Allowance | None = None,
) -> tuple[int, BatchHeader] | None:
    """The first batch that ends at or after `offset`, below file position `end`. Raises TooMuch."""
    _, position = floor(segment, offset)
    for at, header in segment.headers(position, end, checked=False, piece_bytes=piece_bytes):
        if within is not None:
            within.take()
        if header.last_offset >= offset:
            return at, header
    return None


def end_of_data(segment: Segment) -> int:
    """The offset behind its last batch, as far as it can be read: before the next segment another may be
    lost."""
    _, position = floor(segment, segment.next_offset)
    end = segment.base_offset
    try:
        for _, header in segment.headers(position, segment.size, checked=False):
            end = header.next_offset
    except RecordError:
        pass
    return end


def check_last(segment: Segment) -> None:
    """Raise CorruptSegment unless the last batch is intact: does the segment really end there?"""
    if not segment.size:
        raise segment.corrupt(0, "its file is empty, and its records are missing")
    _, start = segment.index.floor_position(segment.size - 1)
    places = [position for position, _ in segment.headers(start, segment.size, checked=False)]
    for _ in segment.headers(places[-1], segment.size, checked=True):
        pass


def _is_last_offset(data: bytes, last_offset: int) -> bool:
    try:
        return batches.read_header(data).last_offset == last_offset
    except RecordError:
        return False
