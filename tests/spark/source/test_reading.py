"""Batch reading, against headwater and Apache Kafka alike, in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headwater.client.errors import BadOption, DataLoss, UnknownTopic
from headwater.spark.source.batch import BatchReader
from tests.compat.cluster import Cluster
from tests.compat.waiting import until
from tests.spark.source.reading import numbers, options, produce, read, schema, values


def test_a_topic_is_read_whole_with_all_its_columns(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    at = int(time.time() * 1000)
    records = [
        {"value": b"a", "key": b"k", "partition": 1, "timestamp": at, "headers": [("h", b"1")]},
        {"value": None, "key": None, "partition": 1, "timestamp": at + 1},
    ]
    produce(cluster.bootstrap, topic, records)
    rows = read(cluster.bootstrap, subscribe=topic, includeHeaders="true").to_pylist()
    times = [row.pop("timestamp").timestamp() for row in rows]
    assert times == [pytest.approx(at / 1000), pytest.approx((at + 1) / 1000)]
    common = {"topic": topic, "partition": 1, "timestampType": 0}
    assert rows == [
        {
            "key": b"k",
            "value": b"a",
            "offset": 0,
            "headers": [{"key": "h", "value": b"1"}],
            **common,
        },
        {"key": None, "value": None, "offset": 1, "headers": None, **common},
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_from_files_and_over_the_network(
    cluster: Cluster, topic: str, codec: str
) -> None:
    cluster.create_topic(topic)
    settings = {"compression.type": codec, "linger.ms": 50}
    produce(cluster.bootstrap, topic, numbers(2000), **settings)
    for files in ("true", "false"):
        assert values(cluster.bootstrap, subscribe=topic, files=files) == numbers(2000)


def test_the_time_of_appending_is_honoured(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, message_timestamp_type="LogAppendTime")
    before = time.time() - 1
    produce(cluster.bootstrap, topic, [{"value": b"a", "timestamp": 1_000_000_000_000}])
    (row,) = read(cluster.bootstrap, subscribe=topic).to_pylist()
    assert row["timestampType"] == 1
    assert before < row["timestamp"].timestamp() < time.time() + 1


def test_topics_are_chosen_by_list_pattern_and_assignment(
    log: Cluster, new_name: Callable[[], str]
) -> None:
    stem = new_name()
    for name in ("a", "b", "xb"):
        log.create_topic(f"{stem}-{name}", 2)
        produce(
            log.bootstrap,
            f"{stem}-{name}",
            [{"value": f"{name}{n}", "partition": n} for n in (0, 1)],
        )
    both = f"{stem}-a,{stem}-b"
    assert values(log.bootstrap, subscribe=both) == [b"a0", b"a1", b"b0", b"b1"]
    assert values(log.bootstrap, subscribePattern=f"{stem}-[ab]") == [b"a0", b"a1", b"b0", b"b1"]
    chosen = json.dumps({f"{stem}-a": [1], f"{stem}-xb": [0]})
    assert values(log.bootstrap, assign=chosen) == [b"a1", b"xb0"]


def test_a_range_is_read_by_offsets(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    for partition in (0, 1):
        produce(
            cluster.bootstrap, topic, [{"value": v, "partition": partition} for v in numbers(10)]
        )
    start = json.dumps({topic: {"0": 3, "1": -2}})
    end = json.dumps({topic: {"0": 5, "1": -1}})
    found = read(cluster.bootstrap, subscribe=topic, startingOffsets=start, endingOffsets=end)
    assert found.select(["partition", "offset"]).to_pylist() == [
        *({"partition": 0, "offset": n} for n in (3, 4)),
        *({"partition": 1, "offset": n} for n in range(10)),
    ]


def test_a_range_is_read_by_time(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    base = int(time.time() * 1000) - 100_000
    produce(
        cluster.bootstrap,
        topic,
        [{"value": v, "timestamp": base + n * 1000} for n, v in enumerate(numbers(20))],
    )
    found = values(
        cluster.bootstrap,
        subscribe=topic,
        startingTimestamp=str(base + 4500),
        endingTimestamp=str(base + 9000),
    )
    assert found == numbers(20)[5:9]
    by_partition = json.dumps({topic: {"0": base + 18_000}})
    assert (
        values(cluster.bootstrap, subscribe=topic, startingOffsetsByTimestamp=by_partition)
        == numbers(20)[18:]
    )
    late = str(base + 1_000_000)
    with pytest.raises(BadOption, match="no record at or after"):
        read(cluster.bootstrap, subscribe=topic, startingTimestamp=late)
    latest = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert read(cluster.bootstrap, subscribe=topic, **latest).num_rows == 0


def test_aborted_transactions_are_left_out_under_read_committed(
    cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, segment_bytes="1048576")
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(30)
    wanted = []
    for number in range(6):
        producer.begin_transaction()
        mine = [b"%d-%03d" % (number, n) + b"x" * 1000 for n in range(400)]
        for value in mine:
            producer.produce(topic, value)
        if number % 2:
            producer.commit_transaction(30)
            wanted += mine
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    committed = {"subscribe": topic, "isolation_level": "read_committed"}
    # Apache Kafka answers before the last marker is in the partition.
    until(lambda: len(values(cluster.bootstrap, **committed)) == len(wanted), "the last marker")
    for files in ("true", "false"):
        settings = {"subscribe": topic, "files": files}
        assert values(cluster.bootstrap, isolation_level="read_committed", **settings) == wanted
        assert len(values(cluster.bootstrap, **settings)) == 2400
    split = {"subscribe": topic, "isolation_level": "read_committed", "minPartitions": "7"}
    assert values(cluster.bootstrap, **split) == wanted


def test_an_open_transaction_is_not_read_under_read_committed(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, [b"before"])
    producer = Producer(
        {"bootstrap.servers": log.bootstrap, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    assert values(log.bootstrap, subscribe=topic, isolation_level="read_committed") == [b"before"]
    assert values(log.bootstrap, subscribe=topic) == [b"before", b"open"]
    producer.abort_transaction(30)


def test_a_partition_with_much_to_read_is_split_over_tasks(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, numbers(1000))
    for given, count in (
        ({"maxRecordsPerPartition": "300"}, 4),
        ({"minPartitions": "7"}, 7),
        ({}, 1),
    ):
        found = options(log.bootstrap, subscribe=topic, **given)
        reader = BatchReader(found, schema(found))
        tasks = reader.partitions()
        assert len(tasks) == count
        rows = [b for each in tasks for b in reader.read(each)]
        assert pa.Table.from_batches(rows).column("value").to_pylist() == numbers(1000)


def test_gaps_that_compaction_left_are_gaps_and_nothing_else(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(
        topic,
        cleanup_policy="compact",
        segment_ms="200",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="200",
    )
    records = [{"key": b"%d" % (n % 5), "value": b"%06d" % n} for n in range(500)]
    produce(cluster.bootstrap, topic, records)
    deadline = time.monotonic() + 100
    while len(values(cluster.bootstrap, subscribe=topic, files="false")) > 20:
        assert time.monotonic() < deadline, "the log was not compacted"
        produce(cluster.bootstrap, topic, [{"key": b"last", "value": b"999999"}])
        time.sleep(0.3)  # compaction looks at closed segments, which close by time
    for files in ("true", "false"):
        rows = read(cluster.bootstrap, subscribe=topic, files=files).to_pylist()
        kept = {row["value"]: row["offset"] for row in rows if row["key"] != b"last"}
        assert kept == {b"%06d" % n: n for n in range(495, 500)}


def test_an_empty_topic_gives_no_rows(log: Cluster, topic: str) -> None:
    log.create_topic(topic, 3)
    assert read(log.bootstrap, subscribe=topic).num_rows == 0


# ---- bad input -----------------------------------------------------------------------------------


def test_an_unknown_topic_is_an_error_that_names_it(cluster: Cluster) -> None:
    with pytest.raises(UnknownTopic, match="no topic 'never-made'"):
        read(cluster.bootstrap, subscribe="never-made")


def test_an_unknown_partition_is_an_error_that_names_it(log: Cluster, topic: str) -> None:
    log.create_topic(topic, 2)
    with pytest.raises(UnknownTopic, match="no partition 2"):
        read(log.bootstrap, assign=json.dumps({topic: [0, 2]}))


def test_a_pattern_that_matches_nothing_reads_nothing(log: Cluster, topic: str) -> None:
    assert read(log.bootstrap, subscribePattern=topic).num_rows == 0


def test_offsets_out_of_range_are_an_error_or_what_there_is(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    produce(cluster.bootstrap, topic, numbers(10))
    for given in (
        {"startingOffsets": json.dumps({topic: {"0": 50}})},
        {"endingOffsets": json.dumps({topic: {"0": 50}})},
    ):
        with pytest.raises(DataLoss, match="holds offsets 0 to 10"):
            read(cluster.bootstrap, subscribe=topic, **given)
    lenient = {"endingOffsets": json.dumps({topic: {"0": 50}}), "failOnDataLoss": "false"}
    assert values(cluster.bootstrap, subscribe=topic, **lenient) == numbers(10)


def test_offsets_that_do_not_name_every_partition_are_refused(log: Cluster, topic: str) -> None:
    log.create_topic(topic, 2)
    with pytest.raises(BadOption, match=f"does not name partition {topic}-1"):
        read(log.bootstrap, subscribe=topic, startingOffsets=json.dumps({topic: {"0": 0}}))
    every = json.dumps({topic: {"0": 0, "1": 0, "2": 0}})
    with pytest.raises(BadOption, match=f"partition {topic}-2"):
        read(log.bootstrap, subscribe=topic, startingOffsets=every)


@pytest.mark.parametrize("files", ["false", "true"])
def test_records_that_retention_took_before_the_task_ran_are_an_error_or_a_gap(
    cluster: Cluster, topic: str, files: str
) -> None:
    if files == "true" and cluster.target != "headwater":
        pytest.skip("Apache Kafka's folder does not say at once where the log begins")
    cluster.create_topic(topic)
    produce(cluster.bootstrap, topic, numbers(100))
    readers = []
    for strict in ("true", "false"):
        found = options(cluster.bootstrap, subscribe=topic, failOnDataLoss=strict, files=files)
        reader = BatchReader(found, schema(found))
        readers.append((reader, reader.partitions()[0]))
    with cluster.wire() as wire:
        gone = {"name": topic, "partitions": [{"partition_index": 0, "offset": 40}]}
        wire.ask("delete_records", 2, topics=[gone], timeout=9000)
    (strict_reader, planned), (lenient, same) = readers
    with pytest.raises(DataLoss, match="begins at 40"):
        list(strict_reader.read(planned))
    rows = [row for b in lenient.read(same) for row in b.column("offset").to_pylist()]
    assert rows == list(range(40, 100))
