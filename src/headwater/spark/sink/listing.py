"""Which transactions are open: those of a batch about to be decided must be, those of nobody must not.

`stream` calls `closed` just before it decides. A batch that took longer than the broker's time-out is
found here, while nothing of it counts and all of it can be done again. And it calls `abort_orphans` after
the first batch of a run, and after one in which a task was tried more than once: by then every open
transaction of the query belongs to an attempt that was killed. The time-out would end those too, a quarter
of an hour later; until then no reader of committed data would get past them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.spark import connect
from headwater.spark.connect import Cluster
from headwater.spark.sink import transaction
from headwater.spark.sink.errors import PartLost
from headwater.spark.sink.part import Part

_LIST_TRANSACTIONS = 66
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
    except PartLost:
        return False
    return True


def abort_orphans(cluster: Cluster, group: str) -> list[str]:
    """End every open transaction of the group's tasks; returns which those were."""
    pattern = re.compile(re.escape(group) + r"-\d+-\d+")  # as Task.transactional_id has it
    found = [name for name in _open(cluster) if pattern.fullmatch(name)]
    for each in found:
        transaction.begin(cluster, each, _TIMEOUT_MS)
    return found


def _open(cluster: Cluster) -> list[str]:
    """The ids of all open transactions."""
    body = {"state_filters": ["Ongoing"], "producer_id_filters": []}

    def attempt() -> list[str]:
        found: list[str] = []
        for node_id in cluster.metadata([]).brokers:
            answer = cluster.node(node_id).ask(_LIST_TRANSACTIONS, body, 0)
            connect.check(answer.error_code, "listing open transactions")
            found += [each.transactional_id for each in answer.transaction_states]
        return found

    return cluster.retrying(attempt)
