"""The process that Spark's workers are forked from: everything imported, and not one thread."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headwater.pipelines.session import settings_for

_FORKED = """
import os, sys
from headwater.spark.daemon import preload

preload()
print(len(os.listdir("/proc/self/task")))
sys.stdout.flush()
child = os.fork()
if child == 0:
    import io, numpy as np, pyarrow.json
    from headwater.client.decode import headers
    rows = pyarrow.json.read_json(io.BytesIO(b'{"a": 1}\\n' * 10_000))  # by Arrow's own threads
    assert rows["a"].to_numpy().sum() == 10_000 and np.ones((300, 300)).dot(np.ones((300, 300))).all()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_the_daemon_forks_with_a_single_thread_and_its_children_may_have_many():
    done = subprocess.run([sys.executable, "-c", _FORKED], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr


def test_a_worker_has_everything_imported_before_its_first_task(spark: SparkSession):
    names = ["pyarrow", "pyspark.worker", "headwater.client.decode.columns"]

    def preloaded(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc
        import sys

        for _ in parts:
            # Frozen before the fork: only then did the daemon import it.
            there = all(name in sys.modules for name in names) and gc.get_freeze_count() > 0
            yield pa.RecordBatch.from_pydict({"there": [there]})

    found = spark.range(1).mapInArrow(preloaded, "there boolean").collect()
    assert [row["there"] for row in found] == [True]


def test_tasks_that_read_a_source_and_those_of_functions_share_one_daemon(spark: SparkSession):
    class Reader(DataSourceReader):
        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            import os

            yield (os.getppid(),)

    class Parent(DataSource):
        """One row: from which process the worker was forked that reads it."""

        def schema(self) -> str:
            return "daemon BIGINT"

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    def parent(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        for _ in parts:
            yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})

    spark.dataSource.register(Parent)
    (reading,) = spark.read.format("Parent").load().collect()
    (computing,) = spark.range(1).mapInArrow(parent, "daemon BIGINT").collect()
    assert reading == computing


def test_a_source_that_is_found_by_its_name_asks_for_the_environment_of_all_others(
    spark: SparkSession,
):
    found = spark._jsparkSession.sessionState().dataSourceManager().lookupDataSource("headwater")
    asked = dict(found.dataSourceCls().envVars())  # Spark adds its own with the first task
    assert asked.items() >= spark.sparkContext.environment.items()


def test_workers_of_another_python_have_sparks_own_daemon(monkeypatch):
    module = "spark.python.daemon.module"
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert settings_for("local[2]", {})[module] == "headwater.spark.daemon"
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    assert module not in settings_for("local[2]", {})
    assert module not in settings_for("spark://host:7077", {})
