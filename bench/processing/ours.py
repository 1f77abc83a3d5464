"""headwater's operators, timed: a stream over a topic that is there, batch after batch, to nowhere.

The first micro-batch starts workers and compiles, and does not count. `state_mb` is what Spark says of the
state in memory and in RocksDB's files; `resident_mb` is the JVM with its Python workers, when the last batch
is done.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench.processing.operators import OPERATORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "headwater"
DEADLINE_S = 900
Figures = dict[str, float]


def start(home: Path, bootstrap: str) -> SparkSession:
    from headwater.pipelines.session import session

    os.environ["HEADWATER_BOOTSTRAP"] = bootstrap
    settings = {
        "spark.driver.memory": "3g",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    return session("local[2]", settings=settings, log_file=home / "spark.log")


def measure(operator: str, stem: str, batch: int, home: Path) -> Figures:
    """Rows a second of the micro-batches after the first, and what was kept meanwhile."""
    checkpoint = home / f"checkpoint-{operator}-{stem}"
    frame = OPERATORS[operator](stem, {"maxOffsetsPerTrigger": str(batch)})
    query = (
        frame.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        if not query.awaitTermination(DEADLINE_S):
            raise TimeoutError(f"{operator} was not done after {DEADLINE_S} s")
        if (error := query.exception()) is not None:
            raise error
        return _figures(list(query.recentProgress))
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)


def _figures(told: list[Any]) -> Figures:
    counted = [each for each in told if each["numInputRows"] > 0][1:]
    rows = sum(each["numInputRows"] for each in counted)
    seconds = sum(each["durationMs"]["triggerExecution"] for each in counted) / 1000
    if not seconds:
        raise ValueError("too few micro-batches: more rows, or a smaller --batch")
    return {
        "per_s": rows / seconds,
        "state_mb": max(map(_state_bytes, told)) / 1e6,
        "resident_mb": _resident_bytes() / 1e6,
    }


def _state_bytes(progress: Any) -> int:
    total = 0
    for each in progress["stateOperators"]:
        files = each["customMetrics"].get("rocksdbSstFileSize", 0)
        total += each["memoryUsedBytes"] + files
    return int(total)


def _resident_bytes() -> int:
    """The JVM and the Python workers: what this process has started, but for the broker."""
    total = 0
    for child in psutil.Process().children(recursive=True):
        try:
            if "headwater" not in child.cmdline()[1:3]:
                total += child.memory_info().rss
        except (psutil.NoSuchProcess, IndexError):
            continue
    return total
