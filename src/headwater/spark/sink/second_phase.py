"""The second phase: end the transactions of a decided batch, and find out what became of each.

The driver calls `finish` after deciding; the tasks of a replayed batch call `settle` for their own part.
Ending is repeatable, so it does not matter who got how far before a crash. If a transaction cannot be
ended any more, the data itself tells whether it had been committed. If it had not (the broker's
time-out came between decision and end, with the driver away all that time), the part is `lost`.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.client import transaction
from headwater.client.cluster import Cluster
from headwater.client.transaction import Ended
from headwater.client.verdict import Verdict, verdict
from headwater.spark.sink.errors import BatchRefused
from headwater.spark.sink.part import Part


def settle(cluster: Cluster, part: Part) -> bool:
    """Commit a decided part. True if it is committed, now or before; False if it is lost."""
    assert part.identity is not None and part.witness is not None, (
        "only parts with rows are decided"
    )
    if transaction.end(cluster, part.identity, commit=True) is Ended.DONE:
        return True
    found = verdict(cluster, part.identity, part.witness)
    if found is Verdict.UNKNOWN:
        topic, partition, offset = part.witness
        raise BatchRefused(
            f"Whether a decided part of the batch was committed cannot be told any more: its records "
            f"at {topic}-{partition} offset {offset} are gone.",
            hint="Retention or a new topic of that name came first. Compare source and topic, and "
            "start the query with a new checkpoint from where it should go on.",
        )
    return found is Verdict.COMMITTED


def finish(cluster: Cluster, parts: Iterable[Part]) -> list[Part]:
    """Commit all decided parts; those that are lost."""
    return [each for each in parts if not settle(cluster, each)]


def abort(cluster: Cluster, parts: Iterable[Part]) -> None:
    """Take back parts that were prepared and will not be decided."""
    for each in parts:
        if each.identity is not None:
            transaction.end(cluster, each.identity, commit=False)
