"""Opening a partition's folder, after a clean stop or after anything else.

`store` calls `open_partition` for every folder at start. Nothing below the recovery point is read
through: it was durable, and what has become of it since is found when it is read. What lies above the
recovery point is the tail that a crash may have torn: every batch is checked, and the log is cut at
the first that is not whole or does not follow. So the time depends on the tail and not on the log's
size. What is left of the tail is written once more and synced before anyone may read it: that it can
be read now does not mean that it is on disk.

If even acknowledged data is missing (a file cut or lost by something else), that is reported and the
missing offsets stay unused: new records must never take the offsets of others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from headwater.log import aborted, checkpoints, swap
from headwater.log.commit import SAVE_INDEX_BYTES
from headwater.log.config import LogConfig
from headwater.log.confirmation import sync_file, sync_folder
from headwater.log.files import FileSystem
from headwater.log.partition import PartitionLog
from headwater.log.producers import Producers
from headwater.log.segment import SUFFIXES, CorruptSegment, Segment, offset_named
from headwater.log.small_files import SmallFiles, is_about_the_file
from headwater.record import batch as batches
from headwater.record import control
from headwater.record.batch import BatchHeader
from headwater.record.errors import RecordError

logger = logging.getLogger("headwater.log")

_OFFSETS_PER_SEGMENT = 2**31
_INDEX_INTERVAL_BYTES = 4096
_COPY_BYTES = 4 * 1024 * 1024
_EPOCH_MAX = 1 << 20
"""One for every crash: a batch with more is garbled. Leader epochs lie outside the checksum."""


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
    recovery_point = max(recovery_point, checkpoints.read_durable_offset(small, directory))
    lost = _lost_segments(files, directory)
    segments = _find_segments(files, directory, now_ms, start_offset)
    _look_at_front(directory, segments, start_offset, report)
    _look_between(directory, segments, lost, report)
    recovery = _Recovery(small, segments, recovery_point, clean, cut_at, report)
    found = recovery.run()
    if found < start_offset:
        # All of it was deleted, and the crash has brought some of its files back. What they say of
        # the producers is long out of date.
        while segments:
            segments.pop().remove()
        found = start_offset
    end = _end_offset(directory, segments, found, max(recovery_point, start_offset), report)
    if segments and not segments[-1].size and segments[-1].next_offset != end:
        segments.pop().remove()
    last = segments[-1] if segments else None
    if last is None or last.next_offset != end or (report.damaged and last.size):
        segments.append(Segment.created(files, directory, end, now_ms))
        sync_folder(files, directory)
    log = PartitionLog(
        files,
        directory,
        config,
        segments,
        start_offset=max(start_offset, segments[0].base_offset),
        next_offset=end,
        epochs=_next_epochs(
            files,
            small,
            directory,
            end,
            recovery.epoch,
            clean or (cut_at is not None and end >= cut_at),
        ),
        producers=_load_producers(files, small, directory, segments, end, clean),
    )
    if report.cut_bytes:
        logger.warning("%s: cut %d torn bytes at offset %d", directory, report.cut_bytes, end)
    return log, report


def _find_segments(
    files: FileSystem, directory: Path, now_ms: int, start_offset: int
) -> list[Segment]:
    """The segments from `start_offset` on; older ones were removed, and are removed again."""
    present = files.list(directory)
    bases = {base for name in present if (base := offset_named(name, ".log")) is not None}
    for name in present:  # indexes whose segment went before a crash
        for suffix in (".index", ".timeindex", ".txnindex"):
            if (base := offset_named(name, suffix)) is not None and base not in bases:
                files.remove(directory / name)
    segments = [Segment.found(files, directory, base, now_ms) for base in sorted(bases)]
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    while len(segments) > 1 and segments[0].next_offset <= start_offset:
        segments.pop(0).remove()
    if segments:
        segments[-1].next_offset = segments[-1].base_offset + _OFFSETS_PER_SEGMENT  # not known yet
    return segments


class _Recovery:
    """One pass over the segments that reach to or beyond the recovery point."""

    def __init__(
        self,
        small: SmallFiles,
        segments: list[Segment],
        recovery_point: int,
        clean: bool,
        cut_at: int | None,
        report: Report,
    ) -> None:
        self._small = small
        self._segments = segments
        self._recovery_point = recovery_point
        self._clean = clean
        self._cut_at = cut_at
        self._report = report
        self.epoch = -1
        """The newest leader epoch that a batch on the way had."""

    def run(self) -> int:
        """Check the tail and cut it where it is torn; returns the end offset."""
        segments = self._segments
        first = 0
        # A commit that reaches beyond a segment's end has saved that segment's indexes before it
        # moved the recovery point; one that only reaches to its end may not have come to that.
        while first + 1 < len(segments) and segments[first + 1].base_offset < self._recovery_point:
            first += 1
        touched = not self._clean
        for number in range(first, len(segments)):
            segment = segments[number]
            following = segments[number + 1] if number + 1 < len(segments) else None
            tail = self._recover(segment, following)
            touched |= tail is None or tail < segment.size
            if tail is not None:
                _write_again(segment, tail)
            whole = tail is not None
            if following is not None and (
                not whole or following.base_offset != segment.next_offset
            ):
                self._drop(number + 1)
                touched = True
                break
        if touched and segments:
            # Even without a tail: a file may have been made or cut just before the crash.
            sync_file(segments[-1].file)
            sync_folder(segments[0].files, segments[0].directory)
        return segments[-1].next_offset if segments else 0

    def _drop(self, first: int) -> None:
        """What follows a cut was never durable; it goes with its files."""
        for segment in self._segments[first:]:
            self._report.cut_bytes += segment.size
            segment.remove()
        del self._segments[first:]

    def _recover(self, segment: Segment, following: Segment | None) -> int | None:
        """Find the end of a segment, cutting what is torn; returns where its tail begins, None if
        it had to be cut."""
        offset, position = segment.index.floor(max(self._recovery_point - 1, segment.base_offset))
        if not self._clean:
            # Indexes are saved every so often: walk back so far that what the last save may have
            # lost is found again.
            offset, position = segment.index.floor_position(max(position - 2 * SAVE_INDEX_BYTES, 0))
            if position and not _is_at(segment, position, offset):
                offset, position = segment.base_offset, 0  # a torn index: the batches know better
            segment.index.truncate(position + 1)
            segment.times.truncate(offset + 1 if position else offset)
            segment.saved_index_bytes = segment.saved_times_bytes = -1
        segment.next_offset = offset
        segment.max_timestamp, segment.max_timestamp_offset = segment.times.last()
        segment.first_timestamp = _first_timestamp(segment)
        segment.indexed_at = position
        tail = self._walk_known(segment, position, following)
        return self._walk_tail(segment, tail, following)

    def _walk_known(self, segment: Segment, position: int, following: Segment | None) -> int:
        """Follow the headers up to the recovery point; returns where the tail begins."""
        last = position
        while position < segment.size and segment.next_offset < self._recovery_point:
            try:
                for at, header in segment.headers(position, segment.size, checked=False):
                    if header.base_offset >= self._recovery_point and _is_compacted(
                        segment, at, header, following
                    ):
                        return at
                    self._refuse_lie(segment, at, header, following)
                    self._note(segment, at, header)
                    last, position = at, at + header.size
                    if segment.next_offset >= self._recovery_point:
                        break  # what follows is the tail: not even its header is known
            except CorruptSegment as error:
                # Acknowledged data is damaged: kept as it is, fenced by the readers' checks.
                logger.error("%s", error)
                self._report.damaged = True
                # A header that lies about its length leads into the middle of others.
                doubtful = error.file_position if _is_intact(segment, last) else last
                beyond = self._beyond(segment, doubtful, following)
                if beyond is None:
                    segment.next_offset = max(segment.next_offset, self._recovery_point)
                    return segment.size
                last = position = beyond[0]
                segment.next_offset = beyond[1].base_offset
        if segment.size and segment.next_offset < self._recovery_point:
            self._look_at_end(segment)
        return position

    def _note(self, segment: Segment, at: int, header: BatchHeader) -> None:
        segment.note_found(at, header, _INDEX_INTERVAL_BYTES)
        if header.leader_epoch <= _EPOCH_MAX:
            self.epoch = max(self.epoch, header.leader_epoch)

    def _refuse_lie(
        self, segment: Segment, at: int, header: BatchHeader, following: Segment | None
    ) -> None:
        """Raise CorruptSegment where a header must not be believed for where the log goes on.

        The last one that was promised says where the tail begins, and at which offset: unless both
        agree with what was promised, its checksum must be right and its offsets must follow."""
        if header.base_offset >= self._recovery_point:
            raise segment.corrupt(at, f"offset {segment.next_offset} is missing")
        end = at + header.size
        if (
            header.last_offset < segment.next_offset and end == segment.size
        ):  # an index names last ones
            # Nothing behind it would put it right: the segment would end before its start.
            raise segment.corrupt(at, f"offset {header.base_offset} is out of order")
        is_as_promised = header.next_offset == self._recovery_point and end == segment.size
        if (
            header.next_offset >= self._recovery_point
            and not is_as_promised
            and (
                not _is_intact(segment, at)
                or (
                    header.base_offset > segment.next_offset
                    and not _is_compacted(segment, at, header, following)
                )
            )
        ):
            raise segment.corrupt(at, f"its last offset, {header.last_offset}, is not believed")

    def _beyond(
        self, segment: Segment, position: int, following: Segment | None
    ) -> tuple[int, BatchHeader] | None:
        """The first intact batch behind damage at this place that goes on from what is known."""
        end = segment.base_offset + _OFFSETS_PER_SEGMENT
        end = end if following is None else following.base_offset
        found = segment.next_intact(position + 1, gaps=True, end_offset=end)
        while found is not None and found[1].base_offset < segment.next_offset:
            found = segment.next_intact(found[0] + 1, gaps=True, end_offset=end)
        return found

    def _look_at_end(self, segment: Segment) -> None:
        """The segment ends too early: cut off, or does its last batch lie about its offsets?"""
        try:
            segment.check_last()
        except CorruptSegment as error:
            logger.error("%s", error)
            self._report.damaged = True
            segment.next_offset = self._recovery_point

    def _walk_tail(self, segment: Segment, tail: int, following: Segment | None) -> int | None:
        """Check every batch from `tail` on; cut at the first that is not whole or does not follow."""
        end, position = segment.size, tail
        self._report.scanned_bytes += end - tail
        epochs = checkpoints.read_epochs(self._small, segment.directory)
        newest, epoch = (epochs[-1][0] if epochs else _EPOCH_MAX), 0
        refused = self._cut_at is not None and segment.next_offset >= self._cut_at
        try:
            for at, header in segment.headers(tail, 0 if refused else end, checked=True):
                if header.base_offset != segment.next_offset and not _is_compacted(
                    segment, at, header, following
                ):
                    break
                if self._cut_at is not None and header.base_offset >= self._cut_at:
                    break
                if not epoch <= header.leader_epoch <= max(newest, epoch):
                    break  # it is outside the checksum, as the offset is
                epoch = header.leader_epoch
                self._note(segment, at, header)
                position = at + header.size
        except CorruptSegment:
            pass  # what a crash tears is no event of its own; the cut is logged by the caller
        if position == end:
            _save_indexes(segment)
            return tail
        self._report.cut_bytes += end - position
        segment.truncate(position, segment.next_offset)
        return None


def _is_at(segment: Segment, position: int, last_offset: int) -> bool:
    """Whether the batch with this last offset begins there, as an index says."""
    try:
        header = batches.read_header(segment.file.read(position, batches.HEADER_BYTES))
    except RecordError:
        return False
    return header.last_offset == last_offset


def _is_intact(segment: Segment, position: int) -> bool:
    """Whether the checksum of the batch that begins there is right."""
    try:
        header = batches.read_header(segment.file.read(position, batches.HEADER_BYTES))
        batches.check_crc(segment.file.read(position, header.size), 0, header)
    except RecordError:
        return False
    return True


def _is_compacted(
    segment: Segment, position: int, header: BatchHeader, following: Segment | None
) -> bool:
    """Whether offsets are missing before this batch because compaction has taken them.

    Else a torn write may have left a whole batch with a garbled offset, which is outside the
    checksum. Only sealed segments are compacted, and what follows then agrees.
    """
    if following is None or header.base_offset < segment.next_offset:
        return False
    follows, end = following.base_offset, position + header.size
    try:
        if end < segment.size:
            data = segment.file.read(end, batches.HEADER_BYTES)
            follows = batches.read_header(data).base_offset
    except RecordError:
        return False
    return header.next_offset <= follows <= following.base_offset


def _save_indexes(segment: Segment) -> None:
    try:
        segment.save_indexes()
    except OSError as error:  # a full disk: better none than wrong ones
        logger.error("%s: an index was not saved: %s", segment.path(".index"), error)
        segment.forget_saved_indexes()


def _write_again(segment: Segment, tail: int) -> None:
    """Make sure that what was found is on disk: Linux forgets that it could not write a page."""
    position = tail
    while position < segment.size:
        data = segment.file.read(position, min(_COPY_BYTES, segment.size - position))
        segment.file.write(position, [data])
        position += len(data)
    if tail < segment.size:
        sync_file(segment.file)


def _first_timestamp(segment: Segment) -> int | None:
    try:
        return batches.read_header(segment.file.read(0, batches.HEADER_BYTES)).max_timestamp
    except RecordError:
        return None  # an empty file, or damage that the scan or a reader will meet


def _look_at_front(
    directory: Path, segments: list[Segment], start_offset: int, report: Report
) -> None:
    """Whoever deletes records writes the new start down before a file goes."""
    if segments and segments[0].base_offset > start_offset:
        report.missing = (start_offset, segments[0].base_offset)
        logger.error(
            "%s: records from offset %d to %d are missing, and nobody has deleted them; restore the "
            "files from a copy to get them back",
            directory,
            start_offset,
            segments[0].base_offset - 1,
        )


def _lost_segments(files: FileSystem, directory: Path) -> list[int]:
    """Where segments began of which only indexes are left."""
    names = files.list(directory)
    named = {suffix: {offset_named(name, suffix) for name in names} for suffix in SUFFIXES}
    lost = (named[".index"] | named[".timeindex"]) - named[".log"]
    return sorted(base for base in lost if base is not None)


def _look_between(
    directory: Path, segments: list[Segment], lost: list[int], report: Report
) -> None:
    """Segments are removed from the front, or replaced: one that is missing between two others was
    removed by somebody else."""
    for base in lost:
        behind = [each.base_offset for each in segments if each.base_offset > base]
        if behind and segments[0].base_offset < base:
            report.missing = (base, behind[0])
            logger.error(
                "%s: records from offset %d to %d are missing, and nobody has deleted them; restore "
                "the files from a copy to get them back",
                directory,
                base,
                behind[0] - 1,
            )


def _end_offset(
    directory: Path, segments: list[Segment], found: int, promised: int, report: Report
) -> int:
    if found >= promised:
        return found
    report.missing = (found, promised)
    logger.error(
        "%s: acknowledged records from offset %d to %d are missing; their offsets stay unused, "
        "restore the files from a copy to get them back",
        directory,
        found,
        promised - 1,
    )
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


def _load_producers(
    files: FileSystem,
    small: SmallFiles,
    directory: Path,
    segments: list[Segment],
    end: int,
    clean: bool,
) -> Producers:
    """A snapshot that fits, and what the log says since.

    A snapshot has only the last batch of each producer, but a client may be about to repeat any of
    its last five. So after a crash the older of the two snapshots is taken, and the rest is read.
    """
    producers, offset = Producers(), segments[0].base_offset
    found = _fitting_snapshots(files, small, directory, end)
    usable = [snapshot for snapshot in found if snapshot[0] >= offset]  # else a part is gone
    if usable:
        offset, producers = usable[0] if clean or len(usable) == 1 else usable[1]
    if not _load_aborted(files, small, directory, segments, offset):
        producers, offset = Producers(), segments[0].base_offset
    for segment in segments:
        if segment.next_offset > offset:
            _replay_producers(segment, offset, producers)
    for segment in segments:
        segment.save_aborted()
    return producers


def _load_aborted(
    files: FileSystem, small: SmallFiles, directory: Path, segments: list[Segment], offset: int
) -> bool:
    """Read which transactions were aborted before `offset`; the log tells what came later.

    False if that cannot be read: then all of it is to be found in the log again.
    """
    names = set(files.list(directory))
    listed = [s for s in segments if s.path(aborted.SUFFIX).name in names]
    try:
        for segment in listed:
            segment.load_aborted(before=offset)
        return True
    except (RecordError, OSError) as error:
        if isinstance(error, OSError):
            if not is_about_the_file(error):
                raise
            _give_up_lists(files, small, directory, listed)
        logger.error("%s: aborted transactions are looked for again: %s", directory, error)
        for segment in listed:
            segment.aborted, segment.saved_aborted_bytes = [], -1
        return False


def _give_up_lists(
    files: FileSystem, small: SmallFiles, directory: Path, listed: list[Segment]
) -> None:
    """A list that cannot be read may be set aside. Until it is made anew no snapshot must be there: a
    start that believes one does not look for what was aborted before it."""
    for name in files.list(directory):
        if name.endswith(".snapshot"):
            files.remove(directory / name)
    sync_folder(files, directory)
    for segment in listed:
        small.read_bytes(segment.path(aborted.SUFFIX))


def _fitting_snapshots(
    files: FileSystem, small: SmallFiles, directory: Path, end: int
) -> list[tuple[int, Producers]]:
    """Newest first; those that are damaged or beyond the end are removed."""
    fitting: list[tuple[int, Producers]] = []
    for name in reversed([n for n in files.list(directory) if n.endswith(".snapshot")]):
        taken_at = offset_named(name, ".snapshot")
        found = Producers.from_bytes(small.read_bytes(directory / name) or b"")
        if found is None or taken_at is None or taken_at > end:
            files.remove(directory / name)
            sync_folder(files, directory)  # it must not come back once the log is longer than that
        else:
            fitting.append((taken_at, found))
    return fitting


def _replay_producers(segment: Segment, offset: int, producers: Producers) -> None:
    """Goes around damage: a marker behind it ends what was begun before it."""
    position: int | None = segment.index.floor(offset)[1]
    while position is not None:
        at = position
        try:
            for at, header in segment.headers(position, segment.size, checked=False):
                if header.base_offset >= offset and header.producer_id >= 0:
                    _replay_batch(segment, at, header, producers)
            return
        except RecordError as error:
            logger.error("%s: producers may be forgotten: %s", segment.path(".log"), error)
            beyond = segment.next_intact(at + 1, gaps=True)
            position = None if beyond is None else beyond[0]


def _replay_batch(segment: Segment, at: int, header: BatchHeader, producers: Producers) -> None:
    if not header.is_control:
        producers.update(header, header.base_offset)
    elif header.record_count:  # else compaction has emptied it: its transaction is gone
        marker = control.read_marker(segment.file.read(at, header.size))
        producers.end(header, marker, header.base_offset, segment.aborted)
