"""Which transactions are open: those of a batch about to be decided must be, those of nobody must not.

`stream` calls `closed` just before it decides. A batch that took longer than the broker's time-out is
found here, while nothing of it counts and all of it can be done again. And it calls `abort_orphans` after
every batch: by then each transaction of the query that is open, or begun and not yet used, belongs to an
attempt that lost (speculation) or was killed. The time-out would end those too, a quarter of an hour later;
until then no reader of committed data would get past them.

Why none escapes: an attempt first begins, and then looks whether its batch is decided. If it looks after
the decision, it writes nothing. If before, it has begun before, and is in the list that is asked for after
the decision: it is fenced, and what it sends from then on is refused.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import re
from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import transaction
from headwater.client.cluster import Cluster, TopicPartition
from headwater.client.errors import TransactionLost
from headwater.spark.sink.part import Part

_DESCRIBE_TRANSACTIONS, _LIST_TRANSACTIONS = 65, 66
_TIMEOUT_MS = 60_000


def closed(cluster: Cluster, parts: Sequence[Part]) -> list[Part]:
    """Those whose transactions are not open any more, or not theirs any more.

    Asked by adding a partition that is there already: that changes nothing, and only the producer of
    an open transaction may do it. A list of open transactions would not tell whose epoch it is.
    """
    return [each for each in parts if not _is_open(cluster, each)]


def _is_open(cluster: Cluster, part: Part) -> bool:
    assert part.identity is not None and part.witness is not None, "a part with rows has both"
    topic, partition, _ = part.witness
    try:
        transaction.add_partitions(cluster, part.identity, [(topic, partition)])
    except TransactionLost:
        return False
    return True


def abort_orphans(cluster: Cluster, group: str, place: TopicPartition | None = None) -> list[str]:
    """End every open transaction of the group's tasks, and fence who began one; returns which those were.

    Must be called when nothing of the group is to be committed any more. `place` is a partition that the
    batch wrote to.
    """
    found = orphans(cluster, group)
    for each in found:
        identity = transaction.begin(cluster, each, _TIMEOUT_MS)
        if place is not None:
            # An id that was only begun looks like one that an attempt has just begun, and would be
            # fenced again in every batch. Ended once, it is not listed until somebody begins it.
            transaction.add_partitions(cluster, identity, [place])
            transaction.end(cluster, identity, commit=False)
    return found


def orphans(cluster: Cluster, group: str) -> list[str]:
    """The ids of the group's tasks that have begun, and neither committed nor aborted."""
    pattern = re.compile(re.escape(group) + r"#\d+-\d+")  # as Task.transactional_id has it
    return [name for name in _begun(cluster) if pattern.fullmatch(name)]


def is_known(cluster: Cluster, transactional_id: str) -> bool:
    """Whether somebody has ever begun a transaction with this id."""
    body = {"transactional_ids": [transactional_id]}

    def attempt() -> bool:
        connection = transaction.coordinator(cluster, transactional_id, transaction.TRANSACTION)
        connection.send(_DESCRIBE_TRANSACTIONS, body, 0)
        frame, start, _, _ = connection.receive_frame()
        # throttle int32 | states: length, (error int16 | …). Read by hand: kio takes no start time of -1,
        # and that is what a transaction has that is not open.
        code = ErrorCode(int.from_bytes(frame[start + 5 : start + 7], "big", signed=True))
        if code is ErrorCode.transactional_id_not_found:
            return False
        connect.check(code, f"looking at {transactional_id}")
        return True

    return transaction.asking(cluster, attempt)


def _begun(cluster: Cluster) -> list[str]:
    """The ids of all transactions that are open, or could be in the next moment."""
    body = {"state_filters": ["Ongoing", "Empty"], "producer_id_filters": []}

    def attempt() -> list[str]:
        found: list[str] = []
        for node_id in cluster.metadata([]).brokers:
            answer = cluster.node(node_id).ask(_LIST_TRANSACTIONS, body, 0)
            connect.check(answer.error_code, "listing open transactions")
            found += [each.transactional_id for each in answer.transaction_states]
        return found

    return cluster.retrying(attempt)
