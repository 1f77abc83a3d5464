"""The source in a Spark session, found by Spark itself; the essential things against both servers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.compat.cluster import Cluster
from tests.compat.waiting import until
from tests.spark.source.reading import numbers, produce
from tests.spark.source.test_positions import delete

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def load(spark: SparkSession, cluster: Cluster, streaming: bool = False, **given: str) -> DataFrame:
    reader: Any = spark.readStream if streaming else spark.read
    reader = reader.format("headwater").option("kafka.bootstrap.servers", cluster.bootstrap)
    found: DataFrame = reader.options(**given).load()
    return found


class Sink:
    """Collects what a stream delivers, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []

    def __call__(self, rows: DataFrame, number: int) -> None:
        self.batches.append(sorted(bytes(row.value) for row in rows.select("value").collect()))

    @property
    def values(self) -> list[bytes]:
        return sorted(value for batch in self.batches for value in batch)


def start(rows: DataFrame, sink: Sink, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    writing = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return (writing.trigger(**trigger) if trigger else writing).start()


def test_a_batch_query_is_found_planned_and_read(
    spark: SparkSession, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, 2)
    records = [
        {"key": b"k%d" % (n % 3), "value": v, "headers": [("n", b"%d" % n)]}
        for n, v in enumerate(numbers(100))
    ]
    produce(cluster.bootstrap, topic, records)
    rows = load(spark, cluster, subscribe=topic, includeHeaders="true")
    assert rows.columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
    ]
    found = rows.selectExpr(
        "cast(key as string) key",
        "cast(value as string) value",
        "cast(headers[0].value as string) n",
    ).collect()
    assert sorted((r.key, r.value, r.n) for r in found) == sorted(
        (f"k{n % 3}", f"{n:06d}", str(n)) for n in range(100)
    )
    # The same through Spark's own aggregation, with its own idea of types.
    assert rows.groupBy("key").count().count() == 3
    assert rows.selectExpr("max(offset) - min(offset)").first() is not None


def test_a_stream_goes_on_where_its_checkpoint_ends(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(topic, 2)
    sink = Sink()
    given = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    rows = load(spark, cluster, streaming=True, **given)
    for number in range(2):
        produce(cluster.bootstrap, topic, numbers(60, number * 60))
        query = start(rows, sink, tmp_path / "checkpoint", availableNow=True)
        assert query.awaitTermination(60)
    assert sink.values == numbers(120)
    assert len(sink.batches) >= 4
    (source,) = query.lastProgress["sources"]
    ends = (
        json.loads(source["endOffset"])
        if isinstance(source["endOffset"], str)
        else source["endOffset"]
    )
    assert sum(ends[topic].values()) == 120


def test_partitions_that_are_added_while_the_query_runs_are_read(
    spark: SparkSession, log: Cluster, topic: str, tmp_path: Path
) -> None:
    log.create_topic(topic)
    sink = Sink()
    rows = load(spark, log, streaming=True, subscribe=topic, startingOffsets="earliest")
    query = start(rows, sink, tmp_path / "checkpoint")
    try:
        produce(log.bootstrap, topic, numbers(5))
        until(lambda: len(sink.values) == 5, "the first records")
        log.grow_topic(topic, 3)
        produce(log.bootstrap, topic, [{"value": v, "partition": 2} for v in numbers(5, 5)])
        until(lambda: len(sink.values) == 10, "the records of the new partition")
    finally:
        query.stop()
    assert sink.values == numbers(10)


def test_a_topic_that_is_made_again_ends_the_query_with_a_sentence(
    spark: SparkSession, log: Cluster, topic: str, tmp_path: Path
) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, numbers(5))
    sink = Sink()
    rows = load(spark, log, streaming=True, subscribe=topic, startingOffsets="earliest")
    query = start(rows, sink, tmp_path / "checkpoint")
    until(lambda: len(sink.values) == 5, "the first records")
    delete(log, topic)
    log.create_topic(topic)
    with pytest.raises(StreamingQueryException, match=r"made again|is gone"):
        query.awaitTermination(60)


def test_an_unknown_topic_and_a_wrong_option_end_with_a_sentence(
    spark: SparkSession, log: Cluster
) -> None:
    with pytest.raises(AnalysisException, match="There is no topic 'never-made'"):
        load(spark, log, subscribe="never-made").count()
    with pytest.raises(AnalysisException, match="Did you mean subscribe"):
        load(spark, log, subscribes="x")


def test_filters_are_pushed_down_where_the_session_allows_it(
    spark: SparkSession, log: Cluster, topic: str
) -> None:
    log.create_topic(topic, 2)
    base = int(time.time()) - 1000
    for partition in (0, 1):
        records = [
            {"value": v, "partition": partition, "timestamp": (base + n) * 1000}
            for n, v in enumerate(numbers(50))
        ]
        produce(log.bootstrap, topic, records)
    conditions = {
        "partition = 1 and offset between 3 and 5": 3,
        f"timestamp >= timestamp_seconds({base + 45})": 10,
        f"timestamp < timestamp_seconds({base + 5}) and partition = 0": 5,
        "offset in (1, 2) and topic is not null": 4,
        "topic = 'another'": 0,
        "value = cast('000007' as binary) or offset = 9": 4,
    }
    spark.conf.set(PUSHDOWN, "true")
    try:
        for condition, count in conditions.items():
            rows = load(spark, log, subscribe=topic, pushFilters="true").filter(condition)
            assert rows.count() == count
            plan = rows._jdf.queryExecution().executedPlan().toString()
            assert (") Filter " in plan) is (" or " in condition or " in " in condition)
        # A DataFrame that is used again: Spark would apply the last filter to what has none.
        rows = load(spark, log, subscribe=topic)
        assert rows.filter("offset < 5").count() == 10
        assert rows.count() == 100
        trap = load(spark, log, subscribe=topic, pushFilters="true")
        assert trap.filter("offset < 5").count() == 10
        assert trap.count() == 10, "Spark has mended it: pushFilters may be on by default"
    finally:
        spark.conf.unset(PUSHDOWN)
    rows = load(spark, log, subscribe=topic, pushFilters="true")
    assert {each: rows.filter(each).count() for each in conditions} == conditions


def test_typed_values_and_dead_letters_of_a_stream_that_is_replayed(
    spark: SparkSession, log: Cluster, topic: str, tmp_path: Path
) -> None:
    """The sink fails after the source has written its letters; the batch comes again."""
    log.create_topic(topic)
    produce(log.bootstrap, topic, [b'{"id": 1}', b'{"id": "x"}', b'{"id": 3}', None])
    rows = load(
        spark, log, streaming=True, subscribe=topic, startingOffsets="earliest", schema="id BIGINT"
    ).select("value.*", "offset")
    seen: list[list[Any]] = []

    def fail_once(batch: DataFrame, number: int) -> None:
        seen.append(sorted((row.id or 0, row.offset) for row in batch.collect()))
        if len(seen) == 1:
            raise RuntimeError("the sink is not there")

    def run() -> StreamingQuery:
        writing = rows.writeStream.foreachBatch(fail_once).trigger(availableNow=True)
        return writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    with pytest.raises(StreamingQueryException, match="the sink is not there"):
        run().awaitTermination(60)
    run().awaitTermination(60)
    assert seen == [[(0, 3), (1, 0), (3, 2)]] * 2
    assert load(spark, log, subscribe=f"{topic}.dead-letters").count() == 1


def test_fail_fast_ends_the_query(spark: SparkSession, log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, [b"nonsense"])
    rows = load(spark, log, subscribe=topic, schema="id BIGINT", mode="FAILFAST")
    with pytest.raises(PythonException, match="no JSON object"):
        rows.collect()


def test_projection_by_option_and_a_split_partition(
    spark: SparkSession, log: Cluster, new_name: Callable[[], str]
) -> None:
    topic = log.create_topic(new_name())
    produce(log.bootstrap, topic, numbers(100))
    rows = load(spark, log, subscribe=topic, columns="offset,value", minPartitions="4")
    assert rows.columns == ["offset", "value"]
    assert rows.rdd.getNumPartitions() == 4
    assert sorted(row.offset for row in rows.collect()) == list(range(100))
