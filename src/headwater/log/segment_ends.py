"""Whether each sealed segment ends where the next one begins; housekeeping asks after each start.

One that was removed with all its files leaves no trace, nor does a cut between two batches: readers pass over
what is missing. Where compaction has been offsets may be missing, and nothing is said.
"""

from __future__ import annotations

from itertools import pairwise

from headwater.log import lookup
from headwater.log.index import OffsetIndex
from headwater.log.partition import PartitionLog
from headwater.log.segment import SCAN_BYTES, Segment
from headwater.record.errors import RecordError


def may_have_gaps(log: PartitionLog) -> bool:
    return log.config.compact or log.cleaned_offset > 0


def neighbours(log: PartitionLog) -> list[tuple[Segment, Segment]]:
    """Those of which each must end where the next begins."""
    durable = log.durable_offset
    return [each for each in pairwise(log.segments) if each[1].base_offset <= durable]


def missing(those: list[tuple[Segment, Segment]]) -> list[tuple[int, int]]:
    """Offsets that no segment has, each [first, second). Disk work, in any thread: the log's own segments are
    left alone, and one that goes meanwhile tells nothing."""
    ends = [(_end_of(segment), following.base_offset) for segment, following in those]
    return [(end, begin) for end, begin in ends if end is not None and end < begin]


def _end_of(segment: Segment) -> int | None:
    try:
        return _end(Segment.found(segment.files, segment.directory, segment.base_offset, 0))
    except OSError:
        return None


def _end(segment: Segment) -> int | None:
    """The offset behind its last batch, at the price of two short reads; None if these do not tell."""
    try:
        last_offset, position = _last_entry(segment)
        if segment.size - position > SCAN_BYTES or not lookup.is_at(segment, position, last_offset):
            return None
        end = None if position else segment.base_offset
        for _, header in segment.headers(position, segment.size, checked=False):
            if end is not None and header.base_offset != end:
                return None  # damage, which readers meet
            end = header.next_offset
        return end
    except (OSError, RecordError):
        return None
    finally:
        segment.close()


def _last_entry(segment: Segment) -> tuple[int, int]:
    """The last offset and the place of the last batch that its index file names."""
    try:
        file = segment.files.open(segment.path(".index"))
    except FileNotFoundError:
        return segment.base_offset, 0
    try:
        whole = file.size() // OffsetIndex.entry_bytes * OffsetIndex.entry_bytes
        data = file.read(max(whole - OffsetIndex.entry_bytes, 0), OffsetIndex.entry_bytes)
    finally:
        file.close()
    index = OffsetIndex.load(segment.base_offset, data, segment.size)
    return index.entry(0) if len(index) else (segment.base_offset, 0)
