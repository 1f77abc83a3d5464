"""Records that are to become dead letters, read a piece at a time; `deadletters` calls it, in threads.

A rejected record may lie in a batch that is small only while it is compressed, and thousands may be rejected
at once, or millions where one batch has so many: no more than one batch is held, as bytes, and beside it
`PIECE_BYTES` of letters. Each batch is decompressed once, however the rejected ones lie among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headwater.broker.shares.records import Key
from headwater.broker.shares.state import Change, Reason
from headwater.log import replay
from headwater.log.partition import PartitionLog, StorageFailed
from headwater.log.replay import Damage
from headwater.record import batch as batches
from headwater.record import codecs, dead_letter, records
from headwater.record.batch import BatchHeader
from headwater.record.dead_letter import Cause
from headwater.record.errors import RecordError
from headwater.record.records import Record

MESSAGES = {
    Reason.REJECTED: "Offset rejected by client.",
    Reason.LIMIT: "Delivery count limit reached.",
}
PIECE_BYTES = 1024 * 1024


class Origin(NamedTuple):
    """What all letters of a share-partition say."""

    key: Key
    state: str
    topic: str


class Piece(NamedTuple):
    """Some of the letters."""

    letters: list[Record]
    codec: int
    """Of a batch that they came from: what was sent compressed is kept compressed."""
    holds_batch: bool
    """More of the same batch is to come."""


def read_pieces(
    origin: Origin, log: Callable[[], PartitionLog], dead: Sequence[Change]
) -> Iterator[Piece]:
    """The letters of the dead records, in the order of offsets, as `dead` is. Of a record that retention
    took, its place is left. Raises StorageFailed. `log` is asked for each batch: it may be another then."""
    letters: list[Record] = []
    size, codec = 0, codecs.NONE
    for found, codec in _by_batch(origin, log, dead):
        is_split = False
        for letter in found:
            letters.append(letter)
            size += size_of(letter)
            if size >= PIECE_BYTES:
                yield Piece(letters, codec, True)
                letters, size, is_split = [], 0, True
        if is_split:
            yield Piece(letters, codec, False)
            letters, size = [], 0
    if letters:
        yield Piece(letters, codec, False)


def size_of(letter: Record) -> int:
    """About."""
    headers = sum(len(name) + len(value or b"") for name, value in letter.headers)
    return len(letter.key or b"") + len(letter.value or b"") + headers + 50


def _by_batch(
    origin: Origin, log: Callable[[], PartitionLog], dead: Sequence[Change]
) -> Iterator[tuple[Iterator[Record], int]]:
    """The letters of one batch after the other, each with its codec."""
    offset = 0
    for number, change in enumerate(dead):
        offset, start = max(offset, change.first), log().start_offset
        gone = range(offset, min(change.last + 1, start))
        if gone:
            places = (Record(each, 0, None, None) for each in gone)
            yield (_letter(origin, each, change) for each in places), codecs.NONE
        offset = max(offset, start)
        while offset <= change.last and (batch := _batch_at(log(), offset, change.last)):
            header, data = batch
            yield _letters_of(origin, data, dead, number, offset), header.codec
            offset = header.next_offset


def read(log: PartitionLog, first: int, last: int) -> Iterator[Record]:
    """The records from `first` to `last` that are there. Raises StorageFailed."""
    while first <= last and (batch := _batch_at(log, first, last)) is not None:
        header, data = batch
        yield from (each for each in _records(data) if first <= each.offset <= last)
        first = header.next_offset


def _batch_at(log: PartitionLog, offset: int, last: int) -> tuple[BatchHeader, bytes] | None:
    """The next batch that has something of these offsets."""

    def stop(found: Damage) -> None:
        if found.first_offset <= last:
            raise StorageFailed(f"a record cannot be read: {found}")

    batch = next(replay.intact(log, offset, stop), None)
    return batch if batch is not None and batch[0].base_offset <= last else None


def _records(data: bytes) -> Iterator[Record]:
    """Of a batch; none of a control batch. Raises StorageFailed."""
    try:
        if not batches.read_header(data).is_control:
            yield from records.each(data)
    except RecordError as error:
        raise StorageFailed(f"a record cannot be read: {error}") from error


def _letters_of(
    origin: Origin, data: bytes, dead: Sequence[Change], number: int, offset: int
) -> Iterator[Record]:
    """Of the dead records from the change of this number on, and from this offset on."""
    change = dead[number]
    for record in _records(data):
        while change.last < record.offset:
            number += 1
            if number == len(dead):
                return
            change = dead[number]
        if max(change.first, offset) <= record.offset:
            yield _letter(origin, record, change)


def _letter(origin: Origin, record: Record, change: Change) -> Record:
    key = origin.key
    place = (origin.topic, key.partition, record.offset)
    why, state = MESSAGES[change.reason], {"state": origin.state}
    cause = Cause(key.group_id, why, *place, change.deliveries, state)
    own = dead_letter.own_headers(record.headers)
    return record._replace(headers=(*own, *dead_letter.headers_of(cause)))
