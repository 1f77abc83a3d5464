"""headwater, and Spark with its own connector, timed: each query from its topics' beginning to their end.

The queries are those of `examples/nexmark`, in plain PySpark, so the connector runs the same functions: only
what `hw.stream` and `p.event_stream` read from is another source. Results go to Spark's `noop`, those of q10
to files.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from bench.broker import meter
from headwater.pipelines.context import Context, within
from headwater.pipelines.declarations import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.processing.windows import Window

HEADWATER, CONNECTOR = "headwater", "Spark's connector"
UPDATED = ("q9", "q12", "q15", "q16", "q17", "q18", "q19")
"""Their rows change; those of all others are final."""
DEADLINE_S = 900
Figures = dict[str, float]


class Contestant:
    """One Spark session, and a source for the queries in it."""

    def __init__(self, spark: SparkSession, bootstrap: str, home: Path, name: str) -> None:
        self._spark, self._bootstrap, self._home = spark, bootstrap, home
        self.name = name

    def measure(self, query: str, view: View) -> Figures:
        """Wall and CPU seconds of a whole query, and the memory of the engine when it is done."""
        checkpoint = self._home / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        process = self._spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        before, began = meter.cpu_s(process), time.perf_counter()
        state_mb = self._run(query, self._frame(view, str(checkpoint)), checkpoint)
        seconds = time.perf_counter() - began
        return {
            "seconds": seconds,
            "cpu_s": meter.cpu_s(process) - before,
            "resident_mb": meter.resident_mb(process),
            "state_mb": state_mb,
        }

    def _frame(self, view: View, checkpoint: str) -> DataFrame:
        context = Context(self._spark, self._bootstrap, {}, view.speed, view, checkpoint=checkpoint)
        with within(context):
            if self.name == HEADWATER:
                return view.function()
            with _connector(self._spark, self._bootstrap):
                return view.function()

    def _run(self, query: str, frame: DataFrame, checkpoint: Path) -> float:
        writer = frame.writeStream.format("parquet" if query == "q10" else "noop")
        if query == "q10":
            shutil.rmtree(self._home / "files", ignore_errors=True)
            writer = writer.option("path", str(self._home / "files")).partitionBy("dt", "hm")
        writer = writer.outputMode("update" if query in UPDATED else "append")
        running = (
            writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        )
        try:
            if not running.awaitTermination(DEADLINE_S):
                raise TimeoutError(f"{query} was not done after {DEADLINE_S} s")
            return max((_state_bytes(each) for each in running.recentProgress), default=0) / 1e6
        finally:
            running.stop()


def _state_bytes(progress: Any) -> int:
    return sum(
        each["memoryUsedBytes"] + each["customMetrics"].get("rocksdbSstFileSize", 0)
        for each in progress["stateOperators"]
    )


@contextmanager
def _connector(spark: SparkSession, bootstrap: str) -> Iterator[None]:
    """`stream` and `event_stream`, by Spark's own Kafka connector and `from_json`."""
    from pyspark.sql import functions as F  # noqa: N812

    def stream(topic: str, *, schema: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        options["startingOffsets"] = "earliest"
        read = spark.readStream.format("kafka").options(**options).load()
        return read.select(F.from_json(F.col("value").cast("string"), schema).alias("v")).select(
            "v.*"
        )

    def event_stream(
        topic: str, *, schema: str, time: str, lateness: str, window: Window | None
    ) -> DataFrame:
        found = stream(topic, schema=schema).withWatermark(time, lateness)
        return found if window is None else found.withColumn("window", window.column(time))

    replaced: Mapping[str, Callable[..., DataFrame]] = {
        "headwater.stream": stream,
        "headwater.processing.event_stream": event_stream,
    }
    with contextmanager(_patched)(replaced):
        yield


def _patched(replaced: Mapping[str, Callable[..., DataFrame]]) -> Iterator[None]:
    patches = [mock.patch(name, each) for name, each in replaced.items()]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
