"""One application per folder of checkpoints: a lock that lives exactly as long as the driver's JVM.

Taken by the runner before the first query. The JVM holds it and not this process: after a kill -9 the
JVM works on for a moment, and whoever starts again in that moment must wait until it is gone.
Local folders only; on a shared file system Spark's own logs notice a second writer, at its next batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 30.0


def hold(
    spark: SparkSession, folder: Path, sleep: Callable[[float], None] = time.sleep
) -> object | None:
    """Take the lock; keep what is returned. Waits for a driver that is about to end."""
    jvm: Any = spark.sparkContext._jvm
    folder.mkdir(parents=True, exist_ok=True)
    channel = jvm.java.io.RandomAccessFile(str(folder / ".lock"), "rw").getChannel()
    deadline = time.monotonic() + PATIENCE_S
    while (held := channel.tryLock()) is None:
        if time.monotonic() > deadline:
            channel.close()
            raise PipelineError(
                f"another headwater run uses the checkpoints in {folder}",
                hint="stop it first, or give this one a folder of its own with --checkpoints",
            )
        sleep(0.1)
    return held
