"""One transaction of Kafka, step by step, over the raw protocol: begin, add, commit or abort.

A confluent-kafka producer commits only what it began itself. Here a task begins and the driver ends, so
the identity (id, producer id, epoch) must travel between processes. The sink's `part`
begins, its `decisions` end.

Versions are held at those before KIP-890's second part (Produce 11, EndTxn 4): there the epoch stays
the same to the end, and a second EndTxn with the same verdict is answered with success. Both must be
so: a decided batch is ended again after a crash, by whoever comes next.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client.cluster import Cluster, TopicPartition, TryAgain
from headwater.client.connection import Disconnected
from headwater.client.errors import TransactionLost

Result = TypeVar("Result")
PRODUCE_VERSION = 11
_INIT_VERSION, _ADD_VERSION, _END_VERSION = 4, 3, 4
_FIND_VERSION = 3
_OFFSETS_VERSION = 3
GROUP, TRANSACTION = 0, 1
_OVER = (
    ErrorCode.invalid_producer_epoch,
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.invalid_txn_state,
    ErrorCode.transactional_id_not_found,
)
_POLL_S = 0.005


_KEEPERS_MAX = 10_000
_keepers: WeakKeyDictionary[Cluster, dict[tuple[int, str], int]] = WeakKeyDictionary()
"""Which node keeps which group or transaction, as far as asked."""


@dataclass(frozen=True)
class Identity:
    """What is needed to go on with a transaction, or to end it, from any process."""

    transactional_id: str
    producer_id: int
    epoch: int


class Ended(Enum):
    """What became of an attempt to end a transaction."""

    DONE = "done"
    OVER = "over"
    """Not ours any more: ended in the other way by time-out, or by a younger attempt; or long ago."""


def coordinator(cluster: Cluster, key: str, kind: int) -> api.Connection:
    """The connection to the broker that keeps this group or transaction. For use inside `asking`."""
    known = _keepers.setdefault(cluster, {})
    if (kind, key) not in known:
        body = {"key": key, "key_type": kind}
        answer = cluster.anyone().ask(api.FIND_COORDINATOR, body, _FIND_VERSION)
        connect.check(answer.error_code, f"finding the coordinator of {key}")
        cluster.locate(answer.node_id, (answer.host, answer.port))
        if len(known) >= _KEEPERS_MAX:
            known.clear()
        known[kind, key] = answer.node_id
    return cluster.node(known[kind, key])


def asking(
    cluster: Cluster, attempt: Callable[[], Result], deadline_s: float | None = None
) -> Result:
    """`retrying`, with coordinators looked for anew after a failure."""

    def once() -> Result:
        try:
            return attempt()
        except (Disconnected, TryAgain):
            _keepers.pop(cluster, None)
            raise

    return cluster.retrying(once, deadline_s)


def begin(cluster: Cluster, transactional_id: str, timeout_ms: int) -> Identity:
    """A new epoch: whoever had the id before is fenced, and what it left open is aborted first."""
    body = {
        "transactional_id": transactional_id,
        "transaction_timeout": timeout_ms,
        "producer_id": -1,
        "producer_epoch": -1,
    }

    def attempt() -> Identity:
        connection = coordinator(cluster, transactional_id, TRANSACTION)
        answer = patiently(connection, api.INIT_PRODUCER_ID, body, _INIT_VERSION)
        if answer.error_code is ErrorCode.invalid_transaction_timeout:
            raise TransactionLost(
                f"The broker allows no transaction of {timeout_ms} ms.",
                hint="Lower kafka.transaction.timeout.ms, or raise transaction.max.timeout.ms "
                "on the broker.",
            )
        connect.check(answer.error_code, "beginning a transaction")
        return Identity(transactional_id, answer.producer_id, answer.producer_epoch)

    return asking(cluster, attempt)


def add_partitions(
    cluster: Cluster, identity: Identity, partitions: Iterable[TopicPartition]
) -> None:
    """Must come before the first batch for a partition."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    body = {
        "v3_and_below_transactional_id": identity.transactional_id,
        "v3_and_below_producer_id": identity.producer_id,
        "v3_and_below_producer_epoch": identity.epoch,
        "v3_and_below_topics": [
            {"name": name, "partitions": each} for name, each in topics.items()
        ],
    }

    def attempt() -> None:
        connection = coordinator(cluster, identity.transactional_id, TRANSACTION)
        answer = patiently(connection, api.ADD_PARTITIONS_TO_TXN, body, _ADD_VERSION)
        for topic in answer.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                if each.partition_error_code is ErrorCode.unknown_topic_or_partition:
                    # The topic was seen a moment ago: one just made may not be known everywhere.
                    raise TryAgain(f"the coordinator does not know topic {topic.name}")
                _check(each.partition_error_code, f"adding {topic.name} to a transaction")

    asking(cluster, attempt)


def commit_offset(
    cluster: Cluster,
    identity: Identity,
    group: str,
    place: TopicPartition,
    offset: int,
    note: str,
) -> None:
    """An offset of the group, with a note, that counts when the transaction is committed."""
    whose = {
        "transactional_id": identity.transactional_id,
        "producer_id": identity.producer_id,
        "producer_epoch": identity.epoch,
        "group_id": group,
    }
    committed = {
        "partition_index": place[1],
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": note,
    }
    topics = [{"name": place[0], "partitions": [committed]}]

    def attempt() -> None:
        connection = coordinator(cluster, identity.transactional_id, TRANSACTION)
        answer = patiently(connection, api.ADD_OFFSETS_TO_TXN, whose, _ADD_VERSION)
        _check(answer.error_code, f"adding group {group} to a transaction")
        connection = coordinator(cluster, group, GROUP)
        body = whose | {"generation_id": -1, "member_id": "", "topics": topics}
        stored = connection.ask(api.TXN_OFFSET_COMMIT, body, _OFFSETS_VERSION)
        _check(stored.topics[0].partitions[0].error_code, f"noting the batch in group {group}")

    asking(cluster, attempt)


def end(
    cluster: Cluster, identity: Identity, commit: bool, deadline_s: float | None = None
) -> Ended:
    """Commit or abort; asking again after DONE is answered with DONE."""
    body = {
        "transactional_id": identity.transactional_id,
        "producer_id": identity.producer_id,
        "producer_epoch": identity.epoch,
        "committed": commit,
    }

    def attempt() -> Ended:
        connection = coordinator(cluster, identity.transactional_id, TRANSACTION)
        code = patiently(connection, api.END_TXN, body, _END_VERSION).error_code
        if code in _OVER:
            return Ended.OVER
        connect.check(code, "ending a transaction")
        return Ended.DONE

    return asking(cluster, attempt, deadline_s)


def patiently(connection: api.Connection, which: int, body: dict[str, Any], version: int) -> Any:
    """Ask; while the last transaction's markers are being written, ask again. That takes a moment,
    and `retrying`'s pauses are made for brokers that restart."""
    deadline = time.monotonic() + 5.0
    while True:
        answer = connection.ask(which, body, version)
        busy = _codes(answer) & {ErrorCode.concurrent_transactions}
        if not busy or time.monotonic() > deadline:
            return answer
        time.sleep(_POLL_S)


def _codes(answer: Any) -> set[ErrorCode]:
    topics = getattr(answer, "results_by_topic_v3_and_below", None)
    if topics is None:
        return {answer.error_code}
    return {each.partition_error_code for topic in topics for each in topic.results_by_partition}


def _check(code: ErrorCode, what: str) -> None:
    if code in _OVER:
        raise TransactionLost(
            f"{what} failed: {code.name}. The transaction has ended already.",
            hint="Either a younger attempt took over, or the batch took longer than "
            "kafka.transaction.timeout.ms: Spark runs the task or the batch again.",
        )
    connect.check(code, what)
