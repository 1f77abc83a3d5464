"""`df.write` in a real session: what arrives, what a failed job leaves, what a user is told."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage

from headwater.client import cluster as connect
from headwater.client.errors import TransactionLost
from headwater.spark.sink import settings
from headwater.spark.sink.batch import BatchWriter
from tests.compat.cluster import Cluster
from tests.spark.sink.acting import COLUMNS
from tests.spark.sink.sessions import committed


def save(rows: DataFrame, log: Cluster, **options: str) -> None:
    writing = rows.write.format("headwater").mode("append").option("atLeastOnce", "true")
    writing.option("kafka.bootstrap.servers", log.bootstrap).options(**options).save()


def test_keys_headers_and_partitions_arrive_as_they_were(
    cluster: Cluster, spark: SparkSession, new_name: Callable[[], str]
) -> None:
    topic = cluster.create_topic(new_name(), 3)
    rows = spark.createDataFrame(
        [
            (topic, b"k", "v", 2, [("h", b"1"), ("h", None)]),
            (topic, None, None, 1, None),
            (topic, b"", "", 0, []),
        ],
        "topic string, key binary, value string, partition int, "
        "headers array<struct<key: string, value: binary>>",
    )
    save(rows, cluster)
    found = committed(cluster.bootstrap, topic)
    (first,), (second,), (third,) = found[2], found[1], found[0]
    assert (first.key(), first.value()) == (b"k", b"v")
    assert first.headers() == [("h", b"1"), ("h", None)]
    assert (second.key(), second.value(), second.headers()) == (None, None, None)
    assert (third.key(), third.value(), third.headers()) == (b"", b"", None)


def test_rows_go_to_the_topics_of_their_column(
    log: Cluster, spark: SparkSession, new_name: Callable[[], str]
) -> None:
    topics = [log.create_topic(new_name(), count) for count in (1, 4)]
    rows = spark.range(1000).selectExpr(
        f"if(id % 3 = 0, '{topics[0]}', '{topics[1]}') topic", "cast(id as string) value"
    )
    save(rows, log)
    for topic, wanted in zip(topics, (lambda n: n % 3 == 0, lambda n: n % 3 != 0), strict=True):
        found = [
            int(each.value()) for of in committed(log.bootstrap, topic).values() for each in of
        ]
        assert sorted(found) == [n for n in range(1000) if wanted(n)]


def test_a_large_part_goes_through_in_pieces(
    log: Cluster, spark: SparkSession, new_name: Callable[[], str]
) -> None:
    topic = log.create_topic(new_name(), 2)
    rows = spark.range(0, 40_000, 1, 1).selectExpr("repeat(cast(id % 10 as string), 1000) value")
    save(rows, log, topic=topic)
    found = committed(log.bootstrap, topic)
    assert sum(len(of) for of in found.values()) == 40_000
    assert {each.value() for of in found.values() for each in of} == {
        b"%d" % n * 1000 for n in range(10)
    }


def test_a_failed_job_leaves_nothing(
    log: Cluster, spark: SparkSession, new_name: Callable[[], str]
) -> None:
    topic = log.create_topic(new_name(), 2)
    rows = spark.range(0, 2000, 1, 4).selectExpr(
        "if(id = 1999, raise_error('the last row is bad'), cast(id as string)) value"
    )
    with pytest.raises(PySparkException, match="the last row is bad"):
        save(rows, log, topic=topic)
    assert committed(log.bootstrap, topic) == {0: [], 1: []}
    save(spark.range(3).selectExpr("cast(id as string) value"), log, topic=topic)
    assert sum(len(of) for of in committed(log.bootstrap, topic).values()) == 3


@pytest.mark.parametrize(
    ("select", "options", "sentence"),
    [
        ("id value", {"topic": "t"}, "'value' is bigint, and must be string or binary"),
        ("cast(id as string) value", {}, "Nobody says to which topic"),
        ("cast(id as string) value", {"topic": "t", "tpic": "x"}, "Did you mean topic"),
        ("'v' value, 9 partition", {"topic": "two"}, "partition 9 of topic 'two', which has 2"),
        ("'v' value, cast(null as string) topic", {}, "A row's topic is null"),
        ("'v' value, 'no/topic' topic", {}, "Topic 'no/topic' does not exist"),
        ("'v' value", {"topic": "t", "atLeastOnce": "false"}, "atLeastOnce.*txnAppId.*txnVersion"),
        ("'v' value", {"topic": "t", "txnAppId": "a"}, "txnAppId is given without txnVersion"),
        ("'v' value", {"topic": "t", "txnVersion": "1"}, "txnVersion is given without txnAppId"),
        ("'v' value", {"topic": "t", "txnAppId": "", "txnVersion": "1"}, "txnAppId is ''"),
    ],
)
def test_what_is_wrong_reaches_the_user(
    select: str, options: dict[str, str], sentence: str, log: Cluster, spark: SparkSession
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        save(spark.range(1).selectExpr(*select.split(", ")), log, **options)


def test_a_version_that_was_written_before_is_not_written_again(
    log: Cluster, spark: SparkSession, new_name: Callable[[], str]
) -> None:
    topic = log.create_topic(new_name(), 2)
    for version in (0, 0, 1, 1):
        rows = spark.range(version * 10, version * 10 + 10).selectExpr("cast(id as string) value")
        save(rows, log, topic=topic, txnAppId=f"nightly {topic}", txnVersion=str(version))
    found = [int(each.value()) for of in committed(log.bootstrap, topic).values() for each in of]
    assert sorted(found) == list(range(20))


def test_an_attempt_that_lost_holds_nobody_up(log: Cluster, new_name: Callable[[], str]) -> None:
    topic = log.create_topic(new_name(), 1)
    given = {"kafka.bootstrap.servers": log.bootstrap, "topic": topic, "atLeastOnce": "true"}
    writer = BatchWriter(settings.read(given), COLUMNS)
    first, _ = attempt(writer, 1), attempt(writer, 2)
    writer.commit([first])
    with pytest.raises(TransactionLost, match="without this attempt"):
        attempt(writer, 3)
    place = (topic, 0)
    cluster = connect.cluster(settings.read(given).client)
    end = cluster.list_offsets({place: connect.LATEST})
    assert cluster.list_offsets({place: connect.LATEST}, connect.READ_COMMITTED) == end
    assert [each.value() for each in committed(log.bootstrap, topic)[0]] == [b"v"]


def attempt(writer: BatchWriter, number: int) -> WriterCommitMessage:
    """An attempt of the job's one task."""
    context = TaskContext._getOrCreate()
    context._partitionId, context._taskAttemptId, context._localProperties = 0, number, {}
    try:
        return writer.write(iter([pa.record_batch([pa.array(["v"])], names=["value"])]))
    finally:
        TaskContext._setTaskContext(None)


def test_overwriting_a_topic_is_refused(log: Cluster, spark: SparkSession) -> None:
    writing = spark.range(1).selectExpr("'v' value").write.format("headwater").mode("overwrite")
    writing = writing.option("kafka.bootstrap.servers", log.bootstrap).option("topic", "t")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writing.save()
