"""`python -m bench.spark.sink`: rows into a topic by this sink, and by Spark's Kafka connector.

One batch write of rows that Spark makes up as it goes (a key of 16 bytes, a value of `--size`), into four
partitions, on headwater and on Apache Kafka, in turns. The connector is at least once; this sink writes in
transactions and commits. What bounds it: the JVM makes rows and Arrow, a Python worker per core encodes and
sends, and the broker, on the same cores, stores.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from bench.broker import machine
from bench.broker.contestants import HEADWATER_OS, KAFKA_OS, CannotRun, running
from bench.spark.session import session
from headwater.testing.kafka_jars import MissingServer

PARTITIONS = 4
CONTESTANTS = {
    "this sink, headwater": ("headwater", 0),
    "this sink, Kafka": ("headwater", 1),
    "Spark's connector, headwater": ("kafka", 0),
    "Spark's connector, Kafka": ("kafka", 1),
}
BASE = "Spark's connector, Kafka"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark.sink", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=100)
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-sink-") as home:
            _run(arguments, Path(home))
    except (CannotRun, MissingServer) as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    return 0


def _run(arguments: argparse.Namespace, home: Path) -> None:
    about = machine.describe(home)
    rates: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    with running((HEADWATER_OS, KAFKA_OS), home) as servers:
        addresses = [each.bootstrap for each in servers]
        for each in addresses:
            _create(each, "rows")
        with contextlib.closing(_Stopping(session())) as spark:
            made = rows(spark.session, arguments.records, arguments.size)
            for warm_up in (True, *[False] * arguments.rounds):
                for name, (sink, which) in CONTESTANTS.items():
                    took = _write(made, sink, addresses[which])
                    if not warm_up:
                        rates[name].append(arguments.records / took)
    print(f"{about['date']}; {about['cores']:.0f} cores; load before {about['load_before']}")
    print(f"{arguments.records} rows of {arguments.size} B into {PARTITIONS} partitions")
    base = statistics.median(rates[BASE])
    for name, found in rates.items():
        rate = statistics.median(found)
        print(f"  {name:30}{rate / 1e6:6.2f} M rows/s ({rate / base:.2f}x)")


class _Stopping:
    def __init__(self, found: SparkSession) -> None:
        self.session = found

    def close(self) -> None:
        self.session.stop()


def rows(spark: SparkSession, count: int, size: int) -> DataFrame:
    text = f"concat(repeat('x', {size - 16}), lpad(cast(id AS string), 16, '0'))"
    return spark.range(0, count, 1, 2).selectExpr(
        "lpad(cast(id % 100000 AS string), 16, '0') AS key", f"{text} AS value"
    )


def _write(made: DataFrame, sink: str, bootstrap: str) -> float:
    began = time.perf_counter()
    writing = made.write.format(sink).mode("append").option("topic", "rows")
    if sink == "headwater":
        writing = writing.option("atLeastOnce", "true")
    writing.option("kafka.bootstrap.servers", bootstrap).save()
    return time.perf_counter() - began


def _create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()


if __name__ == "__main__":
    sys.exit(main())
