"""Segments that somebody has removed: what is still known of the transactions that ended in them.

`recovery` asks when it opens a log; `producer_recovery` hands on what was found. A marker ends records that
may lie in the segments before it. If it aborts them, only the list beside its own segment says so: a start
that let the list go with the segment would bring aborted records to life.

    the list is there, and as its checksum says     its entries are kept
    it is not, but its checksum tells of entries     what was open where the hole begins and has ended in it
                                                     counts as aborted
    neither                                          nothing was aborted there

What was open there has ended in the hole or goes on behind it, where the producer's next batch, its next
marker, or a snapshot of the producers tells:

    a snapshot behind the hole has it open           it goes on
    a batch of another epoch, or no transaction's    it has ended: an epoch is raised only between two
    a commit of the next epoch (KIP-890)             it goes on: each transaction has an epoch of its own
    another commit, or an abort                      both may be: taken to have ended, as most do within
                                                     a segment. Aborted records would be believed for good;
                                                     hidden ones `check` names, read_uncommitted has them
    no marker, and a snapshot without it             it has ended
    no marker, and no snapshot                       both may be: it stays open, the coordinator ends it.
                                                     If it goes on, its commit is yet to be acknowledged,
                                                     and nothing of it may be missing then

What is kept is added to the list of the segment before the hole, with the markers' offsets, which must lie in
the hole: a fetch never reaches across a segment's end, and who reads on behind the hole is not told of
them, so no reader waits for a marker that is gone. They must stay in that list at every start, and whenever
the segment is written anew, which must not be put together with the one behind the hole. Among the second
kind there may be transactions that have committed: `headwater check` names them, and `repair` writes their
markers where the coordinator's log proves it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headwater.log import aborted_transactions, lookup
from headwater.log.aborted_list import AbortedList
from headwater.log.aborted_transactions import CHECKSUMS, SUFFIX, AbortedTransaction
from headwater.log.checkpoints import SmallFiles
from headwater.log.files import FileSystem
from headwater.log.producers import Producers
from headwater.log.segment import SUFFIXES, Segment, file_name, offset_named
from headwater.log.txnindex_recovery import Held
from headwater.record import batch as batches
from headwater.record import control
from headwater.record.batch import BatchHeader
from headwater.record.errors import InvalidBatch, RecordError

Replay = Callable[[Segment, int, Producers], None]
"""Tell the producers what a segment says from an offset on."""


class LostSegment(NamedTuple):
    """Where it began, and whose records it had aborted; None: some, and nobody knows whose."""

    base_offset: int
    aborted: list[AbortedTransaction] | None


class Testimony(NamedTuple):
    """Snapshots of the producers, by their offsets: which transactions were open then, and since when."""

    open_at: Mapping[int, Mapping[int, int]]

    def is_open_behind(self, hole: Hole, who: int, first: int) -> bool:
        return any(
            taken_at >= hole.end_offset and opened.get(who) == first
            for taken_at, opened in self.open_at.items()
        )

    def has_ended(self, hole: Hole, who: int, first: int) -> bool:
        """By the time of a snapshot that was taken in the hole or behind it."""
        return any(
            taken_at > hole.first_offset and opened.get(who) != first
            for taken_at, opened in self.open_at.items()
        )


def find(files: FileSystem, small: SmallFiles, directory: Path) -> list[LostSegment]:
    """Those of which other files, or a checksum, are left."""
    names = files.list(directory)
    named = {suffix: {offset_named(name, suffix) for name in names} for suffix in SUFFIXES}
    sums = aborted_transactions.unpack_checksums(small.read_bytes(directory / CHECKSUMS) or b"")
    bases = named[".index"] | named[".timeindex"] | named[SUFFIX] | set(sums)
    lost = sorted(base for base in bases - named[".log"] if base is not None)
    return [
        LostSegment(
            base, _listed(small.read_bytes(directory / file_name(base, SUFFIX)), base, sums)
        )
        for base in lost
    ]


def _listed(
    data: bytes | None, base: int, sums: dict[int, aborted_transactions.Checksum]
) -> list[AbortedTransaction] | None:
    try:
        if base in sums:
            aborted_transactions.check(data, sums[base])
        return aborted_transactions.unpack(data or b"", base)
    except RecordError:
        return None


def in_holes(lost: list[LostSegment], segments: list[Segment]) -> list[LostSegment]:
    """Without those that would lie among the records of another: a file that names one is not of this log, or
    of another day, and nothing ended where nothing is missing."""
    bases = [segment.base_offset for segment in segments]
    before = [(each, bisect_left(bases, each.base_offset)) for each in lost]
    ends = {number: lookup.end_of_data(segments[number - 1]) for _, number in before if number}
    return [each for each, number in before if ends.get(number, 0) <= each.base_offset]


class Hole(NamedTuple):
    """Lost offsets of which no list tells who was aborted there, though some were."""

    first_offset: int
    end_offset: int


def take_lists(
    lost: list[LostSegment], segments: list[Segment], end: int, held: Held
) -> dict[int, Hole]:
    """Add what their lists say to `held`, at the segments before them; where a list is lost as well, return
    the hole, by the number of the segment behind it."""
    holes: dict[int, Hole] = {}
    for each in lost:
        number = bisect_left(segments, each.base_offset, key=lambda segment: segment.base_offset)
        if not number:
            continue  # retention has removed it
        hole_end = segments[number].base_offset if number < len(segments) else end
        if each.aborted is None:
            holes.setdefault(number, Hole(each.base_offset, hole_end))
        else:
            known = [entry for entry in each.aborted if entry.last_offset < hole_end]
            held.setdefault(segments[number - 1], []).extend(known)
    return holes


def opened_before(segments: list[Segment], held: Held, replay: Replay) -> Producers:
    """What was known of the producers where the last of these segments ends."""
    producers = Producers()
    for segment in segments:
        known, segment.aborted = segment.aborted, AbortedList()
        replay(segment, segment.base_offset, producers)
        segment.aborted = known
        end_lost(segment, (*known, *held.get(segment, ())), producers)
    return producers


def end_lost(segment: Segment, entries: Sequence[AbortedTransaction], producers: Producers) -> None:
    """The segment was replayed: what these say to have ended in the hole behind it is open no more."""
    opened = producers.open_transactions
    doubtful = [each for each in entries if each.producer_id in opened]
    data_end = lookup.end_of_data(segment) if doubtful else 0
    for each in doubtful:
        first = opened.get(each.producer_id)
        if data_end <= each.last_offset and first is not None and each.first_offset <= first:
            _end(each, producers)


def _end(lost: AbortedTransaction, producers: Producers) -> None:
    """As its marker has done, but for the epoch, which that may have raised."""
    known = producers.by_id[lost.producer_id]
    marker = control.marker(
        control.ABORT,
        lost.producer_id,
        known.epoch,
        lost.last_offset,
        known.timestamp,
        known.coordinator_epoch,
    )
    producers.end_transaction(batches.read_header(marker), max(0, known.coordinator_epoch))


def supposed(
    hole: Hole,
    opened: Producers,
    testimony: Testimony,
    behind: Sequence[Segment],
    known: Sequence[AbortedTransaction],
) -> list[AbortedTransaction]:
    """What was open where the hole begins and has ended in it, as if each had been aborted by one of the lost
    offsets. `known`: what lists say of the same hole."""
    began = {
        who: first
        for who, first in opened.open_transactions.items()
        if not any(each.producer_id == who and each.first_offset <= first for each in known)
    }
    epochs = {who: opened.by_id[who].epoch for who in began}
    ended = ended_in(hole, began, epochs, testimony, behind)
    taken = {each.last_offset for each in known}
    free = (n for n in range(hole.first_offset, hole.end_offset) if n not in taken)
    stable = min(opened.open_transactions.values(), default=0)  # of those that go on, too
    return [
        AbortedTransaction(who, began[who], offset, stable)
        for who, offset in zip(ended, free, strict=False)
    ]


def ended_in(
    hole: Hole,
    began: Mapping[int, int],
    epochs: Mapping[int, int],
    testimony: Testimony,
    behind: Sequence[Segment],
) -> list[int]:
    """The producers whose transactions have ended in the hole, of those that were open before it: since which
    offsets, and in which epochs. First those of which it is sure: there may be too few offsets for all."""
    waiting = {
        who: epochs[who]
        for who, first in began.items()
        if not testimony.is_open_behind(hole, who, first)
    }
    sure: list[int] = []
    likely: list[int] = []
    for header, kind in _headers(behind):
        if not waiting:
            break
        epoch = waiting.get(header.producer_id)
        if epoch is None:
            continue
        if not header.is_control:
            if header.is_transactional and header.producer_epoch == epoch:
                continue
            sure.append(header.producer_id)
        elif not (kind == control.COMMIT and header.producer_epoch == epoch + 1):
            likely.append(header.producer_id)
        del waiting[header.producer_id]
    sure += [who for who in waiting if testimony.has_ended(hole, who, began[who])]
    return [*sure, *likely]


def _headers(segments: Sequence[Segment]) -> Iterator[tuple[BatchHeader, int | None]]:
    """Of every batch that can be read, and of what kind it is if it is a marker."""
    for segment in segments:
        try:
            for at, header in segment.headers(0, segment.size, checked=False):
                kind = None
                if header.is_control:
                    if not header.record_count:
                        continue  # compaction has emptied it
                    kind = control.read_marker(segment.file.read(at, header.size)).kind
                yield header, kind
        except (RecordError, InvalidBatch):
            continue  # what lies behind damage says less; nothing is shown for it


def tidy(files: FileSystem, directory: Path, lost: list[LostSegment]) -> None:
    """Their lists are not needed any more."""
    names = set(files.list(directory))
    for each in lost:
        if (name := file_name(each.base_offset, SUFFIX)) in names:
            files.remove(directory / name)
