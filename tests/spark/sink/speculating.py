"""A driver whose cluster speculates: task 0 stands still in its first attempt, and its second one wins.

python -m tests.spark.sink.speculating MASTER BOOTSTRAP SOURCE TOPIC FOLDER
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.spark.sink.sessions import copied, session, start

SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.efficiency.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
}


def stand_still(batches: Iterator[Any]) -> Iterator[Any]:
    """Task 0's first attempt gives some of its rows, and then no more."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    Path(folder, f"attempt-{context.partitionId()}-{context.attemptNumber()}").touch()
    for batch in batches:
        yield batch
        while context.partitionId() == 0 and context.attemptNumber() == 0:
            time.sleep(0.02)  # until Spark kills it


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    master, bootstrap, source, topic, folder = sys.argv[1:]
    spark = session(master, SETTINGS)
    # So long that a few rows fill the buffers between Spark's processes.
    rows = copied(spark, bootstrap, source, 100_000).selectExpr(
        "key", "rpad(cast(value AS string), 20000, ' ') AS value"
    )
    rows = rows.mapInArrow(stand_still, "key binary, value string")
    query = start(rows, bootstrap, f"{folder}/checkpoint", topic=topic)
    query.processAllAvailable()
    query.stop()
    spark.stop()
