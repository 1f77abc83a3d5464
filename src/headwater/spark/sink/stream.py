"""`df.writeStream.format("headwater")`: each micro-batch is in the topic exactly once, or not at all.

Spark runs the three methods in different processes, and gives a writer no state of its own:

    write   in a worker, once per attempt of a task: prepares the task's part, one open transaction
    commit  on the driver, when every task has succeeded: decides, then ends the transactions
    abort   on the driver, when a task, or `commit`, has failed

Who the query is and which batch it is at, tasks learn from Spark (`task`) and tell the driver. `batch` uses
this writer too, for a `df.write` inside foreachBatch.

A batch is replayed when the driver died before the checkpoint had it. Then either there is no decision,
and everything is rewritten, whatever the rows and their tasks are now; or there is one, and the rows
are not looked at: its transactions are ended and that is all. Only where a decided transaction ran out of
time in between must rows be written again, and then only if they are, by number and digest, the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from headwater.client import cluster as connect
from headwater.client.cluster import Cluster, TopicPartition
from headwater.client.errors import TransactionLost
from headwater.spark.sink import open_transactions, part, second_phase
from headwater.spark.sink.columns import Columns
from headwater.spark.sink.decisions import Decision, Decisions
from headwater.spark.sink.errors import BatchRefused, BatchTooLong
from headwater.spark.sink.part import Part
from headwater.spark.sink.settings import Settings
from headwater.spark.sink.task import Task, current

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Prepared(WriterCommitMessage):
    """What a task tells the driver."""

    task: Task
    part: Part
    decided: bool = False
    """The batch had been decided before: nothing was written, or only what was lost."""


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, settings: Settings, columns: Columns, name: str | None = None) -> None:
        self._settings = settings
        self._columns = columns
        self._name = name

    # ---- in a worker ------------------------------------------------------------------------------

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Prepared:
        task = current(self._name)
        if task is None:
            raise BatchRefused(
                "Spark does not say which query and batch this task belongs to.",
                hint="The sink needs micro-batches: leave out trigger(continuous=...) and realTime.",
            )
        return self.write_as(task, iterator)

    def write_as(self, task: Task, iterator: Iterator[pa.RecordBatch]) -> Prepared:
        cluster = connect.cluster(self._settings.client)
        first = task.batch <= _first_batches.get((task.sink, task.run), task.batch)
        known = _latest_decision(cluster, task) if first else None
        if known is not None and known.batch == task.batch:
            return self._write_lost(cluster, task, known, iterator)
        return Prepared(task, self._write_part(cluster, task, iterator))

    def _write_lost(
        self, cluster: Cluster, task: Task, known: Decision, iterator: Iterator[pa.RecordBatch]
    ) -> Prepared:
        decision = Decisions(cluster, task.sink).whole(known)
        mine = [each for each in decision.parts if each.slot == task.slot]
        lost = second_phase.finish(cluster, mine)
        try:
            rewritten = self._write_part(cluster, task, iterator) if lost else Part(task.slot)
        except BatchTooLong as error:
            raise _lost_again(self._settings.transaction_timeout_ms) from error
        return Prepared(task, rewritten, decided=True)

    def _write_part(self, cluster: Cluster, task: Task, iterator: Iterator[pa.RecordBatch]) -> Part:
        return part.write(
            cluster,
            self._settings,
            self._columns,
            task.slot,
            task.transactional_id,
            iterator,
            lambda: _must_be_undecided(cluster, task),
        )

    # ---- on the driver ----------------------------------------------------------------------------

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        prepared = [each for each in messages if isinstance(each, Prepared)]
        if not prepared:
            return
        cluster = connect.cluster(self._settings.client)
        decisions = Decisions(cluster, prepared[0].task.sink)
        if not any(each.part.rows or each.decided for each in prepared):
            open_transactions.abort_orphans(cluster, decisions.group)
            return
        identity, known = decisions.claim()
        parts = tuple(each.part for each in prepared if each.part.rows)
        run = prepared[0].task.run
        decision, old = Decision(batchId, run, len(messages), parts), None
        if known is not None and known.batch > batchId:
            raise _too_old(known.batch, batchId)
        if known is not None and known.batch == batchId:
            _must_be_another_run(known, run)
            old = decisions.whole(known)
            lost = second_phase.finish(cluster, old.parts)
            decision = _with_replayed(old, lost, decision) if lost else old
            second_phase.abort(cluster, [each for each in parts if each not in decision.parts])
        if decision is not old:
            chosen = [each for each in parts if each in decision.parts]
            try:
                _must_be_open(cluster, chosen, self._settings.transaction_timeout_ms)
            except BatchTooLong as error:
                if old is None:
                    raise
                raise _lost_again(self._settings.transaction_timeout_ms) from error
            decisions.write(identity, decision)
        self._end(cluster, decision)
        open_transactions.abort_orphans(cluster, decisions.group, _place(decision))

    def _end(self, cluster: Cluster, decision: Decision) -> None:
        lost = second_phase.finish(cluster, decision.parts)
        if lost:
            raise BatchRefused(
                f"Batch {decision.batch} is decided, but {len(lost)} of its {len(decision.parts)} "
                "transactions had already run out of time.",
                hint="Start the query again: it writes those again. If this comes again, raise "
                "kafka.transaction.timeout.ms, or make batches smaller (maxOffsetsPerTrigger).",
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        prepared = [each for each in messages if isinstance(each, Prepared) and each.part.rows]
        if not prepared:
            return
        cluster = connect.cluster(self._settings.client)
        # Spark also comes here when `commit` failed or was interrupted: claiming ends its chance to
        # decide, and what it had decided must not be taken back.
        decisions = Decisions(cluster, prepared[0].task.sink)
        _, known = decisions.claim()
        kept = decisions.whole(known).parts if known is not None and known.batch == batchId else ()
        second_phase.abort(cluster, [each.part for each in prepared if each.part not in kept])
        if not kept:
            open_transactions.abort_orphans(cluster, decisions.group)  # of tasks that Spark killed

    def abandon(self, task: Task) -> None:
        """The same where nobody knows what the tasks have prepared: all that is open is theirs."""
        cluster = connect.cluster(self._settings.client)
        decisions = Decisions(cluster, task.sink)
        _, known = decisions.claim()
        if known is None or known.batch != task.batch:
            open_transactions.abort_orphans(cluster, decisions.group)


def _place(decision: Decision) -> TopicPartition | None:
    """A partition that the batch wrote to."""
    found = next((each.witness for each in decision.parts if each.witness is not None), None)
    return None if found is None else found[:2]


def _lost_again(timeout_ms: int) -> TransactionLost:
    """Not BatchTooLong: the batch is decided, and who made it smaller now would write rows twice."""
    return TransactionLost(
        f"Writing the lost part of a decided batch took longer than {timeout_ms / 1000:g} s.",
        hint="Raise kafka.transaction.timeout.ms, and for more than 15 minutes the broker's "
        "transaction.max.timeout.ms.",
    )


def _must_be_open(cluster: Cluster, parts: list[Part], timeout_ms: int) -> None:
    closed = open_transactions.closed(cluster, parts)
    if any(part.is_over(each.began, timeout_ms) for each in closed):
        raise BatchTooLong.after(timeout_ms)
    if closed:
        raise TransactionLost(
            f"{len(closed)} of {len(parts)} transactions of the batch have ended before it was "
            "complete: nothing of it is in the topic.",
            hint="Another driver of the same query has started them again: stop one of the two. Or start "
            "the query again.",
        )


_first_batches: dict[tuple[str, str], int] = {}
"""Sink and run → the first batch that this process saw of them. Only the first can be a replay."""


def _latest_decision(cluster: Cluster, task: Task) -> Decision | None:
    known = _must_be_undecided(cluster, task)
    if task.run:
        _first_batches.setdefault((task.sink, task.run), task.batch)
    return known


def _must_be_undecided(cluster: Cluster, task: Task) -> Decision | None:
    """The latest decision, where it is not one that makes this attempt needless: its run has decided the
    batch with another attempt, or another run has come further."""
    known = Decisions(cluster, task.sink).noted()
    if known is not None and known.batch > task.batch:
        raise _too_old(known.batch, task.batch)
    if known is not None and known.batch == task.batch:
        _must_be_another_run(known, task.run)
    return known


def _must_be_another_run(known: Decision, run: str) -> None:
    """A run does a batch once: meeting its own decision, it is not replaying but writing twice."""
    if run and known.run == run:
        raise BatchRefused(
            f"This run of the query has written to the topic in batch {known.batch} already.",
            hint="Inside foreachBatch write to a topic once, with union, or give each write a name of "
            'its own: .option("sink", "...").',
        )


def _too_old(known: int, asked: int) -> BatchRefused:
    return BatchRefused(
        f"Spark asks for batch {asked}, but batch {known} of this query is in the topic already.",
        hint="The checkpoint is older than the topic (a copy that was put back?). Use the newest "
        "checkpoint, or a new one with startingOffsets where the query should go on.",
    )


def _with_replayed(old: Decision, lost: list[Part], new: Decision) -> Decision:
    """The decision with the lost parts as they were written again; refused unless they are the same."""
    again = {each.slot: each for each in new.parts}
    for each in lost:
        found = again.get(each.slot)
        same = found is not None and (found.rows, found.digest) == (each.rows, each.digest)
        if new.tasks != old.tasks or not same:
            raise BatchRefused(
                f"Batch {old.batch} was decided, but the transaction of its task {each.slot} "
                f"({each.rows} rows of {old.tasks} tasks) ran out of time before it was ended, and "
                f"the replay has {found.rows if found else 0} other rows in {new.tasks} tasks.",
                hint="The other parts are in the topic. Run it with the source, options and code that "
                "it had, so that the rows are the same; or compare, and start with a new checkpoint.",
            )
    lost_slots = {each.slot for each in lost}
    parts = [again[each.slot] if each.slot in lost_slots else each for each in old.parts]
    return replace(new, parts=tuple(parts))
