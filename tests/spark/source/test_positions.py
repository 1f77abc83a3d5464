"""Streams, step by step in this process: positions, limits, new and lost partitions, replays."""

from __future__ import annotations

import json
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from headwater.client.errors import BadOption, DataLoss
from headwater.spark.source.stream import StreamReader
from tests.compat.cluster import Cluster
from tests.spark.source.reading import between, numbers, produce, step, stream


def delete(cluster: Cluster, topic: str) -> None:
    with cluster.wire() as wire:
        wire.ask("delete_topics", 5, topic_names=[topic], timeout=9000)
    cluster.created.remove(topic)


def test_a_stream_begins_at_the_end_unless_told_otherwise(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, [b"old"])
    reader = stream(log.bootstrap, subscribe=topic, startingOffsets="latest")
    start = reader.initialOffset()
    produce(log.bootstrap, topic, [b"new"])
    assert step(reader, start)[1] == [b"new"]


def test_batches_follow_each_other_without_gap_or_overlap(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    reader = stream(cluster.bootstrap, subscribe=topic)
    position = reader.initialOffset()
    found: list[Any] = []
    for number in range(4):
        produce(cluster.bootstrap, topic, numbers(50, number * 50))
        position, more = step(reader, position)
        found += more
    assert sorted(found) == numbers(200)
    assert reader.latestOffset(position, ReadAllAvailable()) == position  # nothing new: no batch


def test_max_offsets_per_trigger_is_shared_out(log: Cluster, topic: str) -> None:
    log.create_topic(topic, 2)
    for partition, count in ((0, 300), (1, 100)):
        produce(
            log.bootstrap, topic, [{"value": v, "partition": partition} for v in numbers(count)]
        )
    reader = stream(log.bootstrap, subscribe=topic, maxOffsetsPerTrigger="100")
    assert reader.getDefaultReadLimit() == ReadMaxRows(100)
    start = reader.initialOffset()
    end, found = step(reader, start, ReadMaxRows(100))
    assert end[topic] == {"0": 75, "1": 25}
    assert len(found) == 100
    # The engine may ask for everything, whatever the option says.
    assert reader.latestOffset(start, ReadAllAvailable())[topic] == {"0": 300, "1": 100}


@pytest.mark.parametrize("share_by", ["time", "records"])
def test_uneven_partitions_reach_a_moment_together_where_they_share_by_time(
    log: Cluster, topic: str, share_by: str
) -> None:
    """Each of eight partitions has most of its records in another part of the time; 7 has none at first.

    0 ▇▇▇▇▁▁▁▁▁▁▁▁
    …
    7       ▁▁▁▁▇▇
    """
    log.create_topic(topic, 8)
    begin = int(time.time() * 1000) - 3_600_000  # so that retention leaves them alone
    records = [
        {"value": b"%d" % n, "partition": n * 8 // 400 if n % 5 else n % 7, "timestamp": begin + n}
        for n in range(400)
    ]
    produce(log.bootstrap, topic, records)
    reader = stream(log.bootstrap, subscribe=topic, maxOffsetsPerTrigger="50", shareBy=share_by)
    limit, position = reader.getDefaultReadLimit(), reader.initialOffset()
    found: list[int] = []
    behind = batches = 0
    while len(found) < len(records):
        position, more = step(reader, position, limit)
        assert 1 <= len(more) <= 58
        behind = max([behind, *(max(found, default=0) - int(value) for value in more)])
        found += map(int, more)
        batches += 1
    assert sorted(found) == list(range(400))
    assert batches <= 16
    assert (behind == 0) is (share_by == "time")
    assert reader.latestOffset(position, limit) == position


def test_max_bytes_per_trigger_bounds_a_batch_of_large_records(log: Cluster, topic: str) -> None:
    log.create_topic(topic, 2)
    values = [f"{n:03}".encode() * 7000 for n in range(60)]
    for partition, mine in enumerate((values[:40], values[40:])):
        produce(log.bootstrap, topic, [{"value": v, "partition": partition} for v in mine])
    reader = stream(log.bootstrap, subscribe=topic, maxBytesPerTrigger="210000")
    limit, position = reader.getDefaultReadLimit(), reader.initialOffset()
    found: list[Any] = []
    while len(found) < len(values):
        position, more = step(reader, position, limit)
        assert 1 <= len(more) <= 12, "ten of 21,000 bytes, about"
        found += more
    assert sorted(found) == values
    assert reader.latestOffset(position, limit) == position


def test_min_offsets_per_trigger_waits_for_enough_or_for_long_enough(
    log: Cluster, topic: str
) -> None:
    log.create_topic(topic)
    reader = stream(
        log.bootstrap, subscribe=topic, minOffsetsPerTrigger="100", maxTriggerDelay="1h"
    )
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(100)
    start = reader.initialOffset()
    produce(log.bootstrap, topic, numbers(99))
    assert reader.latestOffset(start, limit) == start
    hasty = stream(
        log.bootstrap, subscribe=topic, minOffsetsPerTrigger="100", maxTriggerDelay="0ms"
    )
    assert hasty.latestOffset(start, limit)[topic] == {"0": 99}
    produce(log.bootstrap, topic, [b"the hundredth"])
    assert reader.latestOffset(start, limit)[topic] == {"0": 100}
    with pytest.raises(BadOption, match="more than maxOffsetsPerTrigger"):
        stream(log.bootstrap, subscribe=topic, minOffsetsPerTrigger="2", maxOffsetsPerTrigger="1")


def test_a_second_look_that_finds_nothing_waits_for_a_record(log: Cluster, topic: str) -> None:
    """
    batch ──▶ look: nothing, at once ──▶ look: waits … a record ──▶ its offset
    """
    log.create_topic(topic)
    produce(log.bootstrap, topic, numbers(3))
    reader = stream(log.bootstrap, subscribe=topic, waitForRecords="true")
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert reader.latestOffset(end, limit) == end
    with ThreadPoolExecutor(1) as waiting:
        second = waiting.submit(reader.latestOffset, end, limit)
        produce(log.bootstrap, topic, [b"new"])
        found = second.result(30)
    if found == end:  # the record came after its time was up
        found = reader.latestOffset(end, limit)
    assert found[topic] == {"0": 4}
    assert isinstance(pickle.loads(pickle.dumps(reader)), StreamReader)


def test_available_now_stops_at_what_there_was(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, numbers(50))
    reader = stream(log.bootstrap, subscribe=topic, maxOffsetsPerTrigger="30")
    reader.prepareForTriggerAvailableNow()
    produce(log.bootstrap, topic, numbers(50, 50))
    log.grow_topic(topic, 2)
    position = reader.initialOffset()
    found: list[Any] = []
    while (end := reader.latestOffset(position, ReadMaxRows(30))) != position:
        found += between(reader, position, end)
        position = end
        assert len(found) <= 50
    assert found == numbers(50)


def test_partitions_that_are_added_are_read_from_their_beginning(
    cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    reader = stream(cluster.bootstrap, subscribe=topic)
    produce(cluster.bootstrap, topic, [b"first"])
    position, found = step(reader, reader.initialOffset())
    cluster.grow_topic(topic, 3)
    from tests.compat.waiting import until

    def produced() -> bool:
        try:
            produce(cluster.bootstrap, topic, [{"value": b"added", "partition": 2}])
        except Exception:
            return False  # the producer has not heard of the partition yet
        return True

    until(produced, "the new partition")
    end, more = step(reader, position)
    assert (found, more) == ([b"first"], [b"added"])
    assert end["#"]["new"] == {topic: {"1": 0, "2": 0}}


def test_a_replayed_batch_has_the_same_tasks_whatever_has_changed(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, numbers(100))
    before = stream(log.bootstrap, subscribe=topic, minPartitions="5")
    start = before.initialOffset()
    end = before.latestOffset(start, ReadAllAvailable())
    planned = [task.range for task in before.partitions(start, end)]
    assert len(planned) == 5
    # After the restart: other options, more records, more partitions; JSON from the checkpoint.
    produce(log.bootstrap, topic, numbers(100))
    log.grow_topic(topic, 4)
    after = stream(log.bootstrap, subscribe=topic, maxRecordsPerPartition="3")
    again = after.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end)))
    assert [task.range for task in again] == planned
    assert between(after, start, end) == numbers(100)


def test_a_topic_that_was_deleted_and_made_again_is_noticed(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    produce(cluster.bootstrap, topic, numbers(10))
    reader = stream(cluster.bootstrap, subscribe=topic)
    start = reader.initialOffset()
    end, _ = step(reader, start)
    delete(cluster, topic)
    _made_again(cluster, topic)
    produce(cluster.bootstrap, topic, numbers(20, 100))
    with pytest.raises(DataLoss, match="deleted and made again"):
        reader.latestOffset(end, ReadAllAvailable())
    # A batch that was planned before, and is read now: the ids tell.
    with pytest.raises(DataLoss, match="deleted and made again"):
        between(reader, start, end)
    lenient = stream(cluster.bootstrap, subscribe=topic, failOnDataLoss="false")
    assert step(lenient, end)[1] == numbers(20, 100)


@pytest.mark.parametrize("committed", ["read_committed", "read_uncommitted"])
def test_a_log_that_ends_before_the_position_is_an_error_or_begun_anew(
    cluster: Cluster, topic: str, committed: str
) -> None:
    """As after a data folder that was lost, or cut: without ids nothing else tells."""
    cluster.create_topic(topic, 2)
    produce(cluster.bootstrap, topic, [{"value": b"%06d" % n, "partition": 0} for n in range(5)])
    how = {"subscribe": topic, "isolation_level": committed}
    position = {topic: {"0": 12, "1": 0}}
    strict = stream(cluster.bootstrap, **how)
    for limit in (ReadAllAvailable(), ReadMaxRows(3)):
        with pytest.raises(
            DataLoss, match=rf"(?s){topic}-0 ends at offset 5.* come to offset 12.*false"
        ):
            strict.latestOffset(position, limit)
    strict.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match="ends at offset 5"):
        strict.latestOffset(position, ReadAllAvailable())
    lenient = stream(cluster.bootstrap, failOnDataLoss="false", **how)
    reached, found = step(lenient, position)
    assert found == numbers(5)
    produce(
        cluster.bootstrap, topic, [{"value": b"%06d" % n, "partition": 0} for n in range(5, 20)]
    )
    assert step(lenient, reached)[1] == numbers(15, 5), "also what is below the lost position"
    assert step(stream(cluster.bootstrap, **how), reached)[1] == numbers(15, 5)


def test_a_range_that_is_gone_when_its_task_reads_it_is_an_error_or_left_out(
    log: Cluster, topic: str
) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, numbers(5))
    start, end = {topic: {"0": 3}}, {topic: {"0": 12}}
    how = {"subscribe": topic, "kafka_default_api_timeout_ms": "4000"}
    with pytest.raises(DataLoss, match="ends at offset 5"):
        between(stream(log.bootstrap, **how), start, end)
    lenient = stream(log.bootstrap, failOnDataLoss="false", **how)
    assert between(lenient, start, end) == numbers(2, 3)
    with pytest.raises(DataLoss, match="ends at offset"):
        between(stream(log.bootstrap, **how), {topic: {"0": 9}}, end)
    assert between(lenient, {topic: {"0": 9}}, end) == []


def test_an_open_transaction_is_no_loss(log: Cluster, topic: str) -> None:
    """A reader of committed data that began behind it waits, as it should."""
    log.create_topic(topic)
    producer = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": topic})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(60)
    reader = stream(log.bootstrap, subscribe=topic, isolation_level="read_committed")
    position = {topic: {"0": 1}}
    assert reader.latestOffset(position, ReadAllAvailable()) == position
    producer.abort_transaction(10)


def test_a_topic_that_was_deleted_is_an_error_or_left_out(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    other = log.create_topic(f"{topic}-other")
    both = f"{topic},{other}"
    produce(log.bootstrap, topic, numbers(10))
    position, _ = step(stream(log.bootstrap, subscribe=both), _initial(log, both))
    delete(log, topic)
    with pytest.raises(DataLoss, match="is gone: the topic was deleted"):
        step(stream(log.bootstrap, subscribe=both), position)
    produce(log.bootstrap, other, [b"on"])
    assert step(stream(log.bootstrap, subscribe=both, failOnDataLoss="false"), position)[1] == [
        b"on"
    ]


def test_new_topics_of_a_pattern_are_picked_up(log: Cluster, topic: str) -> None:
    log.create_topic(f"{topic}-1")
    reader = stream(log.bootstrap, subscribePattern=f"{topic}-.*", startingOffsets="latest")
    position = reader.initialOffset()
    log.create_topic(f"{topic}-2")
    produce(log.bootstrap, f"{topic}-2", numbers(3))
    assert step(reader, position)[1] == numbers(3)


def test_the_latest_offset_is_reported(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, numbers(7))
    reader = stream(log.bootstrap, subscribe=topic)
    found = reader.reportLatestOffset()
    assert found is not None and found[topic] == {"0": 7}


def test_options_of_batch_queries_are_refused(log: Cluster, topic: str) -> None:
    with pytest.raises(BadOption, match="a stream has no end"):
        stream(log.bootstrap, subscribe=topic, endingOffsets="latest")


def _initial(cluster: Cluster, topics: str) -> dict[str, Any]:
    return stream(cluster.bootstrap, subscribe=topics).initialOffset()


def _made_again(cluster: Cluster, topic: str) -> None:
    """Apache Kafka takes a moment to forget the old one."""
    from tests.compat.waiting import until

    def made() -> bool:
        try:
            cluster.create_topic(topic)
        except AssertionError:
            cluster.created.remove(topic)
            return False
        return True

    until(made, f"{topic} to be made again")
