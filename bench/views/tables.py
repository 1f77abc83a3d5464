"""How quickly a view over two tables follows them, and what a batch costs as the tables grow.

    python -m bench.views.tables [--sizes 10000,100000,1000000] [--changes 50000] [--to duckdb:PATH]

The view joins orders with customers, both of the given size, and each batch changes rows of both, spread
evenly. Changes are Debezium's envelopes in topics of a broker; a batch is read, decoded, brought into the
state, computed by Spark and written to a target, as in `headwater run`.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS = "id BIGINT, customer BIGINT, total DOUBLE, status STRING"
CUSTOMERS = "customer BIGINT, name STRING, city STRING"
STAGES = ("decode", "compute", "write")


def joined(_: SparkSession, frames: Mapping[int, DataFrame]) -> DataFrame:
    """The view's function."""
    from headwater.views.tables.planning import marked

    orders, customers = marked(frames[0], 0), marked(frames[1], 1)
    return orders.join(customers, "customer").select("id", "name", "city", "total", "status")


class Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def around(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*given)
            finally:
                self.seconds[stage] += time.perf_counter() - began

        return timed


class Bench:
    """One size of the tables: a state, a target, and batches of changes."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, size: int, to: str, folder: Path
    ) -> None:
        from pyspark.sql.types import StructType

        from headwater.views.applier import Applying
        from headwater.views.tables.decoding import Decoder, Table
        from headwater.views.tables.planning import empty_frames, plan
        from headwater.views.tables.upkeep import Upkeep
        from headwater.views.targets.contract import Shape
        from headwater.views.targets.registry import target_for

        self.spark, self.bootstrap, self.size, self.folder = spark, bootstrap, size, folder
        self.names = (f"orders-{size}", f"customers-{size}")
        _create(bootstrap, self.names)
        tables = [
            Table(self.names[0], StructType.fromDDL(ORDERS), ("id",)),
            Table(self.names[1], StructType.fromDDL(CUSTOMERS), ("customer",)),
        ]
        frame = joined(spark, empty_frames(spark, tables))
        self.plan = plan("joined", ("id",), frame, tables)
        self.upkeep = Upkeep(self.plan, folder / "state")
        self.decode = Decoder(tables)
        shape = Shape("joined", self.plan.result, ("id",))
        self.applying = Applying(target_for(to, shape), str(folder))
        self.batch = 0
        self.clock = Clock()
        self.query: Any = None

    def fill(self) -> float:
        """All rows of both tables as the first batch; rows per second."""
        ids = np.arange(self.size)
        orders = {"c0": ids, "c1": np.random.default_rng(1).permutation(ids), "c2": ids * 1.5}
        orders["c3"] = np.full(self.size, "open")
        customers = {"c0": ids, "c1": np.char.add("name ", ids.astype(str))}
        customers["c2"] = np.char.add("city ", (ids % 1000).astype(str))
        return self._apply(lambda: [_inserted(orders), _inserted(customers)], Clock(), self.spark)

    def start(self) -> None:
        """Follow the topics, as `headwater run` does."""
        from headwater.pipelines.query_settings import LOCAL

        records = (
            self.spark.readStream.format("headwater")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", ",".join(self.names))
            .option("startingOffsets", "earliest")
            .option("columns", "key,value,topic,partition,offset,timestamp")
            .load()
        )
        for name, value in LOCAL.items():
            self.spark.conf.set(name, value)
        place = str(self.folder / "checkpoint")
        self.query = (
            records.writeStream.foreachBatch(self._on_batch)
            .option("checkpointLocation", place)
            .start()
        )

    def _on_batch(self, records: DataFrame, _: int) -> None:
        spark = records.sparkSession
        self._apply(lambda: self.decode(records), self.clock, spark)

    def follow(self, changes: int, clock: Clock) -> float:
        """Seconds for a batch with so many changed rows, as Spark counts them."""
        self.clock, before = clock, self.batch
        self._produce(changes)
        deadline = time.monotonic() + 120
        while not (
            self.batch > before
            and (told := self.query.lastProgress) is not None
            and told["numInputRows"] >= changes
            and told["batchId"] >= before - 1
        ):
            assert self.query.isActive and time.monotonic() < deadline, self.query.exception()
            time.sleep(0.02)  # between two looks
        return float(told["durationMs"]["triggerExecution"]) / 1000

    def _apply(self, changes: Callable[[], Any], clock: Clock, spark: SparkSession) -> float:
        from headwater.client.position import Position
        from headwater.views.tables.following import with_deletes
        from headwater.views.tables.frames import computing

        number = self.batch

        def write(difference: Any) -> None:
            rows = with_deletes(difference, self.plan.result)
            self.applying.apply_rows(rows, number, Position({"x": {0: number}}), spark)

        compute = computing(spark, self.plan, joined, self.folder)
        began = time.perf_counter()
        self.upkeep.apply(
            number,
            clock.around("decode", changes),
            clock.around("compute", compute),
            clock.around("write", write),
        )
        self.batch += 1
        return time.perf_counter() - began

    def _produce(self, changes: int) -> None:
        from confluent_kafka import Producer

        own = {"bootstrap.servers": self.bootstrap, "linger.ms": 50, "transactional.id": "bench"}
        producer = Producer(own)
        producer.init_transactions()
        producer.begin_transaction()  # so that a batch sees all changes at once
        chosen = random.Random(self.batch).sample(range(self.size), min(changes // 2, self.size))
        for number in chosen:
            order = {"id": number, "customer": (number * 7 + self.batch) % self.size}
            order |= {"total": number + self.batch, "status": f"at {self.batch}"}
            customer = {"customer": number, "name": f"name {number}", "city": f"city {self.batch}"}
            for topic, row, key in ((0, order, "id"), (1, customer, "customer")):
                value = {"before": None, "after": row, "op": "u", "ts_ms": 1}
                while True:
                    with suppress(BufferError):
                        name = json.dumps({key: number})
                        producer.produce(self.names[topic], key=name, value=json.dumps(value))
                        break
                    producer.poll(0.1)
        producer.commit_transaction()


def _create(bootstrap: str, names: tuple[str, ...]) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        made.result(30)


def _inserted(columns: dict[str, Any]) -> pa.Table:
    count = len(columns["c0"])
    made = {name: pa.array(values) for name, values in columns.items()}
    no = pa.array(np.zeros(count, bool))
    places = {"p": pa.array(np.zeros(count, np.int32)), "o": pa.array(np.arange(count))}
    places["ts"] = places["o"]
    return pa.table(
        {**made, "gone": no, "emptied": no, "m0": pa.nulls(count, pa.int64()), **places}
    )


def measured(bench: Bench, changes: int, batches: int) -> dict[str, Any]:
    """The median batch of several, after one that warms up."""
    bench.follow(changes, Clock())
    found = []
    for _ in range(batches):
        clock = Clock()
        total = bench.follow(changes, clock)
        stages = {**clock.seconds, "rest": total - sum(clock.seconds.values())}
        found.append({"changed": changes, "seconds": total, **stages})
    return sorted(found, key=lambda each: each["seconds"])[len(found) // 2]


def main() -> None:
    import headwater.testing
    from headwater.pipelines.session import session

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--changes", type=int, default=50_000)
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
            seconds = bench.fill()
            print(
                f"{size:>12} {2 * size:>8} {seconds:>8.2f} {2 * size / seconds:>8.0f}  first load"
            )
            bench.start()
            for changes in (given.few, min(given.changes, size)):
                found = measured(bench, changes, given.batches)
                stages = ", ".join(f"{n} {found[n]:.2f}" for n in (*STAGES, "rest"))
                rate = changes / found["seconds"]
                print(
                    f"{size:>12} {changes:>8} {found['seconds']:>8.2f} {rate:>8.0f}  {stages}",
                    flush=True,
                )
            bench.query.stop()
            bench.upkeep.close()
    spark.stop()


if __name__ == "__main__":
    main()
