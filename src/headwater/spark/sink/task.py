"""Who a task writes for: the query, the batch and the attempt, from Spark's own job properties.

`stream` and `batch` ask in a Python worker. The query's id is kept in the checkpoint, so it is the same
after a restart, and another for another checkpoint. Spark gives the properties to every job that the
stream's thread starts, and so also to a `df.write` inside foreachBatch; but not to one from another thread,
nor on Spark Connect. There the user names query and batch (`named`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark import TaskContext

_QUERY, _BATCH, _RUN = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"


@dataclass(frozen=True)
class Task:
    sink: str
    """The query's id; inside foreachBatch also the topic, for a function may write to several."""
    batch: int
    run: str
    """From one start of the query to its end."""
    slot: int
    """The task's index in its stage."""
    attempt: int

    @property
    def transactional_id(self) -> str:
        """One for each attempt: a speculative one must not fence the one that is ahead of it. After a
        restart the attempts are numbered as before, and fence what the dead ones left open. No topic has
        a # in its name: the id of a sink to the topic orders-1-0 must not be that of a task of orders."""
        return f"headwater-sink-{self.sink}#{self.slot}-{self.attempt}"


def current(name: str | None = None) -> Task | None:
    """The task that runs in this process; None if it belongs to no micro-batch."""
    context = TaskContext.get()
    assert context is not None, "Spark calls write inside a task"
    known = context.getLocalProperty
    return of_properties(known, name, context.partitionId(), context.attemptNumber())


def of_properties(
    known: Callable[[str], str | None], name: str | None, slot: int, attempt: int
) -> Task | None:
    """The task of which a job's properties tell; None if it belongs to no micro-batch."""
    query, batch = known(_QUERY), known(_BATCH)
    if query is None or batch is None:
        return None
    sink = query if name is None else f"{query}/{name}"
    return Task(sink, int(batch), known(_RUN) or "", slot, attempt)


def named(app: str, version: int, name: str, job: str) -> Task:
    """The task that runs in this process, for a query and batch that the user named. Each job counts as a
    run of its own: the same version once more is a replay."""
    context = TaskContext.get()
    assert context is not None, "Spark calls write inside a task"
    return Task(f"{app}/{name}", version, job, context.partitionId(), context.attemptNumber())
