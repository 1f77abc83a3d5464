"""A driver to be killed: one query for each point, each standing still there. Run as a process of its own.

python -m tests.spark.sink.driver BOOTSTRAP FOLDER point=topic …
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.spark.sink.sessions import copied, session, start
from tests.spark.sink.stopping import StoppingSource

ROWS = 600


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    bootstrap, folder, source, *queries = sys.argv[1:]
    # Four attempts for a task, and a thread for each query that stands still in its tasks.
    spark = session("local[4,4]")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    spark.dataSource.register(StoppingSource)
    for each in queries:
        point, topic = each.split("=")
        checkpoint = str(Path(folder) / f"checkpoint-{point}")
        rows = copied(spark, bootstrap, source, ROWS)
        query = start(rows, bootstrap, checkpoint, topic=topic, point=point, folder=folder)
        # One after the other: a query starts several Python processes, and they must not be slow.
        while query.isActive and not (Path(folder) / point).exists():
            time.sleep(0.02)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
