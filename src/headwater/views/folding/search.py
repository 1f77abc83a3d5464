"""The records of one key in one partition, found without decoding the others.

Record batches are fetched as they are stored, uncompressed where they are compressed, and searched for
the key's bytes with its length in front: only a batch in which these occur is decoded. So it takes about
as long as fetching and decompressing does, and nothing is kept of what was looked through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headwater.record import batch as batches
from headwater.record import control, records, varint
from headwater.record.errors import CorruptBatch
from headwater.record.records import Record
from headwater.spark import connection
from headwater.spark.connect import READ_COMMITTED, Cluster, TryAgain, check

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
    for piece, position, header in _batches(cluster, where):
        if header.is_control:
            continue
        data = bytes(batches.payload(piece, position))
        if not any(needle in data for needle in needles):
            continue
        batches.check_crc(piece, position, header)
        for record in records.decode(piece, position):
            if where.start <= record.offset < where.end and _is_meant(record, wanted):
                yield record


def an_example_key(cluster: Cluster, where: Stretch) -> bytes | None:
    """The key of some record near the beginning; None if there is none."""
    for piece, position, header in _batches(cluster, where, LOOK_BYTES):
        if not header.is_control:
            for _, key, _ in records.keys(piece, position):
                if key is not None:
                    return key
        if position > 0:
            return None  # a look at the first few batches is enough
    return None


def first_record(cluster: Cluster, where: Stretch) -> Record | None:
    """The first record of a stretch; None if there are only markers of transactions."""
    for piece, position, header in _batches(cluster, where, LOOK_BYTES):
        if not header.is_control:
            for record in records.decode(piece, position):
                if record.offset >= where.start:
                    return record
    return None


def _is_meant(record: Record, wanted: frozenset[bytes]) -> bool:
    if record.key is not None:
        return record.key in wanted
    return record.value is not None and any(mark in record.value for mark in TRUNCATES)


def _batches(
    cluster: Cluster, where: Stretch, most: int = PIECE_BYTES
) -> Iterator[tuple[memoryview, int, batches.BatchHeader]]:
    """Every batch of the stretch that was not aborted."""
    position = where.start
    while position < where.end:
        piece, aborted = cluster.retrying(partial(_fetch, cluster, where, position, most))
        aborting: set[int] = set()
        before = position
        for at, header in batches.scan(piece):
            if header.base_offset >= where.end:
                return
            position = header.next_offset
            while aborted and aborted[0][0] <= header.last_offset:
                aborting.add(aborted.pop(0)[1])
            if header.is_control:
                if control.read_marker(piece, at).kind == control.ABORT:
                    aborting.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in aborting:
                continue
            yield piece, at, header
        if position == before:
            raise CorruptBatch(f"no whole batch at offset {position} of {where.topic}")


def _fetch(
    cluster: Cluster, where: Stretch, position: int, most: int
) -> tuple[memoryview, list[tuple[int, int]]]:
    """Batches from that offset on, and (first offset, producer) of the aborted transactions in them."""
    place = f"{where.topic}-{where.partition}"
    leader = cluster.metadata([where.topic]).topics[where.topic].leaders[where.partition]
    wanted = {
        "partition": where.partition,
        "current_leader_epoch": -1,
        "fetch_offset": position,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": most,
    }
    body = {
        "replica_id": -1,
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": most,
        "isolation_level": READ_COMMITTED,
        "session_id": 0,
        "session_epoch": -1,
        # By name: version 12 is the last that takes one, and nobody follows this topic for long.
        "topics": [{"topic": where.topic, "partitions": [wanted]}],
    }
    answer: Any = cluster.node(leader).ask(connection.FETCH, body, 12)
    check(answer.error_code, f"reading {place}")
    (found,) = answer.responses[0].partitions
    check(found.error_code, f"reading {place}")
    data = memoryview(found.records or b"")
    if not data:
        raise TryAgain(f"{place} has nothing at offset {position}")
    aborted = [(each.first_offset, each.producer_id) for each in found.aborted_transactions or ()]
    return data, sorted(aborted)
