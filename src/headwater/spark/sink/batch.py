"""`df.write.format("headwater")`: all rows of the job are in the topic, or none of them.

Each task prepares its part in an open transaction; the driver commits them one after the other when all
tasks have succeeded. A job that fails before leaves nothing that a reader of committed data could see.
The limit: nobody replays a batch job. If the driver dies within the moment in which it commits, some
parts are there and the others are taken back by the broker after kafka.transaction.timeout.ms.

Inside foreachBatch somebody does replay: there a write goes the way of `stream`, and is exactly once. Spark
says so only in the stream's own thread; elsewhere the user names query and batch, or says that nobody replays
the job (`settings`). A job that does neither is refused: it might be a replay.

When the tasks have ended, the driver begins a transaction of the job's own id: a sign for attempts that lost
and are still about to begin (`open_transactions`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from headwater.client import cluster as connect
from headwater.client import transaction
from headwater.client.cluster import Cluster
from headwater.client.errors import TransactionLost
from headwater.spark.sink import open_transactions, part, second_phase
from headwater.spark.sink.columns import Columns
from headwater.spark.sink.errors import BatchRefused, BatchTooLong
from headwater.spark.sink.part import Part
from headwater.spark.sink.settings import Settings
from headwater.spark.sink.stream import Prepared, StreamWriter
from headwater.spark.sink.task import Task, current, named

if TYPE_CHECKING:
    import pyarrow as pa


_SIGN_MS = 60_000


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    part: Part


@dataclass(frozen=True)
class Unnamed(WriterCommitMessage):
    """Nothing was written: Spark does not say what for. Only tasks can tell, and only the driver refuses it:
    a task that fails is tried again, and says so each time, with all that the JVM knows of it."""


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, settings: Settings, columns: Columns) -> None:
        self._settings = settings
        self._columns = columns
        self._job = uuid.uuid4().hex
        self._in_stream = StreamWriter(settings, columns, settings.name)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = self._task()
        if task is not None:
            return self._in_stream.write_as(task, iterator)
        if not self._settings.at_least_once:
            return Unnamed()
        context = TaskContext.get()
        assert context is not None, "Spark calls write inside a task"
        slot = context.partitionId()
        name = f"{self._group}#{slot}-{context.taskAttemptId()}"
        cluster = connect.cluster(self._settings.client)
        return Written(
            part.write(
                cluster,
                self._settings,
                self._columns,
                slot,
                name,
                iterator,
                lambda: self._must_not_be_over(cluster),
            )
        )

    def _task(self) -> Task | None:
        """The micro-batch's task that runs in this process."""
        if self._settings.txn is not None:
            return named(*self._settings.txn, self._settings.name, self._job)
        return current(self._settings.name)

    @property
    def _group(self) -> str:
        return f"headwater-job-{self._job}"

    def _must_not_be_over(self, cluster: Cluster) -> None:
        if open_transactions.is_known(cluster, self._group):
            raise TransactionLost("The job has ended without this attempt of a task.")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        batch = _micro_batch(messages)
        if batch is not None:
            self._in_stream.commit(messages, batch)
            return
        if any(isinstance(each, Unnamed) for each in messages):
            raise _unnamed()
        parts = _parts(messages)
        cluster = connect.cluster(self._settings.client)
        transaction.begin(cluster, self._group, _SIGN_MS)
        lost = second_phase.finish(cluster, parts)
        open_transactions.abort_orphans(cluster, self._group)
        if lost:
            raise BatchTooLong(
                f"{len(lost)} of {len(parts)} parts of the job ran out of time before they could be "
                "committed; the others are in the topic.",
                hint="Raise kafka.transaction.timeout.ms beyond the time that the job takes.",
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        batch = _micro_batch(messages)
        if batch is not None:
            self._in_stream.abort(messages, batch)
            return
        if any(isinstance(each, Unnamed) for each in messages):
            return
        cluster = connect.cluster(self._settings.client)
        transaction.begin(cluster, self._group, _SIGN_MS)
        second_phase.abort(cluster, _parts(messages))
        # Tasks that Spark kills when another has failed cannot take theirs back themselves.
        open_transactions.abort_orphans(cluster, self._group)


def _unnamed() -> BatchRefused:
    return BatchRefused(
        "Nothing was written: Spark does not say which query and batch this write belongs to, so that "
        "rows which come again could not be told from new ones.",
        hint="A job that nobody runs again says so: .option('atLeastOnce', 'true'). Inside foreachBatch "
        "(from another thread than the stream's, or on Spark Connect) name both: txnAppId, the same in "
        "every run of the query, and txnVersion, the batch's id.",
    )


def _parts(messages: list[WriterCommitMessage | None]) -> list[Part]:
    return [each.part for each in messages if isinstance(each, Written) and each.part.rows]


def _micro_batch(messages: list[WriterCommitMessage | None]) -> int | None:
    """The batch of the stream in whose foreachBatch this job runs."""
    return next((each.task.batch for each in messages if isinstance(each, Prepared)), None)
