"""confluent-kafka's consumer (librdkafka): positions, times, limits, errors."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import NewPartitions

from .cluster import Cluster
from .confluent import admin, consumer, poll_until, producer, send, take, take_error

HOUR_MS = 3_600_000


@pytest.fixture
def hundred(cluster: Cluster, topic: str) -> str:
    """A topic of one partition with the values 0 to 99."""
    cluster.create_topic(topic)
    send(producer(cluster), topic, [b"%d" % each for each in range(100)])
    return topic


def values(messages: list[Message]) -> list[int]:
    return [int(each.value()) for each in messages]


def test_watermarks_are_beginning_and_end(cluster: Cluster, hundred: str, group: str) -> None:
    with consumer(cluster, group) as reader:
        assert reader.get_watermark_offsets(TopicPartition(hundred, 0), 60) == (0, 100)


def test_offsets_for_times(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic, partitions=2)
    start = int(time.time() * 1000) - HOUR_MS
    writer = producer(cluster)
    for each in range(10):
        writer.produce(topic, b"%d" % each, partition=0, timestamp=start + each * 1000)
    writer.flush(60)

    with consumer(cluster, group) as reader:

        def at(when: int, partition: int = 0) -> int:
            asked = [TopicPartition(topic, partition, when)]
            return int(reader.offsets_for_times(asked, 5)[0].offset)

        assert at(start) == 0
        assert at(start + 1) == 1
        assert at(start + 4000) == 4
        assert at(start + 9001) == OFFSET_END
        assert at(start, partition=1) == OFFSET_END


def test_reading_from_a_time(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic)
    start = int(time.time() * 1000) - HOUR_MS
    writer = producer(cluster)
    for each in range(50):
        writer.produce(topic, b"%d" % each, timestamp=start + each * 1000)
    writer.flush(60)
    with consumer(cluster, group) as reader:
        reader.assign(reader.offsets_for_times([TopicPartition(topic, 0, start + 29_500)], 5))
        assert values(take(reader, 20)) == list(range(30, 50))


def test_without_a_commit_earliest_begins_at_the_beginning(
    cluster: Cluster, hundred: str, group: str
) -> None:
    with consumer(cluster, group, auto_offset_reset="earliest") as reader:
        reader.subscribe([hundred])
        assert take(reader, 1)[0].offset() == 0


def test_without_a_commit_latest_begins_at_the_end(
    cluster: Cluster, hundred: str, group: str
) -> None:
    with consumer(cluster, group, auto_offset_reset="latest") as reader:
        reader.subscribe([hundred])
        here = TopicPartition(hundred, 0)

        def has_fetched() -> bool:
            """The first fetch brings the watermarks; by then the position has been found."""
            marks = reader.get_watermark_offsets(here, cached=True)
            return bool(marks) and marks[1] == 100

        assert poll_until([reader], has_fetched, "a fetch position") == []
        send(producer(cluster), hundred, [b"100"])
        assert take(reader, 1)[0].offset() == 100


def test_reset_error_reports_that_there_is_no_offset(
    cluster: Cluster, hundred: str, group: str
) -> None:
    with consumer(cluster, group, auto_offset_reset="error") as reader:
        reader.subscribe([hundred])
        assert take_error(reader).code() == KafkaError._AUTO_OFFSET_RESET


def test_an_offset_that_was_deleted_is_out_of_range(
    cluster: Cluster, hundred: str, group: str
) -> None:
    client = admin(cluster)
    (deleted,) = client.delete_records([TopicPartition(hundred, 0, 40)]).values()
    assert deleted.result(60).low_watermark == 40
    with consumer(cluster, group, auto_offset_reset="error") as reader:
        assert reader.get_watermark_offsets(TopicPartition(hundred, 0), 60) == (40, 100)
        reader.assign([TopicPartition(hundred, 0, 10)])
        error = take_error(reader)
        assert error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
    with consumer(cluster, group, auto_offset_reset="earliest") as reader:
        reader.assign([TopicPartition(hundred, 0, 10)])
        assert values(take(reader, 60)) == list(range(40, 100))


def test_seek_goes_anywhere(cluster: Cluster, hundred: str, group: str) -> None:
    with consumer(cluster, group) as reader:
        reader.assign([TopicPartition(hundred, 0, 50)])
        assert values(take(reader, 3)) == [50, 51, 52]
        for offset, expected in ((10, 10), (90, 90), (OFFSET_BEGINNING, 0)):
            reader.seek(TopicPartition(hundred, 0, offset))
            assert values(take(reader, 1)) == [expected]


def test_assign_at_special_offsets(cluster: Cluster, hundred: str, group: str) -> None:
    with consumer(cluster, group) as reader:
        reader.commit(offsets=[TopicPartition(hundred, 0, 77)], asynchronous=False)
        last_three = -2000 - 3  # librdkafka's way to write it
        for offset, expected in ((OFFSET_BEGINNING, 0), (OFFSET_STORED, 77), (last_three, 97)):
            reader.assign([TopicPartition(hundred, 0, offset)])
            assert values(take(reader, 1)) == [expected]
            reader.unassign()


def test_position_follows_what_was_returned(cluster: Cluster, hundred: str, group: str) -> None:
    with consumer(cluster, group) as reader:
        here = [TopicPartition(hundred, 0)]
        reader.assign([TopicPartition(hundred, 0, 5)])
        assert reader.position(here)[0].offset == OFFSET_INVALID
        take(reader, 4)
        assert reader.position(here)[0].offset == 9


def test_a_paused_partition_is_silent_and_a_resumed_one_is_not(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    writer = producer(cluster)
    with consumer(cluster, group) as reader:
        reader.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
        reader.pause([TopicPartition(topic, 0)])
        send(writer, topic, [b"1"] * 5, partition=0)
        send(writer, topic, [b"2"] * 5, partition=1)
        assert {each.partition() for each in take(reader, 5)} == {1}
        assert reader.poll(0.3) is None
        reader.resume([TopicPartition(topic, 0)])
        assert {each.partition() for each in take(reader, 5)} == {0}


def test_the_end_of_a_partition_is_reported(cluster: Cluster, hundred: str, group: str) -> None:
    with consumer(cluster, group, enable_partition_eof=True) as reader:
        reader.assign([TopicPartition(hundred, 0, 98)])
        assert values(take(reader, 2)) == [98, 99]
        assert take_error(reader).code() == KafkaError._PARTITION_EOF


def test_a_topic_created_later_is_found(cluster: Cluster, topic: str, group: str) -> None:
    with consumer(cluster, group, allow_auto_create_topics=False) as reader:
        reader.subscribe([topic])
        assert take_error(reader).code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        cluster.create_topic(topic)
        send(producer(cluster), topic, [b"1"])
        found = poll_until([reader], reader.assignment, "the new topic")
        assert values(found or take(reader, 1)) == [1]


def test_a_consumer_creates_a_topic_only_when_told_so(
    cluster: Cluster, new_name: Callable[[], str], group: str
) -> None:
    wanted, unwanted = new_name(), new_name()
    client = admin(cluster)
    with consumer(cluster, group, allow_auto_create_topics=True) as reader:
        reader.assign([TopicPartition(wanted, 1)])
        send(producer(cluster, allow_auto_create_topics=False), wanted, [b"1"], partition=1)
        assert values(take(reader, 1)) == [1]
    with consumer(cluster, group, allow_auto_create_topics=False) as reader:
        reader.subscribe([unwanted])
        assert take_error(reader).code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    topics = client.list_topics(timeout=60).topics
    assert len(topics[wanted].partitions) == 2
    assert unwanted not in topics


def test_a_pattern_finds_topics_old_and_new(
    cluster: Cluster, new_name: Callable[[], str], group: str
) -> None:
    stem = new_name()
    cluster.create_topic(f"{stem}-one")
    cluster.create_topic(f"not-{stem}")
    with consumer(cluster, group) as reader:
        reader.subscribe([f"^{stem}-.*"])
        poll_until([reader], reader.assignment, "the first topic")
        assert {each.topic for each in reader.assignment()} == {f"{stem}-one"}
        cluster.create_topic(f"{stem}-two")
        poll_until([reader], lambda: len(reader.assignment()) == 2, "the second topic")


def test_fetch_min_bytes_makes_the_broker_wait(cluster: Cluster, hundred: str, group: str) -> None:
    options = {"fetch_min_bytes": 100_000, "fetch_wait_max_ms": 900}
    with consumer(cluster, group, **options) as reader:
        began = time.monotonic()
        reader.assign([TopicPartition(hundred, 0, 0)])
        assert len(take(reader, 100)) == 100
        assert time.monotonic() - began > 0.7


def test_small_fetches_read_everything(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic, partitions=3)
    writer = producer(cluster, batch_size=2000)
    for each in range(300):
        writer.produce(topic, b"%d" % each + b" " * 500, partition=each % 3)
    writer.flush(60)
    limits = {"fetch_max_bytes": 4000, "max_partition_fetch_bytes": 1000, "message_max_bytes": 3000}
    with consumer(cluster, group, **limits) as reader:
        reader.subscribe([topic])
        assert sorted(values(take(reader, 300))) == list(range(300))


def test_read_committed_reads_plain_records(cluster: Cluster, hundred: str, group: str) -> None:
    with consumer(cluster, group, isolation_level="read_committed") as reader:
        reader.subscribe([hundred])
        assert values(take(reader, 100)) == list(range(100))


def test_commit_and_committed_with_metadata(cluster: Cluster, hundred: str, group: str) -> None:
    with consumer(cluster, group) as reader:
        here = TopicPartition(hundred, 0)
        assert reader.committed([here], 60)[0].offset == OFFSET_INVALID
        offset = TopicPartition(hundred, 0, 33, metadata="a note")
        reader.commit(offsets=[offset], asynchronous=False)
        (found,) = reader.committed([here], 60)
        assert (found.offset, found.metadata) == (33, "a note")


def test_a_group_goes_on_where_it_committed(cluster: Cluster, hundred: str, group: str) -> None:
    with consumer(cluster, group) as reader:
        reader.subscribe([hundred])
        messages = take(reader, 30)
        reader.commit(message=messages[-1], asynchronous=False)
    with consumer(cluster, group) as reader:
        reader.subscribe([hundred])
        assert values(take(reader, 1)) == [30]


def test_automatic_commits_are_sent_on_close(cluster: Cluster, hundred: str, group: str) -> None:
    with consumer(cluster, group, enable_auto_commit=True) as reader:
        reader.subscribe([hundred])
        take(reader, 100)
    with consumer(cluster, group) as reader:
        assert reader.committed([TopicPartition(hundred, 0)], 60)[0].offset == 100


def test_a_deleted_topic_is_reported(cluster: Cluster, hundred: str, group: str) -> None:
    options = {"allow_auto_create_topics": False, "topic_metadata_propagation_max_ms": 200}
    with consumer(cluster, group, **options) as reader:
        reader.subscribe([hundred])
        take(reader, 100)
        client = admin(cluster)
        client.delete_topics([hundred])[hundred].result(60)
        assert take_error(reader).code() in (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_PARTITION,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError.UNKNOWN_TOPIC_ID,
        )


def test_a_grown_topic_is_read_to_its_new_partitions(
    cluster: Cluster, hundred: str, group: str
) -> None:
    with consumer(cluster, group) as reader:
        reader.subscribe([hundred])
        reader.commit(message=take(reader, 100)[-1], asynchronous=False)
        client = admin(cluster)
        client.create_partitions([NewPartitions(hundred, 3)])[hundred].result(60)
        poll_until([reader], lambda: len(reader.assignment()) == 3, "three partitions")
        send(producer(cluster), hundred, [b"7"], partition=2)
        assert values(take(reader, 1)) == [7]
