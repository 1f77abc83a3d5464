"""The demo's Spark step: the same log read by PySpark, a topic derived from it exactly once, both
compared with what the replay saw. Left out where PySpark is not installed, and said so.
"""

from __future__ import annotations

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.project.demo.summary import Audience, Plan, Spark, Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def process(bootstrap: str, plan: Plan, summary: Summary, audience: Audience) -> None:
    """Fill in `summary.spark`; nothing if Spark is not wanted, or not here."""
    if not plan.spark:
        return
    if find_spec("pyspark") is None:
        audience.begin("Reading with Spark")
        audience.end("left out: pip install 'headwater[spark]'")
        return
    from headwater.pipelines.session import session

    with tempfile.TemporaryDirectory(prefix="headwater-demo-spark-") as folder:
        audience.begin("Starting Spark")
        begin = time.perf_counter()
        spark = session("local[2]", name="headwater demo", log_file=Path(folder) / "spark.log")
        try:
            summary.spark = Spark(start_s=time.perf_counter() - begin)
            audience.end(f"ready after {summary.spark.start_s:.1f} s")
            _compare(spark, bootstrap, plan, summary.spark, audience)
            _derive(spark, bootstrap, plan, summary.spark, audience, Path(folder))
        finally:
            spark.stop()


def _compare(
    spark: SparkSession, bootstrap: str, plan: Plan, found: Spark, audience: Audience
) -> None:
    audience.begin("Reading with Spark")
    begin = time.perf_counter()
    found.records, found.crc_sum = _totals(_topic(spark.read, bootstrap, plan.topic))
    found.read_s = time.perf_counter() - begin
    audience.end(f"{found.records:,} records in {found.read_s:.1f} s, the first job of the session")


def _derive(
    spark: SparkSession,
    bootstrap: str,
    plan: Plan,
    found: Spark,
    audience: Audience,
    folder: Path,
) -> None:
    """A streaming query of one pass: every record into another topic, through the sink."""
    audience.begin("Deriving a topic")
    derived = f"{plan.topic}-derived"
    begin = time.perf_counter()
    source = _topic(spark.readStream.option("startingOffsets", "earliest"), bootstrap, plan.topic)
    query = (
        source.select("key", "value")
        .writeStream.format("headwater")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", derived)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found.derive_s = time.perf_counter() - begin
    found.derived, found.derived_crc_sum = _totals(_topic(spark.read, bootstrap, derived))
    audience.end(f"{found.derived:,} records in {found.derive_s:.1f} s, exactly once")


def _topic(reader: Any, bootstrap: str, topic: str) -> DataFrame:
    frame: DataFrame = (
        reader.format("headwater")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )
    return frame


def _totals(frame: DataFrame) -> tuple[int, int]:
    """How many records there are, and the sum of their values' checksums."""
    from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

    row = frame.agg(F.count("*").alias("records"), F.sum(F.crc32("value")).alias("crc")).first()
    assert row is not None
    return int(row["records"]), int(row["crc"] or 0)
