"""A micro-batch into a topic for a query that the driver runs itself (`pipelines.driver_query`).

The records are written by the writer of Spark's own streaming queries, under the same names: query, batch and
run stand in the job's properties, where Spark has them too. So a decision that one of the two kinds of query
has left is known to the other.

    few     the driver writes rows and decision in one transaction: nothing is left to be ended
    many    tasks prepare their parts, and hand what the driver must know of them back as rows
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from headwater.client import cluster as connect
from headwater.client.cluster import Cluster
from headwater.spark.sink import columns, open_transactions, part, settings
from headwater.spark.sink.decisions import Decision, Decisions
from headwater.spark.sink.producer import Producing
from headwater.spark.sink.stream import StreamWriter
from headwater.spark.sink.task import Task, of_properties

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_MESSAGE = "message"


class DriverSink:
    """For one run of a query, and one thread."""

    def __init__(self, options: Mapping[str, str], row: StructType) -> None:
        self._settings = settings.read(options)
        self._columns = columns.check(row, self._settings.topic)
        self._writer = StreamWriter(self._settings, self._columns)
        self._orphans_ended = False

    def close(self) -> None:
        connect.cluster(self._settings.client).close()

    def warm_up(self, none: pa.Table) -> None:
        """Load what encodes records of these columns, before the first waits for it."""
        import pyarrow as pa

        from headwater.spark.sink.rows import Rows

        columns = [pa.nulls(1, kind) for kind in none.schema.types]
        one = pa.RecordBatch.from_arrays(columns, names=none.schema.names)
        known = self._settings
        Rows(self._columns, known.topic, known.batch_bytes, lambda _: 1).encode(one)

    def write_few(self, rows: pa.Table, spark: SparkSession) -> None:
        """The batch is in the topic when this returns."""
        batches = [each for each in rows.to_batches() if each.num_rows]
        with self._batch(spark) as task:
            cluster = connect.cluster(self._settings.client)
            if not batches or self._write_in_one(cluster, task, batches):
                self._end_orphans(cluster, task)
            else:  # it came again, and whoever wrote it may have been a task
                prepared = self._writer.write_as(task, iter(batches))
                self._writer.commit([prepared], task.batch)

    def _write_in_one(
        self, cluster: Cluster, task: Task, batches: Sequence[pa.RecordBatch]
    ) -> bool:
        """Rows and decision in the decider's transaction: one counts with the other. False: decided."""
        from headwater.spark.sink.rows import Rows

        decisions, known = Decisions(cluster, task.sink), self._settings
        identity, last = decisions.claim()
        if last is not None and last.batch >= task.batch:
            return False
        partitions = partial(part.partition_count, cluster)
        rows = Rows(self._columns, known.topic, known.batch_bytes, partitions)
        producing = Producing(cluster, identity, known.codec, known.delivery_timeout_s)
        for each in part.by_schema(batches, self._columns, known):
            producing.send(rows.encode(each))
        producing.flush()
        decisions.write(identity, Decision(task.batch, task.run, 1))
        return True

    def _end_orphans(self, cluster: Cluster, task: Task) -> None:
        """Of tasks of a run before this one; what this one's tasks leave, its own batches end."""
        if not self._orphans_ended:
            open_transactions.abort_orphans(cluster, Decisions(cluster, task.sink).group)
        self._orphans_ended = True

    def write_many(self, records: DataFrame) -> None:
        """The same by tasks."""
        writer = self._writer

        def prepare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            message = pickle.dumps(writer.write(batches))
            yield pa.RecordBatch.from_pydict({_MESSAGE: [message]})

        with self._batch(records.sparkSession) as task:
            found = records.mapInArrow(prepare, f"{_MESSAGE} BINARY").collect()
            said = [pickle.loads(row[0]) for row in found]
            writer.commit(said, task.batch)

    @contextmanager
    def _batch(self, spark: SparkSession) -> Iterator[Task]:
        """Take back what was written of a batch that fails."""
        task, is_in = _task(spark), False
        try:
            yield task
            is_in = True
        finally:
            if not is_in:
                self._writer.abandon(task)


def _task(spark: SparkSession) -> Task:
    """The driver as a task: the first attempt of the first."""
    found = of_properties(spark.sparkContext.getLocalProperty, None, 0, 0)
    assert found is not None, "a query names itself and its batch"
    return found
