"""`df.write` inside foreachBatch: as exactly once as the stream's own sink, by the same protocol."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.compat.cluster import Cluster
from tests.spark.sink.sessions import committed, numbers, run_batches

Function = Callable[[DataFrame, int], None]


def start(spark: SparkSession, function: Function, checkpoint: str) -> StreamingQuery:
    writing = numbers(spark, 100).writeStream.foreachBatch(function)
    return writing.option("checkpointLocation", checkpoint).start()


def save(rows: DataFrame, log: Cluster, topic: str, **options: str) -> None:
    writing = rows.write.format("headwater").mode("append").option("topic", topic)
    writing.option("kafka.bootstrap.servers", log.bootstrap).options(**options).save()


def values(log: Cluster, topic: str) -> list[int]:
    found = committed(log.bootstrap, topic)
    return sorted(int(each.value()) for of in found.values() for each in of)


def test_a_function_that_fails_after_its_write_has_written_once(
    log: Cluster, spark: SparkSession, checkpoint: str, new_name: Callable[[], str]
) -> None:
    first, second = log.create_topic(new_name(), 2), log.create_topic(new_name(), 2)

    def write_and_fail(rows: DataFrame, batch_id: int) -> None:
        save(rows, log, first)
        if batch_id == 1:
            raise RuntimeError("between two topics")
        save(rows, log, second)

    def write(rows: DataFrame, batch_id: int) -> None:
        save(rows, log, first)
        save(rows, log, second)

    with pytest.raises(StreamingQueryException, match="between two topics"):
        run_batches(start(spark, write_and_fail, checkpoint), 2)
    assert values(log, first) == list(range(200))
    assert values(log, second) == list(range(100))
    run_batches(start(spark, write, checkpoint), 2)
    for topic in (first, second):
        found = values(log, topic)
        assert len(found) >= 300 and found == list(range(len(found)))


def test_a_second_write_to_the_topic_is_refused_rather_than_taken_for_a_replay(
    log: Cluster, spark: SparkSession, checkpoint: str, new_name: Callable[[], str]
) -> None:
    topic = log.create_topic(new_name(), 2)

    def twice(rows: DataFrame, batch_id: int) -> None:
        save(rows, log, topic)
        save(rows, log, topic)

    def named(rows: DataFrame, batch_id: int) -> None:
        save(rows, log, topic)
        save(rows, log, topic, sink="again")

    with pytest.raises(StreamingQueryException, match="written to the topic in batch 0 already"):
        run_batches(start(spark, twice, checkpoint), 0)
    assert values(log, topic) == list(range(100)), "what was refused must not hold up readers"
    run_batches(start(spark, named, checkpoint), 0)
    assert values(log, topic)[:200] == sorted([*range(100), *range(100)])


def in_another_thread(rows: DataFrame, work: Callable[[], None]) -> None:
    """As docs/spark-sink.md tells people to: a thread without a session finds no source."""

    def settled() -> None:
        rows.sparkSession.createDataFrame([], "a INT")
        work()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(settled).result()


def test_a_write_from_another_thread_is_refused_unless_query_and_batch_are_named(
    log: Cluster, spark: SparkSession, checkpoint: str, new_name: Callable[[], str]
) -> None:
    topic = log.create_topic(new_name(), 2)

    def unnamed(rows: DataFrame, batch_id: int) -> None:
        in_another_thread(rows, lambda: save(rows, log, topic))

    with pytest.raises(StreamingQueryException, match=r"(?s)txnAppId.*txnVersion"):
        run_batches(start(spark, unnamed, checkpoint), 0)
    assert values(log, topic) == []


def test_a_named_write_from_another_thread_is_exactly_once(
    log: Cluster, spark: SparkSession, checkpoint: str, new_name: Callable[[], str]
) -> None:
    topic = log.create_topic(new_name(), 2)

    def write(rows: DataFrame, batch_id: int) -> None:
        names = {"txnAppId": f"copy to {topic}", "txnVersion": str(batch_id)}
        in_another_thread(rows, lambda: save(rows, log, topic, **names))

    def write_and_fail(rows: DataFrame, batch_id: int) -> None:
        write(rows, batch_id)
        if batch_id == 1:
            raise RuntimeError("after the write")

    with pytest.raises(StreamingQueryException, match="after the write"):
        run_batches(start(spark, write_and_fail, checkpoint), 2)
    run_batches(start(spark, write, checkpoint), 2)
    found = values(log, topic)
    assert len(found) >= 300 and found == list(range(len(found)))
