"""Reading what is committed: the records of a small topic, and whether one transaction has come through.

Views and the sink read their topics with `read`; the sink's `second_phase` asks `verdict` where the
coordinator does not know a transaction any more. Both fetch as any reader of committed data does: nothing
beyond the last stable offset, and aborted transactions are named beside the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from headwater.client import batches
from headwater.client import cluster as connect
from headwater.client.cluster import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Cluster,
    TopicPartition,
    TryAgain,
)
from headwater.client.transaction import Identity
from headwater.record import control
from headwater.record.records import Record


class Verdict(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The records are not there any more: retention, compaction, a topic made anew."""


def read(cluster: Cluster, place: TopicPartition, start: int, end: int) -> Iterator[Record]:
    """Committed records with offsets from `start` up to, not including, `end`."""
    start = max(start, cluster.list_offsets({place: connect.EARLIEST})[place])
    for found in batches.read_records(cluster, place, start, end):
        yield from found


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
    for batch in batches.read(cluster, place, offset, offset + 1):
        ours = (batch.header.producer_id, batch.header.producer_epoch)
        if batch.header.base_offset == offset and ours == (identity.producer_id, identity.epoch):
            return Verdict.ABORTED if batch.is_aborted else Verdict.COMMITTED
    return Verdict.UNKNOWN


def _by_the_marker(
    cluster: Cluster, identity: Identity, place: TopicPartition, offset: int, end: int
) -> Verdict:
    """Somebody else's transaction is still open, so the broker names none: look for our marker."""
    for batch in batches.read(cluster, place, offset, end, READ_UNCOMMITTED):
        if batch.header.is_control and batch.header.producer_id == identity.producer_id:
            committed = control.read_marker(batch.piece, batch.at).kind == control.COMMIT
            return Verdict.COMMITTED if committed else Verdict.ABORTED
    raise TryAgain(f"the transaction at {place[0]}-{place[1]} offset {offset} has not ended yet")
