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
LOCK = ".lock"


def hold(spark: SparkSession, folder: Path, sleep: Callable[[float], None] = time.sleep) -> Any:
    """Take the lock; keep what is returned. Waits for a driver that is about to end."""
    deadline = time.monotonic() + PATIENCE_S
    while (held := try_hold(spark, folder)) is None:
        if time.monotonic() > deadline:
            raise PipelineError(
                f"another headwater run uses the checkpoints in {folder}",
                hint="stop it first, or give this one a folder of its own with --checkpoints",
            )
        sleep(0.1)
    return held


def try_hold(spark: SparkSession, folder: Path) -> Any | None:
    """The lock, if nobody has it; to be kept, and let go with its `release()`."""
    jvm: Any = spark.sparkContext._jvm
    folder.mkdir(parents=True, exist_ok=True)
    channel = jvm.java.io.RandomAccessFile(str(folder / LOCK), "rw").getChannel()
    try:
        held = channel.tryLock()
    except Exception as error:
        if "OverlappingFileLock" not in str(error):
            raise
        held = None  # this very JVM has it
    if held is None:
        channel.close()
    return held


def is_held(folder: Path) -> bool:
    """Whether some driver has the lock, asked without Spark."""
    import fcntl

    try:
        with (folder / LOCK).open("r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except OSError:
        return True
