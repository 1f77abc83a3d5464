"""What a log knows of its producers and of aborted transactions, read when it is opened; `recovery` calls it.

A snapshot beside the segments has what was known at an offset; the headers behind it tell the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

from headwater.log import lookup, lost_segments, txnindex_recovery
from headwater.log.aborted_list import AbortedList
from headwater.log.aborted_transactions import TxnIndexes
from headwater.log.checkpoints import SmallFiles, is_about_the_file
from headwater.log.lost_segments import LostSegment, Testimony, opened_before
from headwater.log.producers import Producers
from headwater.log.segment import CorruptSegment, Segment
from headwater.log.snapshots import Snapshot
from headwater.record import batch as batches
from headwater.record import control
from headwater.record.batch import BatchHeader
from headwater.record.correction import corrected, is_intact, restored
from headwater.record.errors import RecordError

logger = logging.getLogger("headwater.log")

RESTORED_BYTES_MAX = 64 * 1024
"""Of a damaged batch that is set right in memory, so that its transaction ends as it did."""


def load_producers(
    small: SmallFiles,
    front: list[Segment],
    segments: list[Segment],
    end: int,
    clean: bool,
    now_ms: int,
    lost: list[LostSegment],
    snapshots: list[Snapshot],
) -> Producers:
    """A snapshot that fits, and what the log says since. When that was written nobody knows, so it counts
    as new: a producer may stamp its records in the distant past, and be about to repeat the last.

    A snapshot has only the last batch of each producer, but a client may be about to repeat any of its last
    five. So after a crash the older of the two is taken, and the rest is read, `front` of the start included.
    """
    files, directory = segments[0].files, segments[0].directory
    start = (front or segments)[0].base_offset
    offset, producers, testimony = _begun(snapshots, start, clean)
    lists = txnindex_recovery.load(files, small, directory, segments, end, offset)
    if not lists.are_whole:
        producers, offset = Producers(), start
        snapshots.clear()
    holes = lost_segments.take_lists(lost, segments, end, lists.held)
    replay = partial(_replay_producers, now_ms=now_ms)
    _replay_front(front, offset, producers, replay)
    for number, segment in enumerate(segments, 1):
        if segment.next_offset > offset:
            replay(segment, offset, producers)
        if (hole := holes.get(number)) is not None:
            is_known = hole.first_offset >= offset
            opened = producers if is_known else opened_before(segments[:number], lists.held, replay)
            held = lists.held.setdefault(segment, [])
            held += lost_segments.supposed(hole, opened, testimony, segments[number:], held)
        txnindex_recovery.unite(segment, lists.held.get(segment, []))
        if lists.ends[number - 1] > offset:
            lost_segments.end_lost(segment, lists.held.get(segment, []), producers)
    TxnIndexes(files, directory).save(segments)
    lost_segments.tidy(files, directory, lost)
    return producers


def _begun(snapshots: list[Snapshot], start: int, clean: bool) -> tuple[int, Producers, Testimony]:
    """Where to read on, what is known there, and what all of them say of transactions."""
    usable = [each for each in snapshots if each[0] >= start]  # of older ones a part is gone
    testimony = Testimony({taken_at: dict(each.open_transactions) for taken_at, each in usable})
    if not usable:
        return start, Producers(), testimony
    return *(usable[0] if clean or len(usable) == 1 else usable[1]), testimony


def _replay_front(
    front: list[Segment], offset: int, producers: Producers, replay: lost_segments.Replay
) -> None:
    for segment in front:
        try:
            if segment.next_offset > offset:
                replay(segment, offset, producers)
        except OSError as error:  # nobody needs its records
            if not is_about_the_file(error):
                raise
            logger.error("%s: producers may be forgotten: %s", segment.path(".log"), error)
        segment.aborted = AbortedList()


def _replay_producers(segment: Segment, offset: int, producers: Producers, now_ms: int) -> None:
    """Goes around damage: a marker behind it ends what was begun before it."""
    position: int | None = lookup.floor(segment, offset)[1]
    while position is not None:
        at = position
        try:
            for at, header in _placed(segment, position):
                if header.base_offset >= offset and (header.producer_id >= 0 or header.is_control):
                    _replay_batch(segment, at, header, producers)
                    producers.seen(header.producer_id, now_ms)
            return
        except RecordError as error:
            logger.error("%s: producers may be forgotten: %s", segment.path(".log"), error)
            beyond = segment.next_intact(at + 1, gaps=True)
            position = None if beyond is None else beyond[0]
            damaged = error.file_position if isinstance(error, CorruptSegment) else at
            end = segment.size if position is None else position
            _replay_restored(segment, (damaged, end), offset, producers)


def _placed(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """The headers from this place on, each where its neighbours want it: no checksum covers a base offset,
    and by a wrong one a transaction would begin, or reach, where it does not. Raises CorruptSegment."""
    follows = None if position else segment.base_offset
    held: tuple[int, BatchHeader] | None = None
    damage: RecordError | None = None
    try:
        for at, header in segment.headers(position, segment.size, checked=False):
            if held is not None:
                placed = _between(held[1], follows, header.base_offset)
                yield held[0], placed
                follows = placed.next_offset
            held = at, header
    except RecordError as error:
        damage = error
    if held is not None:
        yield held[0], _between(held[1], follows, segment.next_offset)
    if damage is not None:
        raise damage


def _between(header: BatchHeader, follows: int | None, after: int) -> BatchHeader:
    """Where it lies, or right behind what lies before it if it cannot be there and there is room."""
    if follows is None or follows <= header.base_offset < header.next_offset <= after:
        return header
    if follows + header.last_offset_delta < after:
        return header._replace(base_offset=follows)
    return header  # the one behind it lies


def _replay_batch(segment: Segment, at: int, header: BatchHeader, producers: Producers) -> None:
    """Raises RecordError."""
    data = None
    if header.is_control or (header.is_transactional and header.base_sequence < 0):
        data = segment.file.read(at, header.size)
        if not is_intact(
            data
        ):  # by its next marker the producer's next transaction would speak for this one
            data = corrected(data) or data
            header = batches.read_header(data)._replace(base_offset=header.base_offset)
    if header.producer_id >= 0:
        _replay(segment, header, data, producers)


def _replay_restored(
    segment: Segment, place: tuple[int, int], offset: int, producers: Producers
) -> None:
    """What lies between these file positions, if it is one batch that can be set right."""
    start, end = place
    if not 0 < end - start <= RESTORED_BYTES_MAX:
        return
    data = restored(segment.file.read(start, end - start))
    if data is None:
        return
    header = batches.read_header(data)
    is_here = max(offset, segment.base_offset) <= header.base_offset < segment.next_offset
    if is_here and header.producer_id >= 0:
        _replay(segment, header, data, producers)


def _replay(
    segment: Segment, header: BatchHeader, data: bytes | None, producers: Producers
) -> None:
    if not header.is_control or data is None:
        producers.update(header, header.base_offset)
    elif header.record_count:
        marker = control.read_marker(data)
        producers.end(header, marker, header.base_offset, segment.aborted)
    else:  # compaction has emptied it: its transaction is gone, and it stayed for its producer's epoch
        producers.note_epoch(header)
