"""The Spark session of the tests, and what they do with streams and topics; also used by `driver`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from headwater.pipelines.spark_home import compiled_pyspark
from headwater.spark.datasource import HeadwaterDataSource
from tests.spark.quick import QUICK_JAVA


def session(master: str = "local[2]", more: Mapping[str, str] | None = None) -> SparkSession:
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
    )
    for name, value in (more or {}).items():
        builder = builder.config(name, value)
    with compiled_pyspark():
        found = builder.getOrCreate()
    found.dataSource.register(HeadwaterDataSource)
    return found


def numbers(spark: SparkSession, rows_per_batch: int, tasks: int = 2) -> DataFrame:
    """Key and value 0, 1, 2, …: the same rows in the same tasks whenever a batch is replayed."""
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows_per_batch)
        .option("numPartitions", tasks)
        .load()
        .selectExpr("cast(value % 100 as string) key", "cast(value as string) value")
    )


def copied(spark: SparkSession, bootstrap: str, topic: str, rows_per_batch: int) -> DataFrame:
    """The rows of a topic, a few in each batch."""
    return (
        spark.readStream.format("headwater")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
        .select("key", "value")
    )


def fill(bootstrap: str, topic: str, count: int) -> None:
    """Numbered rows with a hundred keys, where the sink would put them as well."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number in range(count):
        producer.produce(topic, key=b"%d" % (number % 100), value=b"%d" % number)
    assert producer.flush(30) == 0


def start(rows: DataFrame, bootstrap: str, checkpoint: str, **options: str) -> StreamingQuery:
    writing = (
        rows.writeStream.format("headwater")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("checkpointLocation", checkpoint)
    )
    return writing.options(**options).start()


def run_batches(query: StreamingQuery, last: int, timeout_s: float = 60.0) -> None:
    """Until batch `last` is in the checkpoint; then stop."""
    from tests.compat.waiting import until

    def is_there() -> bool:
        error = query.exception()
        if error is not None:
            raise error
        progress = query.lastProgress
        return progress is not None and progress.batchId >= last

    try:
        until(is_there, f"batch {last}", timeout=timeout_s)
    finally:
        query.stop()


def committed(bootstrap: str, topic: str) -> dict[int, list[Any]]:
    """All messages that a reader of committed data gets, by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": "false",
            "isolation.level": "read_committed",
            "enable.partition.eof": "true",
            "fetch.wait.max.ms": "20",
            "auto.offset.reset": "earliest",
        }
    )
    found: dict[int, list[Any]] = {}
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        found = {each: [] for each in partitions}
        ended: set[int] = set()
        while len(ended) < len(partitions):
            for message in consumer.consume(1000, timeout=0.05):
                if message.error():
                    ended.add(message.partition())
                else:
                    found[message.partition()].append(message)
    finally:
        consumer.close()
    return found
