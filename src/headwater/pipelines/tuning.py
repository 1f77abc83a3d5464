"""Settings that depend on the query: set just before it starts, since Spark copies them then.

A query without state spends most of a small batch writing two files of its checkpoint. On a local
disk Spark's default goes through checksums and a rename in a child process or two (about 120 ms); the
plain file system needs 10. With state it must not be used: RocksDB's snapshots rely on the checksummed
one. Each query therefore gets its own, and the file system cache is told to keep out of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.pipelines.building import Built
from headwater.pipelines.checkpoints import Checkpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing"
QUICK = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_MANAGER}.FileSystemBasedCheckpointFileManager"
    ),
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def tune(spark: SparkSession, built: Built, checkpoints: Checkpoints) -> None:
    """Prepare the session for the start of this query."""
    if not checkpoints.remote:
        # A pool of its own: queries share the cores fairly, and none waits for another's batch.
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", built.view.name)
    quick = checkpoints.is_local and not built.stateful
    for name, value in QUICK.items():
        if quick:
            spark.conf.set(name, value)
        else:
            spark.conf.unset(name)
