"""`df.write.format("headwater")`: all rows of the job are in the topic, or none of them.

Each task prepares its part in an open transaction; the driver commits them one after the other when all
tasks have succeeded. A job that fails before leaves nothing that a reader of committed data could see.
The limit: nobody replays a batch job. If the driver dies within the moment in which it commits, some
parts are there and the others are taken back by the broker after kafka.transaction.timeout.ms.

Inside foreachBatch somebody does replay: there a write goes the way of `stream`, and is exactly once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from headwater.spark import connect
from headwater.spark.sink import ending, listing, part
from headwater.spark.sink.columns import Columns
from headwater.spark.sink.errors import PartLost
from headwater.spark.sink.part import Part
from headwater.spark.sink.settings import Settings
from headwater.spark.sink.stream import Prepared, StreamWriter
from headwater.spark.sink.task import current

if TYPE_CHECKING:
    import pyarrow as pa


KILLED_S = 3.0
"""Spark gives the worker of a task that it kills two seconds (`spark.python.task.killTimeout`)."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    part: Part


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, settings: Settings, columns: Columns) -> None:
        self._settings = settings
        self._columns = columns
        self._job = uuid.uuid4().hex
        self._in_stream = StreamWriter(settings, columns, settings.name)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if current() is not None:
            return self._in_stream.write(iterator)
        context = TaskContext.get()
        assert context is not None, "Spark calls write inside a task"
        slot = context.partitionId()
        name = f"headwater-job-{self._job}-{slot}-{context.taskAttemptId()}"
        cluster = connect.cluster(self._settings.client)
        return Written(part.write(cluster, self._settings, self._columns, slot, name, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        batch = _micro_batch(messages)
        if batch is not None:
            self._in_stream.commit(messages, batch)
            return
        parts = _parts(messages)
        lost = ending.finish(connect.cluster(self._settings.client), parts)
        if lost:
            raise PartLost(
                f"{len(lost)} of {len(parts)} parts of the job ran out of time before they could be "
                "committed; the others are in the topic.",
                hint="Raise kafka.transaction.timeout.ms beyond the time that the job takes.",
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        batch = _micro_batch(messages)
        if batch is not None:
            self._in_stream.abort(messages, batch)
            return
        cluster = connect.cluster(self._settings.client)
        ending.abort(cluster, _parts(messages))
        # Tasks that Spark kills when another has failed cannot take theirs back themselves, and some
        # still begin: readers of the topic would wait for them until their time-out.
        deadline = time.monotonic() + KILLED_S
        while True:
            listing.abort_orphans(cluster, f"headwater-job-{self._job}")
            if time.monotonic() > deadline:
                return
            time.sleep(0.25)


def _parts(messages: list[WriterCommitMessage | None]) -> list[Part]:
    return [each.part for each in messages if isinstance(each, Written) and each.part.rows]


def _micro_batch(messages: list[WriterCommitMessage | None]) -> int | None:
    """The batch of the stream in whose foreachBatch this job runs."""
    return next((each.task.batch for each in messages if isinstance(each, Prepared)), None)
