"""How quickly a view over two tables follows them, and what a batch costs as the tables grow.

    python -m bench.views.tables [--sizes 10000,100000,1000000] [--changes 50000] [--to duckdb:PATH]

The view joins orders with customers, both of the given size, and each batch changes rows of both, spread
evenly. Changes are Debezium's envelopes in topics of a broker; a batch is read, decoded, brought into the
state, computed by Spark and written to a target by the query of `headwater run`. In brackets: seconds of CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import headwater.testing
from bench.broker.meter import cpu_s
from headwater.pipelines.driver_query import DriverQuery, Work
from headwater.pipelines.session import session
from headwater.pipelines.slots import slots_of
from headwater.pipelines.table_views import _reader, _source
from headwater.views.applier import Applying
from headwater.views.tables.decoder import COLUMNS, Table
from headwater.views.tables.follower import Following, StoreSink
from headwater.views.tables.planner import empty_frames, marked, plan
from headwater.views.targets.contract import Shape
from headwater.views.targets.registry import target_for

ORDERS = "id BIGINT, customer BIGINT, total DOUBLE, status STRING"
CUSTOMERS = "customer BIGINT, name STRING, city STRING"
STAGES = ("decode", "compute", "write")
BATCH = 250_000


def joined(_: SparkSession, frames: Mapping[int, DataFrame]) -> DataFrame:
    """The view's function."""
    orders, customers = marked(frames[0], 0), marked(frames[1], 1)
    return orders.join(customers, "customer").select("id", "name", "city", "total", "status")


class Clock:
    """By stage: seconds, and those of CPU, of this process and its Java together."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.cpu_s = dict.fromkeys(STAGES, 0.0)

    def around(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            began, spent = time.perf_counter(), cpu_s(os.getpid())
            try:
                return function(*given)
            finally:
                self.seconds[stage] += time.perf_counter() - began
                self.cpu_s[stage] += cpu_s(os.getpid()) - spent

        return timed


class Timed(Following):
    """As every view over tables is followed; a clock tells its stages apart."""

    clock = Clock()

    def apply(self, batch: int, changes: Any, spark: SparkSession) -> None:
        super().apply(batch, self.clock.around("decode", changes), spark)

    def _computing(self, spark: SparkSession) -> Any:
        return self.clock.around("compute", super()._computing(spark))


class Bench:
    """One size of the tables: two topics, a view that follows them, and batches of changes."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, size: int, to: str, folder: Path
    ) -> None:
        self.spark, self.bootstrap, self.size, self.folder = spark, bootstrap, size, folder
        self.names = (f"orders-{size}", f"customers-{size}")
        _create(bootstrap, self.names)
        self._to, self._moves, self._customers = to, 0, size
        self.following: Timed | None = None
        self.query = DriverQuery(self._work(), slots_of(spark), once=False)

    def _work(self) -> Work:
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribe": ",".join(self.names),
            "startingOffsets": "earliest",
            "columns": ",".join(COLUMNS),
            "maxOffsetsPerTrigger": str(BATCH),
        }
        return Work(
            "joined",
            self.spark,
            self.folder / "checkpoint",
            self._made,
            lambda: _reader(options, "joined"),
            lambda once: _source(options, "joined", once),
        )

    def _made(self, spark: SparkSession) -> Timed:
        tables = [
            Table(self.names[0], columns_of(ORDERS), ("id",)),
            Table(self.names[1], columns_of(CUSTOMERS), ("customer",)),
        ]
        made = plan("joined", ("id",), joined(spark, empty_frames(spark, tables)), tables)
        place = self.folder / "checkpoint"
        applying = Applying(
            target_for(self._to, Shape("joined", made.result, ("id",))), str(place), states=True
        )
        sink: Any = StoreSink(applying)
        sink.write = lambda *given: self.following.clock.around(  # type: ignore[union-attr]
            "write", StoreSink.write
        )(sink, *given)
        self.following = Timed(made, place, joined, sink, spark=spark)
        return self.following

    def fill(self, customers: int | None = None) -> tuple[float, int]:
        """All rows of both tables; seconds until the view has them, and rows."""
        self._customers = self.size if customers is None else customers
        chance = np.random.default_rng(1).permutation(self.size) % self._customers
        rows = (
            (topic, {"id": n, "customer": int(chance[n]), "total": n * 1.5, "status": "open"})
            if topic == 0
            else (topic, {"customer": n, "name": f"name {n}", "city": f"city {n % 1000}"})
            for topic in (1, 0)
            for n in range(self.size if topic == 0 else self._customers)
        )
        self._produce(rows, "c")
        began = time.perf_counter()
        self.query.start()
        self.query.processAllAvailable()
        return time.perf_counter() - began, self.size + self._customers

    def follow(self, changes: int, clock: Clock) -> tuple[float, float]:
        """Seconds for batches with so many changed rows in all, and those of CPU once they are in the log."""
        assert self.following is not None
        self.following.clock = clock
        before = len(self._reports())
        self._produce(self._changed(changes), "u")
        spent = cpu_s(os.getpid())
        self.query.processAllAvailable()
        spent = cpu_s(os.getpid()) - spent
        told = self._reports()[before:]
        assert sum(each["numInputRows"] for each in told) >= changes, told
        return sum(each["durationMs"]["triggerExecution"] for each in told) / 1000, spent

    def _reports(self) -> list[dict[str, Any]]:
        found = (json.loads(each.json) for each in self.query.recentProgress)
        return [each for each in found if each["numInputRows"]]

    def _changed(self, changes: int) -> Iterator[tuple[int, dict[str, Any]]]:
        self._moves += 1
        turn = self._moves
        for n in random.Random(turn).sample(range(self.size), min(changes // 2, self.size)):
            order = {"id": n, "customer": (n * 7 + turn) % self._customers}
            yield 0, order | {"total": n + turn, "status": f"at {turn}"}
            who = n % self._customers
            yield 1, {"customer": who, "name": f"name {who}", "city": f"city {turn}"}

    def _produce(self, rows: Iterable[tuple[int, dict[str, Any]]], op: str) -> None:
        """In one transaction, so that a view sees all changes at once."""
        own = {
            "bootstrap.servers": self.bootstrap,
            "linger.ms": 50,
            "transactional.id": "bench",
            "transaction.timeout.ms": 600_000,
            "queue.buffering.max.messages": 1_000_000,
        }
        producer = Producer(own)
        producer.init_transactions()
        producer.begin_transaction()
        for topic, row in rows:
            key = orjson.dumps({("id", "customer")[topic]: next(iter(row.values()))})
            value = orjson.dumps({"before": None, "after": row, "op": op, "ts_ms": 1})
            while True:
                try:
                    producer.produce(self.names[topic], key=key, value=value)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.commit_transaction()

    def close(self) -> None:
        self.query.stop()


def columns_of(ddl: str) -> StructType:
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found


def _create(bootstrap: str, names: tuple[str, ...]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        made.result(30)


def measured(bench: Bench, changes: int, batches: int) -> dict[str, float]:
    """The median batch of several, after one that warms up."""
    bench.follow(changes, Clock())
    found = []
    for _ in range(batches):
        clock = Clock()
        seconds, spent = bench.follow(changes, clock)
        figures = {"seconds": seconds, "cpu_s": spent}
        for stage in STAGES:
            figures |= {stage: clock.seconds[stage], f"{stage}_cpu_s": clock.cpu_s[stage]}
        figures["rest"] = seconds - sum(clock.seconds.values())
        figures["rest_cpu_s"] = spent - sum(clock.cpu_s.values())
        found.append(figures)
    return sorted(found, key=lambda each: each["seconds"])[len(found) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--changes", type=int, default=BATCH)
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--to", default="duckdb")
    given = parser.parse_args()
    spark = session("local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as root, headwater.testing.broker() as broker:
        print(f"{'rows in each':>12} {'changed':>8} {'seconds':>8} {'rows/s':>8}  of which")
        for size in map(int, given.sizes.split(",")):
            folder = Path(root) / str(size)
            folder.mkdir()
            bench = Bench(spark, broker.bootstrap, size, f"{given.to}:{folder / 'view'}", folder)
            seconds, rows = bench.fill()
            print(f"{size:>12} {rows:>8} {seconds:>8.2f} {rows / seconds:>8.0f}  first load")
            for changes in (given.few, min(given.changes, size)):
                found = measured(bench, changes, given.batches)
                stages = ", ".join(
                    f"{n} {found[n]:.2f} ({found[f'{n}_cpu_s']:.2f})" for n in (*STAGES, "rest")
                )
                rate = changes / found["seconds"]
                print(
                    f"{size:>12} {changes:>8} {found['seconds']:>8.2f} {rate:>8.0f}  {stages}; "
                    f"CPU {found['cpu_s']:.2f}",
                    flush=True,
                )
            bench.close()
    spark.stop()


if __name__ == "__main__":
    main()
