"""The records of one key in one partition, found without decoding the others.

Record batches are fetched as they are stored, uncompressed where they are compressed, and searched for
the key's bytes with its length in front: only a batch in which these occur is decoded. So it takes about
as long as fetching and decompressing does, and nothing is kept of what was looked through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.client import batches
from headwater.client.batches import Batch
from headwater.client.cluster import Cluster
from headwater.record import varint
from headwater.record.keys import each_key
from headwater.record.records import Record

PIECE_BYTES = 8 * 1024 * 1024
LOOK_BYTES = 64 * 1024
TRUNCATES = (b'"op":"t"', b'"op": "t"')
"""A truncated table says so without a key, in every partition: it concerns every key."""


@dataclass(frozen=True)
class Stretch:
    """A part of a partition: from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def length(self) -> int:
        return max(0, self.end - self.start)


def records_of(cluster: Cluster, where: Stretch, keys: Sequence[bytes]) -> Iterator[Record]:
    """Committed records with one of the keys, and those that truncate; in their order."""
    needles = [varint.encode(len(key)) + key for key in keys] + list(TRUNCATES)
    wanted = frozenset(keys)
    for batch in _data(cluster, where, PIECE_BYTES):
        data = batch.payload()
        if not any(needle in data for needle in needles):
            continue
        batch.check()
        for record in batch.records():
            if where.start <= record.offset < where.end and _is_meant(record, wanted):
                yield record


def an_example_key(cluster: Cluster, where: Stretch) -> bytes | None:
    """The key of some record near the beginning; None if there is none."""
    for batch in _data(cluster, where, LOOK_BYTES):
        for _, key, _ in each_key(batch.piece, batch.at):
            if key is not None:
                return key
        if batch.at > 0:
            return None  # a look at the first few batches is enough
    return None


def first_record(cluster: Cluster, where: Stretch) -> Record | None:
    """The first record of a stretch; None if there are only markers of transactions."""
    for batch in _data(cluster, where, LOOK_BYTES):
        for record in batch.records():
            if record.offset >= where.start:
                return record
    return None


def _data(cluster: Cluster, where: Stretch, bytes_max: int) -> Iterator[Batch]:
    place = (where.topic, where.partition)
    found = batches.read(cluster, place, where.start, where.end, bytes_max=bytes_max)
    return (batch for batch in found if batch.is_data)


def _is_meant(record: Record, wanted: frozenset[bytes]) -> bool:
    if record.key is not None:
        return record.key in wanted
    return record.value is not None and any(mark in record.value for mark in TRUNCATES)
