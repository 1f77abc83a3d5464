"""The lists of aborted transactions, read when a log is opened; `producer_recovery` calls it.

What a list has of markers below the snapshot of the producers is believed; those behind it the log tells
again as it is replayed. But for markers in a hole: of a segment that was lost (`lost_segments`) only the list
before the hole tells, so its entries must be kept whatever the snapshot. Entries from the log's end on must
not be believed: a list may tell of markers that were only staged when it was saved, and with durability=os a
power cut may take the records and leave it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.log import aborted_transactions, lookup
from headwater.log.aborted_list import AbortedList
from headwater.log.aborted_transactions import AbortedTransaction, Checksum
from headwater.log.checkpoints import SmallFiles, is_about_the_file
from headwater.log.confirmation import sync_folder
from headwater.log.files import FileSystem
from headwater.log.segment import Segment
from headwater.record.errors import RecordError

logger = logging.getLogger("headwater.log")

Held = dict[Segment, list[AbortedTransaction]]
"""Entries to be united with what the log tells: each segment's, once it is replayed."""


@dataclass(slots=True)
class Lists:
    """What the files beside the segments say."""

    ends: list[int]
    """Where the next segment begins, behind each: between its data and that lies a hole, if anything."""
    are_whole: bool = True
    """Else the whole log is to be read for its markers."""
    held: Held = field(default_factory=dict)


def load(
    files: FileSystem,
    small: SmallFiles,
    directory: Path,
    segments: list[Segment],
    end: int,
    offset: int,
) -> Lists:
    """Read which transactions were aborted before `offset`; the log tells what came later.

    Where one of the lists cannot be read, all of it is to be found in the log again, but for markers of
    segments that are lost: those stand in the other lists, which are the answer then.
    """
    names = set(files.list(directory))
    sums = aborted_transactions.unpack_checksums(
        small.read_bytes(directory / aborted_transactions.CHECKSUMS) or b""
    )
    lists = Lists([*(segment.base_offset for segment in segments[1:]), end])
    listed = [
        (segment, behind)
        for segment, behind in zip(segments, lists.ends, strict=True)
        if segment.path(aborted_transactions.SUFFIX).name in names or segment.base_offset in sums
    ]
    try:
        for segment, behind in listed:
            segment.load_aborted(sums.get(segment.base_offset))
            if behind > offset or behind == end:
                lists.held[segment] = _take_out(segment, offset, behind)
    except (RecordError, OSError) as error:
        if isinstance(error, OSError):
            if not is_about_the_file(error):
                raise
            _give_up(files, small, directory, [segment for segment, _ in listed])
        logger.error("%s: aborted transactions are looked for again: %s", directory, error)
        lists.are_whole = False
        for segment, behind in listed:
            lists.held[segment] = _whole(segment, offset, behind, sums)
            segment.aborted, segment.saved_aborted_bytes = AbortedList(), -1
    return lists


def _take_out(segment: Segment, offset: int, behind: int) -> list[AbortedTransaction]:
    """Of its list, what lies in the hole before `behind`; what the log will tell is left out altogether."""
    found, saved = segment.aborted, segment.saved_aborted_bytes
    data_end = lookup.end_of_data(segment) if found else behind
    early = (each for each in found if each.last_offset < min(offset, data_end))
    segment.aborted = AbortedList(early)
    segment.saved_aborted_bytes = saved if len(segment.aborted) == len(found) else -1
    return [each for each in found if data_end <= each.last_offset < behind]


def _whole(
    segment: Segment, offset: int, behind: int, sums: Mapping[int, Checksum]
) -> list[AbortedTransaction]:
    """Its list, if a checksum says that it is all there."""
    try:
        if segment.base_offset in sums:
            segment.load_aborted(sums[segment.base_offset])
            in_hole = _take_out(segment, offset, behind)
            return [*segment.aborted, *in_hole]
    except (RecordError, OSError):
        pass
    return []


def _give_up(files: FileSystem, small: SmallFiles, directory: Path, listed: list[Segment]) -> None:
    """A list that cannot be read may be set aside. Until it is made anew no snapshot must be there: a
    start that believes one does not look for what was aborted before it."""
    for name in files.list(directory):
        if name.endswith(".snapshot"):
            files.remove(directory / name)
    sync_folder(files, directory)
    for segment in listed:
        small.read_bytes(segment.path(aborted_transactions.SUFFIX))


def unite(segment: Segment, held: Sequence[AbortedTransaction]) -> None:
    """Where both tell of a marker, what the log tells counts."""
    entries = {each.last_offset: each for each in (*held, *segment.aborted)}
    if len(entries) > len(segment.aborted):
        segment.aborted = AbortedList(entries[last] for last in sorted(entries))
        segment.saved_aborted_bytes = -1
