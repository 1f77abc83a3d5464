"""A partition as steps that give the same offsets again on a broker that numbers records by itself.

Pure. Kafka gives a record the next offset, always. So every offset of the old partition needs something that
takes it in the new one:

    records that were committed     the same bytes, without their transaction
    records of an aborted one       in a transaction, which is aborted where it was aborted before
    a marker, or a hole             a marker: it takes one offset, and no reader is ever shown it

Holes are what compaction, excision and lost files leave. What lies before the log's start is not here: it is
filled with records that are then deleted (`writer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.batch import BatchHeader
from headwater.record.errors import InvalidBatch
from headwater.record.records import Record

_LOG_APPEND_TIME, _DELETE_HORIZON = 0x08, 0x40


class Stored(NamedTuple):
    """One batch as it was read; `aborted`: whether readers of committed data skip it."""

    header: BatchHeader
    data: bytes
    aborted: bool = False


@dataclass(frozen=True)
class Data:
    """Records without a hole among them. `producer`: of an aborted transaction; None: committed."""

    first: int
    count: int
    batch: bytes
    producer: int | None = None


@dataclass(frozen=True)
class Gap:
    """Offsets at which readers find nothing."""

    first: int
    count: int


@dataclass(frozen=True)
class Abort:
    """Here the transaction of that producer was aborted."""

    first: int
    producer: int
    count: int = 1


Step = Data | Gap | Abort


def steps(stored: Iterable[Stored], start: int, end: int) -> Iterator[Step]:
    """What takes the offsets from `start` up to `end`, in order and without a gap."""
    gap: Gap | None = None
    for step in _all(stored, start, end):
        if not isinstance(step, Gap):
            if gap is not None:
                yield gap
            gap = None
            yield step
        else:
            gap = step if gap is None else Gap(gap.first, gap.count + step.count)
    if gap is not None:
        yield gap


def _all(stored: Iterable[Stored], start: int, end: int) -> Iterator[Step]:
    position = start
    open_producers: set[int] = set()
    for each in stored:
        for step in _of(each, position, open_producers):
            if step.first > position:
                yield Gap(position, step.first - position)
            yield step
            position = step.first + step.count
        # A batch from which compaction took the last records still ends where it ended.
        rest = min(each.header.next_offset, end) - position
        if rest > 0:
            yield Gap(position, rest)
            position += rest
    if position < end:
        yield Gap(position, end - position)


def _of(each: Stored, position: int, open_producers: set[int]) -> Iterator[Step]:
    header = each.header
    if header.is_control:
        yield from _marker(each, open_producers)
        return
    producer = None
    if each.aborted:
        producer = header.producer_id
        open_producers.add(producer)
    if _is_whole(header, position):
        yield Data(header.base_offset, header.record_count, plain(header, each.data), producer)
        return
    found = [record for record in records.decode(each.data) if record.offset >= position]
    for run in _runs(found):
        rebuilt = records.build(run, base_offset=run[0].offset, codec=header.codec)
        yield Data(run[0].offset, len(run), rebuilt, producer)


def _marker(each: Stored, open_producers: set[int]) -> Iterator[Step]:
    try:
        kind = control.read_marker(each.data).kind
    except InvalidBatch:  # compaction has taken the marker out
        return
    producer, offset = each.header.producer_id, each.header.base_offset
    if kind == control.ABORT and producer in open_producers:
        open_producers.discard(producer)
        yield Abort(offset, producer)
    else:
        yield Gap(offset, 1)


def _is_whole(header: BatchHeader, position: int) -> bool:
    """Whether the batch can be sent as it is: every offset in it, and times that are the producer's."""
    odd = header.attributes & (_LOG_APPEND_TIME | _DELETE_HORIZON)
    whole = header.record_count == header.last_offset_delta + 1
    return whole and not odd and header.base_offset >= position


def _runs(found: list[Record]) -> Iterator[list[Record]]:
    run: list[Record] = []
    for record in found:
        if run and record.offset != run[-1].offset + 1:
            yield run
            run = []
        run.append(record)
    if run:
        yield run


def plain(header: BatchHeader, data: bytes) -> bytes:
    """The batch without its producer and its transaction: `sent_by` gives it new ones."""
    attributes = header.attributes & 0x07
    free = header._replace(
        attributes=attributes, producer_id=-1, producer_epoch=-1, base_sequence=-1, leader_epoch=-1
    )
    return batches.pack(free, memoryview(data)[batches.HEADER_BYTES : header.size])


def sent_by(
    batch: bytes, producer_id: int, epoch: int, sequence: int, *, transactional: bool
) -> bytes:
    """The batch as this producer sends it."""
    header = batches.read_header(batch)
    named = header._replace(
        base_offset=0,
        attributes=header.attributes | (0x10 if transactional else 0),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return batches.pack(named, memoryview(batch)[batches.HEADER_BYTES : header.size])
