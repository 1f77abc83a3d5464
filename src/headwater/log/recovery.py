"""Opening a partition's folder, after a clean stop or after anything else.

`store` calls `open_partition` for every folder at start. Nothing below the recovery point is read
through: it was durable, and what has become of it since is found when it is read. What lies above the
recovery point is the tail that a crash may have torn: every batch is checked, and the log is cut at
the first that is not whole or does not follow. So the time depends on the tail and not on the log's
size. What is left of the tail is written once more and synced before anyone may read it: that it can
be read now does not mean that it is on disk.

Where acknowledged data is missing (a file cut or lost), that is reported, and its offsets stay unused.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from headwater.log import checkpoints, lost_segments, snapshots, swap, time_lookup
from headwater.log.checkpoints import SmallFiles
from headwater.log.config import LogConfig
from headwater.log.confirmation import sync_folder
from headwater.log.extent import Extent, believed
from headwater.log.files import FileSystem
from headwater.log.lost_segments import LostSegment
from headwater.log.partition import PartitionLog
from headwater.log.producer_recovery import load_producers
from headwater.log.producers import Producers
from headwater.log.segment import Segment, offset_named
from headwater.log.snapshots import Snapshots
from headwater.log.tail_scan import OFFSETS_PER_SEGMENT, TailScan

logger = logging.getLogger("headwater.log")


@dataclass(slots=True)
class Report:
    """What opening a partition found and did."""

    scanned_bytes: int = 0
    cut_bytes: int = 0
    missing: tuple[int, int] | None = None
    """Acknowledged offsets that are not there: [first, second)."""
    damaged: bool = False
    """Something below the recovery point cannot be read; it is fenced."""
    unreadable: dict[Path, str] = field(default_factory=dict)
    """Small files that could not be read, and why; the log does without."""

    def lacks(self, directory: Path, first: int, behind: int) -> None:
        """Nobody has deleted these records, and they are not there."""
        self.missing = (first, behind)
        logger.error("%s", self.sentence(directory))

    def sentence(self, directory: Path) -> str:
        """What is missing, and what to do."""
        first, behind = self.missing or (0, 0)
        return (
            f"{directory}: acknowledged records from offset {first} to {behind - 1} are missing; their "
            "offsets stay unused, restore the files from a copy to get them back"
        )


def open_partition(
    files: FileSystem,
    directory: Path,
    config: LogConfig,
    now_ms: int,
    *,
    recovery_point: int = 0,
    start_offset: int = 0,
    clean: bool = False,
    cut_at: int | None = None,
) -> tuple[PartitionLog, Report]:
    """The log in `directory`, fit for appending and reading.

    Raises OSError; SyncFailed if the disk did not confirm what was found or cut.

    `cut_at`: whatever lies from this offset on goes, even if it is whole. For a log whose writes
    failed: they were refused, so they must not come back.
    """
    small = SmallFiles(files)
    report = Report(unreadable=small.unreadable)
    swap.tidy(files, directory)
    told = Extent(recovery_point, start_offset, False, config.is_never_cut, cut_at is not None)
    recovery_point, start_offset, is_sure, *_ = believed(files, small, directory, told, clean)
    named = lost_segments.find(files, small, directory)
    front, segments = _find_segments(files, directory, now_ms, start_offset)
    lost = lost_segments.in_holes(named, segments)
    _look_for_gaps(directory, segments, start_offset, lost, report)
    scan = TailScan(small, segments, recovery_point, clean, cut_at, report)
    found = scan.run()
    if found < start_offset:
        # All of it was deleted, and the crash has brought some of its files back. What they say of
        # the producers is long out of date.
        _forget(front, removes=is_sure)
        _forget(segments, removes=True)
        found = start_offset
    end = _end_offset(directory, segments, found, max(recovery_point, start_offset), report)
    if not segments or segments[-1].next_offset != end or (report.damaged and segments[-1].size):
        _begin_segment(files, directory, segments, end, now_ms)
    time_lookup.tell_age(segments[-1])
    producers, taken = _read_producers(small, front, segments, end, clean, now_ms, lost, is_sure)
    is_clean = clean or (cut_at is not None and end >= cut_at)
    log = PartitionLog(
        files,
        directory,
        config,
        [*front, *segments],
        start_offset=max(start_offset, segments[0].base_offset),
        next_offset=end,
        epochs=_next_epochs(files, small, directory, end, scan.epoch, is_clean),
        producers=producers,
        snapshots=taken,
    )
    if report.cut_bytes:
        logger.warning("%s: cut %d torn bytes at offset %d", directory, report.cut_bytes, end)
    return log, report


def _find_segments(
    files: FileSystem, directory: Path, now_ms: int, start_offset: int
) -> tuple[list[Segment], list[Segment]]:
    """Those that lie wholly before `start_offset`, and those from there on."""
    present = files.list(directory)
    bases = {base for name in present if (base := offset_named(name, ".log")) is not None}
    for name in present:  # indexes whose segment went before a crash
        for suffix in (".index", ".timeindex"):
            if (base := offset_named(name, suffix)) is not None and base not in bases:
                files.remove(directory / name)
    segments = [Segment.found(files, directory, base, now_ms) for base in sorted(bases)]
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    first = 0
    while first + 1 < len(segments) and segments[first].next_offset <= start_offset:
        first += 1
    if segments:
        segments[-1].next_offset = segments[-1].base_offset + OFFSETS_PER_SEGMENT  # not known yet
    return segments[:first], segments[first:]


def _forget(segments: list[Segment], *, removes: bool) -> None:
    """They lie before the start, and are removed (again) if that is sure."""
    for segment in segments:
        segment.remove() if removes else segment.close()
    segments.clear()


def _begin_segment(
    files: FileSystem, directory: Path, segments: list[Segment], end: int, now_ms: int
) -> None:
    """One that begins at the end; none that is empty stays before it."""
    if segments and not segments[-1].size and segments[-1].next_offset != end:
        segments.pop().remove()
    segments.append(Segment.created(files, directory, end, now_ms))
    sync_folder(files, directory)


def _look_for_gaps(
    directory: Path,
    segments: list[Segment],
    start_offset: int,
    lost: list[LostSegment],
    report: Report,
) -> None:
    """Whoever deletes records writes the new start down before a file goes. Otherwise segments are replaced:
    one that is missing between two others was removed by somebody else."""
    if segments and segments[0].base_offset > start_offset:
        report.lacks(directory, start_offset, segments[0].base_offset)
    for base, _ in lost:
        behind = [each.base_offset for each in segments if each.base_offset > base]
        if behind and segments[0].base_offset < base:
            report.lacks(directory, base, behind[0])


def _read_producers(
    small: SmallFiles,
    front: list[Segment],
    segments: list[Segment],
    end: int,
    clean: bool,
    now_ms: int,
    lost: list[LostSegment],
    is_sure: bool,
) -> tuple[Producers, Snapshots]:
    """Of the segments in front those stay that no snapshot speaks for; they go with the next retention."""
    found = snapshots.find(segments[0].files, small, segments[0].directory, end)
    taken = Snapshots(offset for offset, _ in found)
    if taken.reach(segments[0].base_offset):
        _forget(front, removes=is_sure)
    producers = load_producers(small, front, segments, end, clean, now_ms, lost, found)
    if not is_sure:
        _forget(front, removes=False)
    return producers, taken if found else Snapshots()


def _end_offset(
    directory: Path, segments: list[Segment], found: int, promised: int, report: Report
) -> int:
    if found >= promised:
        return found
    report.lacks(directory, found, promised)
    if segments:
        segments[-1].next_offset = found
    return promised


def _next_epochs(
    files: FileSystem, small: SmallFiles, directory: Path, end: int, found: int, clean: bool
) -> list[tuple[int, int]]:
    """A new leader epoch after every unclean start: clients can tell that a tail may be gone. And
    where batches are of a newer one (`found`) than the file knows, if it is there at all: epochs that
    went back would look like a torn tail after the next crash."""
    epochs = [entry for entry in checkpoints.read_epochs(small, directory) if entry[1] <= end]
    known = epochs[-1][0] if epochs else -1
    if epochs and clean and known >= found:
        return epochs
    epoch = max(known, found) + 1
    while epochs and epochs[-1][1] == end:
        epochs.pop()  # an epoch in which nothing was written
    epochs.append((epoch, end))
    if epochs == [(0, 0)]:
        files.write(directory / checkpoints.LEADER_EPOCHS, checkpoints.pack_epochs(epochs))
    else:
        checkpoints.write_epochs(files, directory, epochs)
    return epochs
