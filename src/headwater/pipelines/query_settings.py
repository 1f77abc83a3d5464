"""Settings that depend on the query: set just before it starts, since Spark copies them then.

A query spends most of a small batch writing the files of its checkpoint. On a local disk Spark's default
way to rename them takes about 120 ms for two; the other way that it has takes 30, and 10 on the plain file
system. With state the plain one must not be used: RocksDB's snapshots rely on the checksummed one. Each query
therefore gets its own, and the file system cache is told to keep out of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from headwater.pipelines.builder import Built
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.declarations import REAL_TIME, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing"
LOCAL = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_MANAGER}.FileSystemBasedCheckpointFileManager"
    ),
}
PLAIN = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}

STOP_PATIENCE_S = 20.0
REAL_TIME_BATCH = "5 seconds"
POLLING = "spark.sql.streaming.pollingDelay"
POLLING_MS, POLLING_WITH_STATE_MS = 20, 100
"""How long a query that has nothing to do waits before it looks again. Each look asks the broker, by a
process of Python's; what windows wait for is the watermark, which does not hurry."""


def tune(spark: SparkSession, built: Built, checkpoints: Checkpoints) -> None:
    """Prepare the session for the start of this query."""
    if not checkpoints.remote:
        # A pool of its own: queries share the cores fairly, and none waits for another's batch.
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", built.view.name)
    delay_ms = POLLING_WITH_STATE_MS if built.stateful else POLLING_MS
    spark.conf.set(POLLING, f"{delay_ms}ms")
    local = checkpoints.is_local
    for settings, wanted in ((LOCAL, local), (PLAIN, local and not built.stateful)):
        for name, value in settings.items():
            spark.conf.set(name, value) if wanted else spark.conf.unset(name)


@runtime_checkable
class Leaving(Protocol):
    """A query of the driver's own (`driver_query`)."""

    def ask_to_stop(self) -> None: ...
    def leave(self) -> bool: ...
    def stop(self) -> None: ...


class Around(Protocol):
    """What of a query's surroundings counts when it starts."""

    @property
    def checkpoints(self) -> Checkpoints: ...
    @property
    def once(self) -> bool: ...


def configured(built: Built, view: View, around: Around) -> DataStreamWriter:
    """Spark's writer, or what takes its place, with all that its start needs."""
    writer = built.writer.queryName(view.checkpoint).outputMode(built.mode)
    writer = writer.option("checkpointLocation", around.checkpoints.of(view.checkpoint))
    writer = writer.options(**view.options)
    if view.speed == REAL_TIME:
        writer = writer.outputMode("update").trigger(realTime=REAL_TIME_BATCH)
    elif around.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=view.every or "0 seconds")
    return cast("DataStreamWriter", writer)


def ask_to_stop(query: object) -> None:
    """One of the driver's own begins no further batch; Spark's know no such thing."""
    if isinstance(query, Leaving):
        query.ask_to_stop()


def stop(query: StreamingQuery | Leaving, view: View, *, for_good: bool) -> None:
    """Let the batch at hand end, for a while. `for_good`: the process ends, too."""
    if isinstance(query, Leaving):
        query.leave() if for_good else query.stop()
        return
    if view.speed != REAL_TIME:  # whose batch lasts by the clock, and its rows are out already
        _let_batch_end(query)
    query.stop()


def _let_batch_end(query: StreamingQuery) -> None:
    deadline = time.monotonic() + STOP_PATIENCE_S
    while time.monotonic() < deadline and query.isActive:
        status = query.status
        if not (status["isTriggerActive"] and status["isDataAvailable"]):
            return
        time.sleep(0.02)  # between two questions
