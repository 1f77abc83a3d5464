"""The tail of a log that a crash may have torn: find its end, cut what is not whole; `recovery` runs it.

Headers are followed up to the recovery point, and what is damaged there is kept as it is and fenced. From
there on every batch is checked. What is left of the tail is written once more and synced before anyone may
read it: that it can be read now does not mean that it is on disk.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headwater.log import checkpoints, lookup, time_lookup
from headwater.log.checkpoints import EPOCH_KEPT_MAX, EPOCH_MAX, SmallFiles
from headwater.log.commit import SAVE_INDEX_BYTES
from headwater.log.confirmation import sync_file, sync_folder
from headwater.log.segment import CorruptSegment, Segment
from headwater.record import batch as batches
from headwater.record.batch import BatchHeader
from headwater.record.errors import RecordError

if TYPE_CHECKING:
    from headwater.log.recovery import Report

logger = logging.getLogger("headwater.log")

OFFSETS_PER_SEGMENT = 2**31
_INDEX_INTERVAL_BYTES = 4096
_COPY_BYTES = 4 * 1024 * 1024


class TailScan:
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
            if following is not None and (
                tail is None or following.base_offset != segment.next_offset
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
            segment.times.truncate(offset + 1 if position else offset)
        is_right = lookup.is_at(segment, position, offset) and time_lookup.last_agrees(segment)
        if not is_right:
            offset, position = segment.base_offset, 0  # a torn index: the batches know better
        if not self._clean or not is_right:
            segment.index.truncate(position + 1)
            segment.times.truncate(offset + 1 if position else offset)
            segment.saved_index_bytes = segment.saved_times_bytes = -1
        segment.next_offset = offset
        segment.max_timestamp, segment.max_timestamp_offset = segment.times.last()
        segment.first_timestamp = time_lookup.first_timestamp(segment)
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
        if header.leader_epoch < EPOCH_KEPT_MAX:  # the next one must be read again, too
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
        end = segment.base_offset + OFFSETS_PER_SEGMENT
        end = end if following is None else following.base_offset
        found = segment.next_intact(position + 1, gaps=True, end_offset=end)
        while found is not None and found[1].base_offset < segment.next_offset:
            found = segment.next_intact(found[0] + 1, gaps=True, end_offset=end)
        return found

    def _look_at_end(self, segment: Segment) -> None:
        """The segment ends too early: cut off, or does its last batch lie about its offsets?"""
        try:
            lookup.check_last(segment)
        except CorruptSegment as error:
            logger.error("%s", error)
            self._report.damaged = True
            segment.next_offset = self._recovery_point

    def _walk_tail(self, segment: Segment, tail: int, following: Segment | None) -> int | None:
        """Check every batch from `tail` on; cut at the first that is not whole or does not follow."""
        end, position = segment.size, tail
        self._report.scanned_bytes += end - tail
        epochs = checkpoints.read_epochs(self._small, segment.directory)
        newest, epoch = (epochs[-1][0] if epochs else EPOCH_MAX), 0
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
        if segment.index.data or segment.times.data:
            segment.save_indexes()
            return
    except OSError as error:
        logger.error("%s: an index was not saved: %s", segment.path(".index"), error)
    segment.forget_saved_indexes()  # of a few batches, or on a full disk: better none than wrong ones


def _write_again(segment: Segment, tail: int) -> None:
    """Make sure that what was found is on disk: Linux forgets that it could not write a page."""
    position = tail
    while position < segment.size:
        data = segment.file.read(position, min(_COPY_BYTES, segment.size - position))
        segment.file.write(position, [data])
        position += len(data)
    if tail < segment.size:
        sync_file(segment.file)
