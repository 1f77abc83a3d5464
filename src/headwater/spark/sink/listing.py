"""Which transactions are open: those of a batch about to be decided must be, those of nobody must not.

`stream` calls `closed` just before it decides. A batch that took longer than the broker's time-out is
found here, while nothing of it counts and all of it can be done again. And it calls `abort_orphans` after
the first batch of a run, and after one in which a task was tried more than once: by then every open
transaction of the query belongs to an attempt that was killed. The time-out would end those too, a quarter
of an hour later; until then no reader of committed data would get past them.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.spark import connect
from headwater.spark.connect import Cluster
from headwater.spark.sink import transaction
from headwater.spark.sink.part import Part

_LIST_TRANSACTIONS = 66
_TIMEOUT_MS = 60_000


def closed(cluster: Cluster, parts: Sequence[Part]) -> list[Part]:
    """Those whose transactions are not open any more."""
    named = [(each, each.identity) for each in parts if each.identity is not None]
    there = _open(cluster, [who.producer_id for _, who in named])
    return [each for each, who in named if (who.transactional_id, who.producer_id) not in there]


def abort_orphans(cluster: Cluster, prefix: str) -> list[str]:
    """End every open transaction whose id begins so; returns which those were."""
    found = [name for name, _ in _open(cluster, []) if name.startswith(prefix)]
    for each in found:
        transaction.begin(cluster, each, _TIMEOUT_MS)
    return found


def _open(cluster: Cluster, producer_ids: list[int]) -> set[tuple[str, int]]:
    """Of these producers, or of all: (transactional id, producer id)."""
    body = {"state_filters": ["Ongoing"], "producer_id_filters": producer_ids}

    def attempt() -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for node_id in cluster.metadata([]).brokers:
            answer = cluster.node(node_id).ask(_LIST_TRANSACTIONS, body, 0)
            connect.check(answer.error_code, "listing open transactions")
            found |= {
                (each.transactional_id, each.producer_id) for each in answer.transaction_states
            }
        return found

    return cluster.retrying(attempt)
