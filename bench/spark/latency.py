"""The micro-batch floor: from produce to sink, at a rate that is no load at all.

Values carry the time at which they were sent; the sink (foreachBatch, the same for both sources) takes
the time at which it has them. Spark starts the next batch when the last one is done.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from bench.spark.results import CONNECTOR, NETWORK, NETWORK_KAFKA, Results

PER_S = 200
WARM_UP_S = 6.0


def measure(
    spark: SparkSession, results: Results, brokers: tuple[str, str], seconds: float
) -> None:
    ours, theirs = brokers
    for source, bootstrap, name in (
        ("headwater", ours, NETWORK),
        ("headwater", theirs, NETWORK_KAFKA),
        ("kafka", theirs, CONNECTOR),
    ):
        found = _one(spark, source, bootstrap, seconds)
        print(
            f"  {name}: p50 {found['p50_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms, "
            f"{found['batches']:.0f} batches",
            flush=True,
        )
        results.add("micro-batch floor", name, found)


def _one(spark: SparkSession, source: str, bootstrap: str, seconds: float) -> dict[str, float]:
    topic = f"latency-{source}"
    taken: list[float] = []
    batches: list[int] = []
    until = threading.Event()
    began = time.perf_counter()

    def sink(rows: DataFrame, number: int) -> None:
        values = [bytes(row.value) for row in rows.select("value").collect()]
        now = time.time()
        if time.perf_counter() - began > WARM_UP_S and values:
            taken.extend(now - float(value) for value in values)
            batches.append(number)

    producing = threading.Thread(target=_produce, args=(bootstrap, topic, until))
    producing.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = (
                spark.readStream.format(source)
                .option("kafka.bootstrap.servers", bootstrap)
                .option("subscribe", topic)
                .option("startingOffsets", "latest")
                .options(**({"files": "false"} if source == "headwater" else {}))
                .load()
            )
            query = rows.writeStream.foreachBatch(sink)
            running = query.option("checkpointLocation", folder).start()
            running.awaitTermination(int(WARM_UP_S + seconds))
            running.stop()
    finally:
        until.set()
        producing.join()
    cuts = statistics.quantiles(taken, n=100)
    return {"p50_ms": cuts[49] * 1000, "p99_ms": cuts[98] * 1000, "batches": len(batches)}


def _produce(bootstrap: str, topic: str, until: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    while not until.wait(1 / PER_S):
        producer.produce(topic, repr(time.time()))
        producer.poll(0)
    producer.flush(10)
