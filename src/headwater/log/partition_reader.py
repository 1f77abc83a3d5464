"""Reading a partition's log: which segment, how far, and on to the next batch that has a record.

`PartitionLog` calls it, from any thread: the list of segments is handed in, taken once. Nothing at or above
the durable offset is read.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from headwater.log import aborted_list, lookup, segment_reader
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.log.allowance import Allowance, TooMuch
from headwater.log.segment import Segment
from headwater.record import batch as batches
from headwater.record.varint import Buffer

if TYPE_CHECKING:
    from headwater.log.partition import PartitionLog

_LENGTH, _LENGTH_AT = struct.Struct(">i"), 8
"""A batch's length, and where in its header it stands."""
_HEAD = struct.Struct(">qi11xi30xi")
"""Of a batch's header: base offset, length, last offset delta, count of records."""
_SEARCH_BYTES = 256 * 1024
"""Read at once in search of a record, however few bytes the reader asks for."""
_AT_ONCE_BYTES = 32 * 1024
"""Of what is read, so much is looked through for one while others wait,"""
_STEPS_MAX = 8
"""and so many reads are made; more is done in a thread."""


class OffsetOutOfRange(Exception):
    """Before the log's start, or beyond its end."""


class ReadRequest(NamedTuple):
    """What a reader asks for; see `PartitionLog.read`."""

    offset: int
    size_max: int
    at_least_one: bool
    upper: int | None
    within: Allowance | None


def read(log: PartitionLog, segments: list[Segment], wanted: ReadRequest) -> Buffer | None:
    try:
        return _read_on(log, segments, wanted)
    except TooMuch:
        return None


def read_committed(
    log: PartitionLog, segments: list[Segment], wanted: ReadRequest
) -> tuple[Buffer | None, list[AbortedTransaction]]:
    data = read(log, segments, wanted)
    if not data:
        return data, []
    assert wanted.upper is not None
    try:
        return data, aborted_in(data, segments, wanted.offset, wanted.upper, wanted.within)
    except TooMuch:
        return None, []


def _read_on(log: PartitionLog, segments: list[Segment], wanted: ReadRequest) -> Buffer | None:
    offset = wanted.offset
    durable = log.durable_offset
    limit = durable if wanted.upper is None else min(wanted.upper, durable)
    if offset < log.start_offset or offset > log.next_offset:
        raise OffsetOutOfRange(f"offset {offset} is not within {log.start_offset}–{durable}")
    if offset >= limit:
        return b""
    gaps = log.config.compact or log.cleaned_offset > 0
    data = _read(log, segments, wanted, offset, limit, gaps)
    steps, search, looked_at = 0, wanted, _AT_ONCE_BYTES
    if wanted.within is None:
        looked_at = max(wanted.size_max, _SEARCH_BYTES)
        search = wanted._replace(size_max=looked_at)
    while (
        data
        and (end := _end_without_records(memoryview(data)[:looked_at], wanted.within)) is not None
    ):
        if end >= limit:
            break
        # Clients take an answer without any record for one that was cut too short to hold the
        # first, and ask for the same again: they get the next batch that has one.
        steps += 1
        if wanted.within is not None and (steps > _STEPS_MAX or len(data) > looked_at):
            return None
        found = _read(log, segments, search, end, limit, gaps)
        if found is not None and not found and wanted.at_least_one:
            return data[: max(wanted.size_max, batches.HEADER_BYTES)]
        if not found:
            return found
        data = found
    if steps and data and len(data) > wanted.size_max:
        return _read(log, segments, wanted, _first_with_records(data), limit, gaps)
    return data


def _read(
    log: PartitionLog,
    segments: list[Segment],
    wanted: ReadRequest,
    offset: int,
    limit: int,
    gaps: bool,
) -> Buffer | None:
    """Batches of the one segment that has the first of them."""
    for segment in segments[max(_number(segments, offset), 0) :]:
        if segment.base_offset >= limit:
            break
        end = readable_end(log, segment, limit, wanted.within)
        if end is None:
            return None
        piece = segment_reader.Wanted(
            offset, end, wanted.size_max, wanted.at_least_one, wanted.within, gaps
        )
        data, is_here = segment_reader.read_segment(segment, piece)
        if is_here:
            return data
    return b""


def readable_end(
    log: PartitionLog, segment: Segment, limit: int, within: Allowance | None = None
) -> int | None:
    """The file position at which a reader must stop; None: the disk would have to be asked."""
    last, position = log.durable_end
    if segment is last:
        end = position
    elif segment.base_offset >= log.durable_offset:
        return 0
    else:
        end = segment.size
    if limit < log.durable_offset and segment.next_offset > limit:
        if within is not None and not _is_near(segment, limit):
            return None
        found = lookup.position_of(segment, limit, end, within=within)
        return found[0] if found else end
    return end


def _is_near(segment: Segment, offset: int) -> bool:
    """Whether the place of an offset can be looked for without waiting for the disk."""
    return segment.is_loaded and lookup.floor_cached(segment, offset) is not None


def aborted_in(
    data: Buffer, segments: list[Segment], offset: int, upper: int, within: Allowance | None = None
) -> list[AbortedTransaction]:
    """Those with records in what was read from `offset` on. Not what ended before its first batch: a segment
    between may be lost, and no marker is there then to end it for the reader (`lost_segments`)."""
    first = max(offset, batches.read_header(data).base_offset)
    number = max(_number(segments, first), 0)
    # All of it is of one segment; only if something was aborted there is its true end looked for.
    end = min(segments[number].next_offset, upper)
    lists = (segment.aborted for segment in segments[number:])
    if next(aborted_list.touching(lists, first, end, within), None) is None:
        return []
    return aborted(segments, first, min(_end_offset(data, within), upper), within)


def aborted(
    segments: list[Segment], first: int, end: int, within: Allowance | None = None
) -> list[AbortedTransaction]:
    number = max(_number(segments, first), 0)
    return aborted_list.between((s.aborted for s in segments[number:]), first, end, within)


def _number(segments: list[Segment], offset: int) -> int:
    """Of the segment that has this offset; -1: it lies before all of them."""
    return bisect_right(segments, offset, key=attrgetter("base_offset")) - 1


def _end_offset(data: Buffer, within: Allowance | None) -> int:
    """The offset behind the last batch that is at least begun in `data`. From length to length: there may be
    a million."""
    position, last, limit = 0, None, len(data) - batches.HEADER_BYTES
    while position <= limit:
        if within is not None:
            within.take()
        last = position
        length: int = _LENGTH.unpack_from(data, position + _LENGTH_AT)[0]
        if length <= 0:
            break
        position += batches.LOG_OVERHEAD + length
    return 0 if last is None else batches.read_header(data, last).next_offset


def _end_without_records(data: Buffer, within: Allowance | None) -> int | None:
    """The offset behind the empty batches at the front, if no whole batch with a record follows them;
    None if there is a record, or the first batch has one. There may be a hundred thousand."""
    position, end, whole = 0, None, len(data)
    while position + batches.HEADER_BYTES <= whole:
        first, length, delta, count = _HEAD.unpack_from(data, position)
        if count or length <= 0:
            return end if position + batches.LOG_OVERHEAD + length > whole else None
        if within is not None:
            within.take()
        position, end = position + batches.LOG_OVERHEAD + length, first + delta + 1
    return end


def _first_with_records(data: Buffer) -> int:
    """The first offset of the first batch that has a record; there is one."""
    position, first = 0, 0
    while position + batches.HEADER_BYTES <= len(data):
        first, length, _, count = _HEAD.unpack_from(data, position)
        if count or length <= 0:
            break
        position += batches.LOG_OVERHEAD + length
    return int(first)
