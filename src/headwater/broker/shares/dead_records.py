"""Records that are to become dead letters, read a piece at a time; `deadletters` calls it, in threads.

A rejected record may lie in a batch that is small only while it is compressed, and thousands may be rejected
at once: so no more than one batch is held beyond `PIECE_BYTES`, and each batch is decompressed once, however
the rejected ones lie among the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headwater.broker.shares.records import Key
from headwater.broker.shares.state import Change, Reason
from headwater.log import replay
from headwater.log.partition import PartitionLog, StorageFailed
from headwater.log.replay import Batch, Damage
from headwater.record import codecs, dead_letter
from headwater.record.dead_letter import Cause
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
    next_offset: int
    """Where the next piece begins."""


def read_piece(origin: Origin, log: PartitionLog, dead: Sequence[Change], offset: int) -> Piece:
    """The letters of the dead records from this offset on, or as many as make a piece. `dead` is in the order
    of offsets. Of a record that retention took, its place is left. Raises StorageFailed."""
    letters: list[Record] = []
    size, codec = 0, codecs.NONE
    start = log.start_offset
    for change in dead:
        for gone in range(max(offset, change.first), min(change.last + 1, start)):
            letters.append(_letter(origin, Record(gone, 0, None, None), change))
    offset = max(offset, start)
    for change in dead:
        offset = max(offset, change.first)
        while offset <= change.last:
            if size >= PIECE_BYTES:
                return Piece(letters, codec, offset)
            batch = _batch_at(log, offset, change.last)
            if batch is None:
                break
            found = list(_letters_of(origin, batch, dead, offset))
            letters += found
            size += sum(map(size_of, found))
            codec, offset = batch.header.codec, batch.header.next_offset
    return Piece(letters, codec, offset)


def size_of(letter: Record) -> int:
    """About."""
    return len(letter.key or b"") + len(letter.value or b"") + 200


def read(log: PartitionLog, first: int, last: int) -> Iterator[Record]:
    """The records from `first` to `last` that are there. Raises StorageFailed."""
    while first <= last and (batch := _batch_at(log, first, last)) is not None:
        yield from (record for record in batch.records if record.offset <= last)
        first = batch.header.next_offset


def _batch_at(log: PartitionLog, offset: int, last: int) -> Batch | None:
    """The next batch that has something of these offsets."""

    def stop(found: Damage) -> None:
        if found.first_offset <= last:
            raise StorageFailed(f"a record cannot be read: {found}")

    batch = next(replay.read(log, offset, stop), None)
    return batch if batch is not None and batch.header.base_offset <= last else None


def _letters_of(
    origin: Origin, batch: Batch, dead: Sequence[Change], offset: int
) -> Iterator[Record]:
    changes = iter(dead)
    change = next(changes, None)
    for record in batch.records:
        while change is not None and change.last < record.offset:
            change = next(changes, None)
        if change is not None and max(change.first, offset) <= record.offset:
            yield _letter(origin, record, change)


def _letter(origin: Origin, record: Record, change: Change) -> Record:
    key = origin.key
    place = (origin.topic, key.partition, record.offset)
    why, state = MESSAGES[change.reason], {"state": origin.state}
    cause = Cause(key.group_id, why, *place, change.deliveries, state)
    own = dead_letter.own_headers(record.headers)
    return record._replace(headers=(*own, *dead_letter.headers_of(cause)))
