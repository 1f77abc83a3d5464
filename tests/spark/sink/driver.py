"""A driver to be killed: one query for each point, each standing still there. Run as a process of its own.

python -m tests.spark.sink.driver BOOTSTRAP FOLDER point=topic …
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.spark.sink.sessions import numbers, session, start
from tests.spark.sink.stopping import StoppingSource

ROWS = 400


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    bootstrap, folder, *queries = sys.argv[1:]
    # Four attempts for a task, and a thread for each query that stands still in its tasks.
    spark = session("local[4,4]")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    spark.dataSource.register(StoppingSource)
    for each in queries:
        point, topic = each.split("=")
        checkpoint = str(Path(folder) / f"checkpoint-{point}")
        rows = numbers(spark, ROWS)
        start(rows, bootstrap, checkpoint, topic=topic, point=point, folder=folder)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
