"""Spark sessions for the benchmark: both sources in one, with the same settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.spark.connector import connector_jars

PYTHON_SOURCES = {
    # What docs/spark.md recommends; Spark's connector has no use for either. Workers hand batches over
    # a Unix socket, and Arrow's Java library does not check every single access to them.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.extraJavaOptions": "-Darrow.enable_unsafe_memory_access=true "
    "-Darrow.enable_null_check_for_get=false",
}
TUNED = {
    # Checkpoints by plain renames on a raw local file system: 10 ms instead of 120 (stateless only).
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


def session(master: str = "local[2]", more: Mapping[str, str] | None = None) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.log.level": "ERROR",
        **PYTHON_SOURCES,
        **(more or {}),
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def load(spark: SparkSession, source: str, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """A batch query; `source` is "headwater" or "kafka"."""
    return (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .options(**options)
        .load()
    )


def consume(rows: DataFrame) -> None:
    """Every column of every row, to nowhere."""
    rows.write.format("noop").mode("overwrite").save()


def aggregate(rows: DataFrame) -> None:
    """What queries mostly do: look at every value, keep little."""
    found = rows.where("length(value) > 0").groupBy("partition")
    found.agg(sf.count("*"), sf.sum(sf.length("value")), sf.max("timestamp")).collect()


REPOSITORY = Path(__file__).resolve().parents[2]
