"""Settings that depend on the query: set just before it starts, since Spark copies them then.

A query spends most of a small batch writing the files of its checkpoint. On a local disk Spark's default
way to rename them takes about 120 ms for two; the other way that it has takes 30, and 10 on the plain file
system. With state the plain one must not be used: RocksDB's snapshots rely on the checksummed one. Each query
therefore gets its own, and the file system cache is told to keep out of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.pipelines.builder import Built
from headwater.pipelines.checkpoints import Checkpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
