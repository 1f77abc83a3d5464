"""Replay: a topic from its beginning to its end, all columns, by each way of reading it.

The two brokers hold the same records. The order of the contestants turns from round to round; the first
round warms up the JVM, the workers and the page cache, and does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from bench.broker import meter
from bench.spark.results import (
    CONNECTOR,
    FILES,
    FILES_KAFKA,
    NETWORK,
    NETWORK_KAFKA,
    Results,
)
from bench.spark.session import consume, load


def measure(
    spark: SparkSession,
    results: Results,
    topic: str,
    records: int,
    brokers: tuple[str, str],
    rounds: int,
    columns: str | None = None,
) -> None:
    """`brokers`: headwater's address and Apache Kafka's. `columns`: only these, where it can be said."""
    ours, theirs = brokers
    chosen = {"columns": columns} if columns else {}
    ways: dict[str, Callable[[], None]] = {
        FILES: lambda: consume(load(spark, "headwater", ours, topic, **chosen)),
        FILES_KAFKA: lambda: consume(load(spark, "headwater", theirs, topic, **chosen)),
        NETWORK: lambda: consume(load(spark, "headwater", ours, topic, files="false", **chosen)),
        NETWORK_KAFKA: lambda: consume(
            load(spark, "headwater", theirs, topic, files="false", **chosen)
        ),
        CONNECTOR: lambda: consume(
            load(spark, "kafka", theirs, topic).select(*(columns or "*").split(","))
        ),
    }
    names = list(ways)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            before_s, began = _cpu_s(spark), time.perf_counter()
            ways[name]()
            seconds = time.perf_counter() - began
            cpu_s = _cpu_s(spark) - before_s
            print(
                f"  {topic}, {name}: {records / seconds / 1e6:.2f} M records/s, "
                f"{cpu_s / records * 1e6:.2f} CPU s per million" + ("" if number else " (warm-up)"),
                flush=True,
            )
            if number:
                results.add(
                    topic if not columns else f"{topic}, {columns} only",
                    name,
                    {"per_s": records / seconds, "cpu_s_per_million": cpu_s / records * 1e6},
                )


def _cpu_s(spark: SparkSession) -> float:
    """Of the JVM and its Python workers. Workers come and go while they are counted."""
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    while True:
        try:
            return meter.cpu_s(process.pid)
        except FileNotFoundError:
            continue
