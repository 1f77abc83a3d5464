"""Where a log begins and how far it is known to have been on disk, by the small files; `recovery` and the
inspection ask before they look at its segments.

    durable-offset                     checksum   exact after a kill; older after a power cut; none with
                                                  durability=os
    the snapshot of a clean stop       checksum   exact, and there after a clean stop only
    recovery-point-offset-checkpoint   none       never beyond the others' truth, and shared by all logs
    start-offset                       checksum   exact
    log-start-offset-checkpoint        none       only believed without a `start-offset`

Where these disagree about the end, the larger is believed if a log can be as long: what is between is called
missing, and its offsets are not given again. With a folder that was put back from an older copy all its
own files agree, and only the recovery point of all logs tells; of one wrong digit the price is a false alarm.
The name of a file has no checksum: a snapshot speaks only if all of it is there, or if another file says the
same. A beginning without one is not believed against an end with one: all records would be removed.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from headwater.log import checkpoints
from headwater.log.checkpoints import RECOVERY_POINTS, START_OFFSETS, Reads
from headwater.log.files import FileSystem
from headwater.log.producers import Producers
from headwater.log.segment import Segment, file_name, offset_named
from headwater.log.tail_scan import OFFSETS_PER_SEGMENT
from headwater.record.errors import RecordError

logger = logging.getLogger("headwater.log")


class Extent(NamedTuple):
    """What is known of a log; `is_sure`: its own file says where it begins. `is_live`: whoever has it open
    tells, and knows."""

    recovery_point: int
    start_offset: int
    is_sure: bool = False
    is_never_cut: bool = False
    is_live: bool = False


def believed(files: FileSystem, small: Reads, directory: Path, told: Extent, clean: bool) -> Extent:
    """What to believe of what the checkpoints of all logs tell. It never begins beyond its end, where a clean
    stop tells that, or after a kill `durable-offset`, if the batches agree: a power cut may take that file
    back, and with it files that were made or removed."""
    end = told.recovery_point
    if not told.is_live:
        end = believed_end(files, small, directory, end, clean=clean)
    if end < told.recovery_point:
        sentence = "%s: %s has it on disk up to offset %d, but it ended at %d"
        logger.error(sentence, directory, RECOVERY_POINTS, told.recovery_point, end)
    end = max(end, checkpoints.read_durable_offset(small, directory))
    kept = checkpoints.read_start_offset(small, directory)
    start_offset, is_sure = told.start_offset if kept is None else kept, kept is not None
    if not told.is_never_cut and not 0 < end < start_offset:
        return Extent(end, start_offset, is_sure)
    bases = sorted(_named(files, directory, ".log"))
    if told.is_never_cut:
        return Extent(end, min([start_offset, *bases[:1]]), is_sure)
    durable = checkpoints.read_durable_offset(small, directory)
    if not clean and not (durable == end and _is_end(files, directory, bases, end)):
        return Extent(end, start_offset, is_sure)
    first = min(bases, default=end)
    sentence = "%s: %s lets it begin at offset %d, but it ended at %d; it begins at %d"
    logger.error(sentence, directory, START_OFFSETS, start_offset, end, first)
    return Extent(end, first)


def believed_end(
    files: FileSystem, small: Reads, directory: Path, told: int, *, clean: bool
) -> int:
    """How far it is known to have been on disk; `told`: by the recovery points."""
    durable = checkpoints.read_durable_offset(small, directory)
    named = max(_named(files, directory, ".snapshot"), default=0) if clean else 0
    if max(told, named) <= durable or told == named:
        return max(told, durable)
    stopped = snapshots(files, small, directory)[-1:] if clean else []
    end = max(durable, *stopped, 0)
    if told <= end:
        return end
    bases = _named(files, directory, ".log")
    return told if told <= max([end, *bases]) + OFFSETS_PER_SEGMENT else end


def snapshots(files: FileSystem, small: Reads, directory: Path) -> list[int]:
    """The offsets of the whole snapshots of producers. One is taken at a clean stop: whatever becomes of the
    recovery points, what lies before it was synced, and is no torn tail."""
    return sorted(
        offset
        for offset in _named(files, directory, ".snapshot")
        if Producers.from_bytes(small.read_bytes(directory / file_name(offset, ".snapshot")) or b"")
    )


def _named(files: FileSystem, directory: Path, suffix: str) -> list[int]:
    offsets = (offset_named(name, suffix) for name in files.list(directory))
    return [offset for offset in offsets if offset is not None]


def _is_end(files: FileSystem, directory: Path, bases: list[int], end: int) -> bool:
    """Whether the batches end there, too."""
    return bool(bases) and _end_of(files, directory, bases[-1]) == end


def _end_of(files: FileSystem, directory: Path, base_offset: int) -> int:
    """The offset behind the last batch of a segment, by headers alone; -1 if it is damaged."""
    segment = Segment.found(files, directory, base_offset, 0)
    segment.next_offset = base_offset + OFFSETS_PER_SEGMENT
    end = base_offset
    try:
        for _, header in segment.headers(0, segment.size, checked=False):
            end = header.next_offset
        return end
    except RecordError:
        return -1
    finally:
        segment.close()
