"""Reading what is committed: the records of a small topic, and whether one transaction has come through.

`decisions` reads its topic with `read`; `ending` asks `verdict` where the coordinator does not know a
transaction any more. Both fetch as any reader of committed data does: nothing beyond the last stable
offset, and aborted transactions are named beside the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.records import Record
from headwater.spark import connect
from headwater.spark import connection as api
from headwater.spark.connect import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Cluster,
    TopicPartition,
    TryAgain,
)
from headwater.spark.sink.transaction import Identity

_FETCH_VERSION = 12
_BYTES_MAX = 4 << 20
_WAIT_MS = 100


class Verdict(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The records are not there any more: retention, compaction, a topic made anew."""


def read(cluster: Cluster, place: TopicPartition, start: int, end: int) -> Iterator[Record]:
    """Committed records with offsets from `start` up to, not including, `end`."""
    position = max(start, cluster.list_offsets({place: connect.EARLIEST})[place])
    while position < end:
        data, aborted = _fetch(cluster, place, position)
        aborts = {(each.producer_id, each.first_offset) for each in aborted}
        for at, header in batches.scan(data):
            if not header.is_control and not _is_aborted(header, aborts):
                yield from (each for each in records.decode(data, at) if start <= each.offset < end)
            position = header.next_offset
        if not data:
            raise TryAgain(f"{place[0]}-{place[1]} ends before {end}")


def _is_aborted(header: batches.BatchHeader, aborts: set[tuple[int, int]]) -> bool:
    """Decisions are transactions of one batch, so the first offset is the batch's own."""
    return header.is_transactional and (header.producer_id, header.base_offset) in aborts


def verdict(cluster: Cluster, identity: Identity, witness: tuple[str, int, int]) -> Verdict:
    """What became of the transaction that wrote the batch at `witness`; waits until it has ended."""
    topic, partition, offset = witness
    place = (topic, partition)

    def attempt() -> Verdict:
        known = cluster.metadata([topic])
        if topic not in known.topics:
            return Verdict.UNKNOWN
        first = cluster.list_offsets({place: connect.EARLIEST}, metadata=known)[place]
        last = cluster.list_offsets({place: connect.LATEST}, metadata=known)[place]
        if not first <= offset < last:
            return Verdict.UNKNOWN
        stable = cluster.list_offsets({place: connect.LATEST}, READ_COMMITTED, known)[place]
        if offset < stable:
            return _by_the_list(cluster, identity, place, offset)
        return _by_the_marker(cluster, identity, place, offset, last)

    return cluster.retrying(attempt)


def _by_the_list(
    cluster: Cluster, identity: Identity, place: TopicPartition, offset: int
) -> Verdict:
    """All that began up to there has ended: the broker names those that were aborted."""
    data, aborted = _fetch(cluster, place, offset)
    for _, header in batches.scan(data):
        ours = (header.producer_id, header.producer_epoch)
        if header.base_offset == offset and ours == (identity.producer_id, identity.epoch):
            named = any(
                each.producer_id == identity.producer_id and each.first_offset <= offset
                for each in aborted
            )
            return Verdict.ABORTED if named else Verdict.COMMITTED
        break
    return Verdict.UNKNOWN


def _by_the_marker(
    cluster: Cluster, identity: Identity, place: TopicPartition, offset: int, end: int
) -> Verdict:
    """Somebody else's transaction is still open, so the broker names none: look for our marker."""
    position = offset
    while position < end:
        data, _ = _fetch(cluster, place, position, READ_UNCOMMITTED)
        for at, header in batches.scan(data):
            if header.is_control and header.producer_id == identity.producer_id:
                committed = control.read_marker(data, at).kind == control.COMMIT
                return Verdict.COMMITTED if committed else Verdict.ABORTED
            position = header.next_offset
        if not data:
            break
    raise TryAgain(f"the transaction at {place[0]}-{place[1]} offset {offset} has not ended yet")


def _fetch(
    cluster: Cluster, place: TopicPartition, offset: int, isolation: int = READ_COMMITTED
) -> tuple[bytes, tuple[Any, ...]]:
    """Whole batches from the one that holds `offset`, and the transactions among them that aborted."""
    asked = {
        "partition": place[1],
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": _BYTES_MAX,
    }
    body = {
        "replica_id": -1,
        "max_wait": _WAIT_MS,
        "min_bytes": 1,
        "max_bytes": _BYTES_MAX,
        "isolation_level": isolation,
        "session_epoch": -1,
        "topics": [{"topic": place[0], "partitions": [asked]}],
        "forgotten_topics_data": [],
    }

    def attempt() -> tuple[bytes, tuple[Any, ...]]:
        leader = cluster.metadata([place[0]]).topics[place[0]].leaders.get(place[1], -1)
        if leader < 0:
            raise TryAgain(f"{place[0]}-{place[1]} has no leader")
        answer = cluster.node(leader).ask(api.FETCH, body, _FETCH_VERSION)
        connect.check(answer.error_code, f"reading {place[0]}")
        (found,) = answer.responses[0].partitions
        if found.error_code is ErrorCode.offset_out_of_range:
            raise TryAgain(f"{place[0]}-{place[1]} has no offset {offset}")
        connect.check(found.error_code, f"reading {place[0]}")
        return bytes(found.records or b""), tuple(found.aborted_transactions or ())

    return cluster.retrying(attempt)
