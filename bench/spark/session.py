"""Spark sessions for the benchmark: both sources in one, with the same settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.spark.connector import connector_jars

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


REPOSITORY = Path(__file__).resolve().parents[2]
