"""Replay: a topic from its beginning to its end, by each way of reading it, into three queries.

    all columns    every column of every row to Spark's `noop` sink
    value only     one column there; the option `columns` says so to this source, `select` to the connector
    aggregate      a filter and an aggregation over three columns; the same words for all

The two brokers hold the same records. The order of the contestants turns from round to round; the first
rounds warm up the JVM, the workers and the page cache, and do not count: Java's compiler takes more than
one round of small records to be done with Spark's code, whoever the source is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from bench.broker import meter
from bench.spark.results import (
    CONNECTOR,
    FILES,
    FILES_KAFKA,
    NETWORK,
    NETWORK_KAFKA,
    Results,
)
from bench.spark.session import aggregate, consume, load


class Query(NamedTuple):
    name: str
    run: Callable[[DataFrame], None]
    options: dict[str, str]
    columns: str = "*"


ALL = Query("", consume, {})
VALUE = Query(", value only", consume, {"columns": "value"}, "value")
AGGREGATE = Query(", aggregate", aggregate, {})


def measure(
    spark: SparkSession,
    results: Results,
    topic: str,
    records: int,
    brokers: tuple[str, str],
    rounds: int,
    warm_up: int,
    query: Query = ALL,
) -> None:
    """`brokers`: headwater's address and Apache Kafka's."""
    ours, theirs = brokers

    def mine(bootstrap: str, files: str) -> Callable[[], None]:
        options = {"files": files, **query.options}
        return lambda: query.run(load(spark, "headwater", bootstrap, topic, **options))

    ways: dict[str, Callable[[], None]] = {
        FILES: mine(ours, "true"),
        FILES_KAFKA: mine(theirs, "true"),
        NETWORK: mine(ours, "false"),
        NETWORK_KAFKA: mine(theirs, "false"),
        CONNECTOR: lambda: query.run(
            load(spark, "kafka", theirs, topic).select(*query.columns.split(","))
        ),
    }
    names = list(ways)
    for number in range(rounds + warm_up):
        counts = number >= warm_up
        for name in names[number % len(names) :] + names[: number % len(names)]:
            before_s, began = _cpu_s(spark), time.perf_counter()
            ways[name]()
            seconds = time.perf_counter() - began
            cpu_s = _cpu_s(spark) - before_s
            print(
                f"  {topic}{query.name}, {name}: {records / seconds / 1e6:.2f} M records/s, "
                f"{cpu_s / records * 1e6:.2f} CPU s per million" + ("" if counts else " (warm-up)"),
                flush=True,
            )
            if counts:
                results.add(
                    topic + query.name,
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
