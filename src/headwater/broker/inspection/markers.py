"""Markers of transactions that cannot be read any more, and what is known of them all the same.

`segments` and `partition` call it where offsets are lost. Without its marker an aborted transaction would be
ended by the producer's next one, and would count if that commits. But the lists beside the segments have it,
with a checksum: so the marker is written again, between the empty batches that take the lost offsets. A
committed one would be aborted by the next start; where the coordinator's log proves that it has committed
(`decisions`), its marker is written at one of the lost offsets. Should the true one stand further on, no harm
is done: both say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from headwater.broker.inspection import indexes
from headwater.broker.inspection.facts import Began, Facts
from headwater.broker.inspection.findings import Finding
from headwater.broker.inspection.remedy import Edit, EditSegment, FillHole
from headwater.broker.inspection.writer import empty_batch
from headwater.log import aborted_transactions, lost_segments
from headwater.log.aborted_transactions import CHECKSUMS, ENTRY_BYTES, SUFFIX, AbortedTransaction
from headwater.log.files import Files
from headwater.log.lost_segments import Hole, Testimony
from headwater.log.producers import Producers
from headwater.log.segment import Segment, file_name, offset_named
from headwater.log.tail_scan import OFFSETS_PER_SEGMENT
from headwater.record import batch as batches
from headwater.record import control
from headwater.record.errors import InvalidBatch, RecordError

_SAYS = "; markers of transactions that were among them are written again, where it is known how these ended"


class End(NamedTuple):
    """How a transaction ended whose marker is lost."""

    kind: int
    producer_id: int
    epoch: int
    began: Began


def put_back(finding: Finding, facts: Facts) -> tuple[Finding, list[AbortedTransaction]]:
    """The finding, with the markers in what is to take the lost offsets; and which of them abort."""
    hole = finding.remedy
    edit = hole.edit if isinstance(hole, EditSegment) else None
    if edit is not None and (edit.header or edit.batch):
        return finding, []
    place = edit or (hole if isinstance(hole, FillHole) else None)
    if place is None or place.next_offset - place.first_offset >= OFFSETS_PER_SEGMENT:
        return finding, []
    known, unknown = _known(facts.place.directory)
    lost = [
        each
        for each in known
        if place.first_offset <= each.last_offset < place.next_offset
        and each.producer_id in facts.began
        and each.first_offset <= facts.began[each.producer_id].first_offset
        # A list may have been guessed at, by a start without a segment; a proof counts more.
        and not _has_committed(each.producer_id, facts.began[each.producer_id], facts)
    ]
    if any(place.first_offset <= base < place.next_offset for base in unknown):
        lost += _supposed(place, lost, facts)
    ends = _ends(place, lost, facts)
    if not ends:
        return finding, []
    data = b"".join(_filled(place, ends, facts))
    if isinstance(hole, EditSegment):
        edited = replace(hole, says=hole.says + _SAYS, edit=replace(hole.edit, batch=data))
        return replace(finding, remedy=edited), lost
    assert isinstance(hole, FillHole)
    return replace(finding, remedy=replace(hole, says=hole.says + _SAYS, batch=data)), lost


def _supposed(
    place: Edit | FillHole, lost: list[AbortedTransaction], facts: Facts
) -> list[AbortedTransaction]:
    """With a segment its list is lost, and that was not empty: what was open there is taken for aborted,
    unless it is proven to have committed. The producer's next commit would speak for it."""
    taken = {each.last_offset for each in lost}
    free = (n for n in range(place.first_offset, place.next_offset) if n not in taken)
    named = {each.producer_id for each in lost}
    doubtful = {
        producer_id: began
        for producer_id, began in facts.began.items()
        if producer_id not in named and not _has_committed(producer_id, began, facts)
    }
    ended = list(doubtful)
    if isinstance(place, FillHole):
        ended = _ended(place, doubtful, facts.place.directory)
    return [
        AbortedTransaction(who, doubtful[who].first_offset, offset, doubtful[who].first_offset)
        for who, offset in zip(ended, free, strict=False)
    ]


def _ended(place: FillHole, began: Mapping[int, Began], directory: Path) -> list[int]:
    """Those that did not go on behind the hole: a start would find the same."""
    files = Files()
    names = files.list(directory)
    bases = sorted(b for name in names if (b := offset_named(name, ".log")) is not None)
    behind = [
        Segment.found(files, directory, base, 0) for base in bases if base >= place.next_offset
    ]
    taken = {
        offset: found.open_transactions
        for name in names
        if (offset := offset_named(name, ".snapshot")) is not None
        and (found := Producers.from_bytes(indexes.read(directory / name) or b"")) is not None
    }
    try:
        return lost_segments.ended_in(
            Hole(place.first_offset, place.next_offset),
            {who: each.first_offset for who, each in began.items()},
            {who: each.epoch for who, each in began.items()},
            Testimony(taken),
            behind,
        )
    finally:
        for segment in behind:
            segment.close()


def _known(directory: Path) -> tuple[list[AbortedTransaction], list[int]]:
    """All that the lists of a partition have under a checksum, in the order of markers; and the segments
    whose lists are not as they should be."""
    sums = aborted_transactions.unpack_checksums(indexes.read(directory / CHECKSUMS) or b"")
    found: list[AbortedTransaction] = []
    unknown: list[int] = []
    for base_offset, known in sorted(sums.items()):
        data = indexes.read(directory / file_name(base_offset, SUFFIX)) or b""
        try:
            aborted_transactions.check(data, known)
            listed = data[: known.entries * ENTRY_BYTES]
            found += aborted_transactions.unpack(listed, base_offset)
        except RecordError:
            unknown.append(base_offset)
    return found, unknown


def _ends(
    place: Edit | FillHole, aborted: Iterable[AbortedTransaction], facts: Facts
) -> dict[int, End]:
    """What ends at which of these offsets. The transactions are no longer open then."""
    found: dict[int, End] = {}
    for each in aborted:
        began = facts.began.pop(each.producer_id, None)
        if began is not None:  # else it is a later one, none of whose records is left
            found[each.last_offset] = End(control.ABORT, each.producer_id, began.epoch, began)
    for offset in range(place.first_offset, place.next_offset):
        committed = next(_committed(facts), None)
        if committed is None:
            break
        if offset not in found:
            began = facts.began.pop(committed)
            # The epoch that the end has raised: late batches of the old one stay out.
            found[offset] = End(control.COMMIT, committed, began.epoch + 1, began)
    return dict(sorted(found.items()))


def _committed(facts: Facts) -> Iterator[int]:
    """Producers whose open transactions are known to have committed."""
    for producer_id, began in facts.began.items():
        if _has_committed(producer_id, began, facts):
            yield producer_id


def _has_committed(producer_id: int, began: Began, facts: Facts) -> bool:
    """All of it: one marker would speak for every transaction that lies before it."""
    key = facts.place.key
    return all(facts.decisions.committed(producer_id, epoch, key) for epoch in began.epochs)


def _filled(place: Edit | FillHole, ends: Mapping[int, End], facts: Facts) -> Iterable[bytes]:
    """Batches for these offsets: markers, and empty ones around them."""
    first, leader_epoch = place.first_offset, max(place.leader_epoch, 0)
    for offset, end in ends.items():
        if first < offset:
            yield empty_batch(first, offset, leader_epoch)
        marker = _marker(offset, end, leader_epoch)
        facts.producers.end_transaction(batches.read_header(marker), 0)
        yield marker
        first = offset + 1
    if first < place.next_offset:
        yield empty_batch(first, place.next_offset, leader_epoch)


def _marker(offset: int, end: End, leader_epoch: int) -> bytes:
    data = control.marker(end.kind, end.producer_id, end.epoch, offset, end.began.timestamp, 0)
    first = batches.restamp(data, base_offset=offset, leader_epoch=leader_epoch)
    return first + data[len(first) :]


def ended_by(data: memoryview) -> int | None:
    """The producer whose transaction these damaged bytes have ended, unless they say that it aborts."""
    try:
        header = batches.read_header(data)
        if not (header.is_control and header.is_transactional):
            return None
    except RecordError:
        return None
    try:
        aborts = control.read_marker(data).kind == control.ABORT
    except (InvalidBatch, RecordError):
        aborts = False
    return None if aborts else header.producer_id


def united(
    data: bytes | None,
    expected: list[AbortedTransaction],
    markers: set[int],
    base_offset: int,
) -> list[AbortedTransaction]:
    """What the log tells, and what only the old list knew, where its marker is there."""
    old = _unpacked(data, base_offset)
    entries = {each.last_offset: each for each in old if each.last_offset in markers}
    entries.update({each.last_offset: each for each in expected})
    return [entries[offset] for offset in sorted(entries)]


def within(data: bytes | None, base_offset: int, hole: range) -> set[int]:
    """Markers that a list has of a segment that was lost behind its own; see `log.lost_segments`."""
    return {e.last_offset for e in _unpacked(data, base_offset) if e.last_offset in hole}


def _unpacked(data: bytes | None, base_offset: int) -> list[AbortedTransaction]:
    try:
        return aborted_transactions.unpack(data or b"", base_offset)
    except RecordError:
        return []
