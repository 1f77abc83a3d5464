"""Opening a partition's folder, after a clean stop or after anything else.

`store` calls `open_partition` for every folder at start. Nothing below the recovery point is read
through: it was durable, and what has become of it since is found when it is read. What lies above the
recovery point is the tail that a crash may have torn: every batch is checked, and the log is cut at
the first that is not whole. So the time depends on the tail and not on the log's size.

If even acknowledged data is missing (a file cut or lost by something else), that is reported and the
missing offsets stay unused: new records must never take the offsets of others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from headwater.log import checkpoints, swap
from headwater.log.config import LogConfig
from headwater.log.files import FileSystem
from headwater.log.partition import PartitionLog
from headwater.log.producers import Producers
from headwater.log.segment import CorruptSegment, Segment
from headwater.record import batch as batches
from headwater.record import control
from headwater.record.batch import BatchHeader
from headwater.record.errors import RecordError

logger = logging.getLogger("headwater.log")


@dataclass(slots=True)
class Report:
    """What opening a partition found and did."""

    scanned_bytes: int = 0
    cut_bytes: int = 0
    missing: tuple[int, int] | None = None
    """Acknowledged offsets that are not there: [first, second)."""


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

    `cut_at`: whatever lies from this offset on goes, even if it is whole. For a log whose writes
    failed: they were refused, so they must not come back.
    """
    report = Report()
    swap.tidy(files, directory)
    recovery_point = max(recovery_point, checkpoints.read_durable_offset(files, directory))
    segments = _find_segments(files, directory, now_ms)
    end = _recover(segments, recovery_point, report, cut_at)
    end = _end_offset(directory, segments, end, max(recovery_point, start_offset), report)
    if not segments or segments[-1].next_offset != end:
        segments.append(Segment(files, directory, end, now_ms))
        _ = segments[-1].file
    epochs = _next_epochs(files, directory, end, clean)
    log = PartitionLog(
        files,
        directory,
        config,
        segments,
        start_offset=max(start_offset, segments[0].base_offset),
        next_offset=end,
        epochs=epochs,
        producers=_load_producers(files, directory, segments, end),
    )
    if report.cut_bytes:
        logger.warning("%s: cut %d torn bytes at offset %d", directory, report.cut_bytes, end)
    return log, report


def _find_segments(files: FileSystem, directory: Path, now_ms: int) -> list[Segment]:
    names = [name for name in files.list(directory) if name.endswith(".log")]
    segments = [
        Segment.found(files, directory, int(name[:-4]), now_ms)
        for name in names
        if name[:-4].isdigit()
    ]
    segments.sort(key=lambda segment: segment.base_offset)
    for segment, following in zip(segments, segments[1:], strict=False):
        segment.next_offset = following.base_offset
    return segments


def _recover(
    segments: list[Segment], recovery_point: int, report: Report, cut_at: int | None
) -> int:
    """Check the tail and cut it where it is torn; returns the end offset. Drops what follows a cut."""
    for number, segment in enumerate(segments):
        following = segments[number + 1] if number + 1 < len(segments) else None
        if following is not None and following.base_offset <= recovery_point:
            continue
        whole = _recover_segment(segment, recovery_point, report, cut_at)
        gap = following is not None and following.base_offset != segment.next_offset
        if not whole or gap:
            for lost in segments[number + 1 :]:
                report.cut_bytes += lost.size
                _remove(lost)
            del segments[number + 1 :]
            break
    return segments[-1].next_offset if segments else 0


def _recover_segment(
    segment: Segment, recovery_point: int, report: Report, cut_at: int | None
) -> bool:
    """Find the end of one segment; False if it had to be cut before the end of its file."""
    index = segment.index
    offset, position = index.floor(max(recovery_point - 1, segment.base_offset))
    segment.next_offset = offset
    segment.max_timestamp, segment.max_timestamp_offset = segment.times.last()
    segment.indexed_at = position
    file_size = segment.size
    segment.first_timestamp = _first_timestamp(segment)
    try:
        position = _walk_known(segment, position, file_size, recovery_point)
    except CorruptSegment as error:
        # Damage below the recovery point: kept as it is, fenced by readers' checks.
        logger.error("%s", error)
        segment.next_offset = max(segment.next_offset, recovery_point)
        return True
    if cut_at is not None and position < file_size and segment.next_offset >= cut_at:
        report.cut_bytes += file_size - position
        segment.truncate(position, segment.next_offset)
        return False
    return _walk_tail(segment, position, file_size, report)


def _first_timestamp(segment: Segment) -> int | None:
    try:
        return batches.read_header(segment.file.read(0, batches.HEADER_BYTES)).max_timestamp
    except RecordError:
        return None  # an empty file, or damage that the scan or a reader will meet


def _walk_known(segment: Segment, position: int, end: int, recovery_point: int) -> int:
    """Follow the headers up to the recovery point; returns where the tail begins."""
    for at, header in segment.headers(position, end, checked=False):
        if header.base_offset >= recovery_point:
            return at
        _note(segment, at, header)
        position = at + header.size
    return position


def _walk_tail(segment: Segment, position: int, end: int, report: Report) -> bool:
    """Check every batch from `position` on; cut at the first that is not whole."""
    index_end = position
    try:
        for at, header in segment.headers(position, end, checked=True):
            if header.base_offset < segment.next_offset:
                break
            _note(segment, at, header)
            index_end = at + header.size
    except CorruptSegment:
        pass  # what a crash tears is not an event; the cut below is logged by the caller
    report.scanned_bytes += end - position
    if index_end == end:
        return True
    report.cut_bytes += end - index_end
    segment.truncate(index_end, segment.next_offset)
    return False


def _note(segment: Segment, position: int, header: BatchHeader) -> None:
    segment.note(header.max_timestamp, header.last_offset)
    if position - segment.indexed_at > 4096:
        segment.index.add(header.base_offset, position)
        segment.times.add(segment.max_timestamp, segment.max_timestamp_offset)
        segment.indexed_at = position
    segment.next_offset = header.next_offset


def _end_offset(
    directory: Path, segments: list[Segment], found: int, promised: int, report: Report
) -> int:
    if found >= promised:
        return found
    if segments or promised:
        report.missing = (found, promised)
        logger.error(
            "%s: acknowledged records from offset %d to %d are missing; their offsets stay unused, "
            "restore the files from a copy to get them back",
            directory,
            found,
            promised - 1,
        )
    return promised


def _remove(segment: Segment) -> None:
    segment.close()
    for name in segment.files.list(segment.directory):
        if name.startswith(f"{segment.base_offset:020d}."):
            segment.files.remove(segment.directory / name)


def _next_epochs(
    files: FileSystem, directory: Path, end: int, clean: bool
) -> list[tuple[int, int]]:
    """A new leader epoch after every unclean start, so that clients can tell that a tail may be gone."""
    epochs = [entry for entry in checkpoints.read_epochs(files, directory) if entry[1] <= end]
    if epochs and clean:
        return epochs
    epoch = epochs[-1][0] + 1 if epochs else 0
    while epochs and epochs[-1][1] == end:
        epochs.pop()  # an epoch in which nothing was written
    epochs.append((epoch, end))
    if epochs == [(0, 0)]:
        files.write(directory / checkpoints.LEADER_EPOCHS, checkpoints.pack_epochs(epochs))
    else:
        checkpoints.write_epochs(files, directory, epochs)
    return epochs


def _load_producers(
    files: FileSystem, directory: Path, segments: list[Segment], end: int
) -> Producers:
    """The newest snapshot that fits, and what the log says since."""
    producers, offset = Producers(), segments[0].base_offset
    for name in reversed([n for n in files.list(directory) if n.endswith(".snapshot")]):
        taken_at = int(name[:-9]) if name[:-9].isdigit() else end + 1
        found = Producers.from_bytes(files.read_bytes(directory / name) or b"")
        if found is None or taken_at > end:
            files.remove(directory / name)
            continue
        producers, offset = found, max(taken_at, offset)
        break
    for segment in segments:
        if segment.next_offset > offset:
            _replay_producers(segment, offset, producers)
    return producers


def _replay_producers(segment: Segment, offset: int, producers: Producers) -> None:
    _, position = segment.index.floor(offset)
    try:
        for at, header in segment.headers(position, segment.size, checked=False):
            if header.base_offset < offset or header.producer_id < 0:
                continue
            if header.is_control:
                marker = control.read_marker(segment.file.read(at, header.size))
                producers.end_transaction(header, marker.coordinator_epoch)
            else:
                producers.update(header, header.base_offset)
    except CorruptSegment as error:
        logger.error("%s", error)
