"""Taking a partition over: from here on whatever an earlier owner still sends is refused. Blocking.

Each partition has a transactional id of its own, NAME-PARTITION. A claim is

    1  InitProducerId           a new epoch; what an earlier owner's claim left open is aborted
    2  fences (`fence`)         where an earlier owner had another producer id, as its own has expired
    3  one transaction, aborted a batch of the new epoch into each topic that the owner writes

After 3 the partitions know the new epoch, so the broker refuses every batch of an older one; readers of
committed data never see the mark. What follows are plain batches under that epoch, numbered from 1 on:
they need no transaction, as a batch is whole or absent by itself, and one round trip makes it durable.

Invariant: the log must be read only after 3, and to its end: then it holds all that was ever accepted.
A claim counts for a while only (`lease`), by a clock that also runs while the machine sleeps.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client import transaction
from headwater.client.cluster import READ_COMMITTED, Cluster, TryAgain
from headwater.client.errors import TransactionLost
from headwater.client.leader import Leader
from headwater.client.transaction import PRODUCE_VERSION, Identity
from headwater.events import clock, fence
from headwater.events.errors import OwnerFenced
from headwater.record.records import Record, build

TIMEOUT_MS = 20_000
"""Of the claim's transaction: should the claimer die inside it, readers wait no longer."""
FENCED = (
    ErrorCode.invalid_producer_epoch,
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
)


class Claim(NamedTuple):
    """The right to write, until somebody else claims."""

    identity: Identity
    leaders: dict[str, tuple[str, int]]
    """Topic → address of the partition's leader."""
    ends: dict[str, int]
    """Topic → the offset up to which to read: nothing of an earlier owner comes behind."""
    since: float
    """When the broker heard of it last, by `clock`."""


def take(cluster: Cluster, name: str, partition: int, topics: Sequence[str]) -> Claim:
    """Become the owner; the first topic is that of the events.

    Raises OwnerFenced if somebody else does so at the same moment.
    """
    identity = transaction.begin(cluster, f"headwater-events-{name}-{partition}", TIMEOUT_MS)
    places = [(topic, partition) for topic in topics]
    fence.raise_before(cluster, identity.producer_id, places[0], topics)
    try:
        transaction.add_partitions(cluster, identity, places)
    except TransactionLost as error:
        raise OwnerFenced(f"{name}-{partition} was claimed by another process") from error
    for place in places:
        _mark(cluster, identity, place)
    since = clock.seconds()
    if transaction.end(cluster, identity, commit=False) is transaction.Ended.OVER:
        raise OwnerFenced(f"{name}-{partition} was claimed by another process")
    known = cluster.metadata(topics)
    found = {place: known.topics[place[0]].leaders[partition] for place in places}
    return Claim(
        identity,
        {topic: known.brokers[node] for (topic, _), node in found.items()},
        {place[0]: _stable_end(cluster, place) for place in places},
        since,
    )


def _mark(cluster: Cluster, identity: Identity, place: tuple[str, int]) -> None:
    # With a key, as a compacted topic takes no other; without a time, which only events have.
    record = Record(0, 0, b"claim", b"")
    batch = build(
        [record],
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=0,
        transactional=True,
    )
    data = {"index": place[1], "records": batch}
    body = {
        "transactional_id": identity.transactional_id,
        "acks": -1,
        "timeout": TIMEOUT_MS,
        "topic_data": [{"name": place[0], "partition_data": [data]}],
    }

    def attempt(connection: api.Connection) -> None:
        answer = connection.ask(api.PRODUCE, body, PRODUCE_VERSION)
        code = answer.responses[0].partition_responses[0].error_code
        if code in FENCED or code is ErrorCode.invalid_txn_state:
            raise OwnerFenced(f"{place[0]}-{place[1]} was claimed by another process")
        if code is ErrorCode.duplicate_sequence_number:
            return  # sent again after a lost answer
        if code is ErrorCode.unknown_topic_or_partition:
            raise TryAgain(f"{place[0]}-{place[1]} is not known yet")
        connect.check(code, f"claiming {place[0]}-{place[1]}")

    Leader(cluster, place).ask(attempt)


def _stable_end(cluster: Cluster, place: tuple[str, int]) -> int:
    """The end, once no transaction before it is open."""
    end = cluster.list_offsets({place: connect.LATEST})[place]

    def attempt() -> int:
        if cluster.list_offsets({place: connect.LATEST}, READ_COMMITTED)[place] < end:
            raise TryAgain(f"a transaction in {place[0]}-{place[1]} is open")
        return end

    return cluster.retrying(attempt)
