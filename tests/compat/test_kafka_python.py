"""kafka-python: producer, consumer and groups, each in its own dialect of the protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import (
    CommitFailedError,
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from kafka.structs import OffsetAndMetadata

from . import confluent
from .asking import produce
from .batches import batch
from .cluster import Cluster
from .waiting import until

# Its sockets are sometimes collected while a test still runs; see `leaked_sockets`.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

ASSIGNORS = [
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
    CooperativeStickyAssignor,
]


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Callable[..., KafkaProducer]]:
    with ExitStack() as stack:

        def make(**options: Any) -> KafkaProducer:
            settings = {"linger_ms": 2, "max_block_ms": 60_000}
            settings |= {"request_timeout_ms": 30_000, "delivery_timeout_ms": 60_000, **options}
            made = KafkaProducer(bootstrap_servers=cluster.bootstrap, **settings)
            stack.callback(made.close, timeout=30)
            return made

        yield make


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[Callable[..., KafkaConsumer]]:
    with ExitStack() as stack:

        def make(*topics: str, known: bool = True, **options: Any) -> KafkaConsumer:
            settings = {
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "fetch_max_wait_ms": 100,
                "heartbeat_interval_ms": 100,
                "session_timeout_ms": 30_000,
                "metadata_max_age_ms": 500,
                "retry_backoff_ms": 20,
                "consumer_timeout_ms": 10_000,
            }
            made = KafkaConsumer(bootstrap_servers=cluster.bootstrap, **settings | options)
            stack.callback(made.close, autocommit=False)
            if known:  # else its first join may come before its metadata, and assign nothing
                for topic in topics:
                    made.partitions_for_topic(topic)
            if topics:
                made.subscribe(topics)
            return made

        yield make


Producers = Callable[..., KafkaProducer]
Consumers = Callable[..., KafkaConsumer]


def write(made: KafkaProducer, topic: str, count: int, **options: Any) -> None:
    futures = [made.send(topic, b"%d" % each, **options) for each in range(count)]
    made.flush(60)
    for each in futures:
        each.get(60)


def take(made: KafkaConsumer, count: int, timeout: float = 60.0) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + timeout
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        for records in made.poll(100, max_records=count - len(found)).values():
            found += records
    return found


def poll_until(
    cluster: Cluster, consumers: list[KafkaConsumer], condition: Callable[[], Any]
) -> None:
    """Poll, each in a thread as in an application of its own, until all have what they should.

    kafka-python forgets a join when its poll ends first (3.0.12, and then waits for ever): so no
    poll ends by its time-out, but by a record that comes when the condition holds.
    """
    done = threading.Event()

    def keep_polling(consumer: KafkaConsumer) -> None:
        while not done.is_set():
            consumer.poll(60_000)

    threads = [threading.Thread(target=keep_polling, args=(c,), daemon=True) for c in consumers]
    for thread in threads:
        thread.start()
    until(condition, "the consumers to have their partitions")
    done.set()
    places = set().union(*(until(c.assignment, "an assignment") for c in consumers))
    with cluster.wire() as wire:
        for place in places:
            stored = produce(wire, place.topic, batch(), partition=place.partition)
            assert stored.error_code == 0, stored
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a poll that does not end"


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back_as_it_went(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str, codec: str | None
) -> None:
    cluster.create_topic(topic)
    write(producer(compression_type=codec), topic, 300)
    assert [int(each.value) for each in take(consumer(topic), 300)] == list(range(300))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_it_reads_what_librdkafka_compressed(
    cluster: Cluster, consumer: Consumers, topic: str, codec: str
) -> None:
    cluster.create_topic(topic)
    confluent.send(
        confluent.producer(cluster, compression_type=codec),
        topic,
        [b"%d" % each for each in range(100)],
    )
    assert [int(each.value) for each in take(consumer(topic), 100)] == list(range(100))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str, acks: Any
) -> None:
    cluster.create_topic(topic)
    write(producer(acks=acks, enable_idempotence=False), topic, 50)
    assert len(take(consumer(topic), 50)) == 50


def test_keys_headers_nulls_and_timestamps(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str
) -> None:
    cluster.create_topic(topic)
    when = int(time.time() * 1000) - 5000
    headers = [("a", b"1"), ("a", b""), ("b", b"\x00\xff")]
    made = producer()
    first = made.send(topic, b"", b"key", headers, timestamp_ms=when).get(60)
    made.send(topic, None, b"key").get(60)
    assert (first.offset, first.timestamp) == (0, when)
    one, two = take(consumer(topic), 2)
    assert (one.key, one.value, one.headers) == (b"key", b"", headers)
    assert (one.timestamp, one.timestamp_type) == (when, 0)
    assert (two.key, two.value, list(two.headers)) == (b"key", None, [])


def test_log_append_time_is_in_the_producers_answer(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str
) -> None:
    cluster.create_topic(topic, message_timestamp_type="LogAppendTime")
    sent = producer().send(topic, b"v", timestamp_ms=123).get(60)
    (found,) = take(consumer(topic), 1)
    assert sent.timestamp == found.timestamp > 123
    assert found.timestamp_type == 1


def test_a_message_above_the_limit_is_refused(
    cluster: Cluster, producer: Producers, topic: str
) -> None:
    cluster.create_topic(topic)
    made = producer(max_request_size=5_000_000)
    with pytest.raises(MessageSizeTooLargeError):
        made.send(topic, b"x" * 1_200_000).get(10)


def test_ten_thousand_records_of_an_idempotent_producer(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str
) -> None:
    cluster.create_topic(topic, partitions=3)
    made = producer(enable_idempotence=True, linger_ms=10)
    for each in range(10_000):
        made.send(topic, b"%d" % each, key=b"%d" % (each % 7))
    made.flush(60)
    records = take(consumer(topic), 10_000)
    assert sorted(int(each.value) for each in records) == list(range(10_000))
    for key in {each.key for each in records}:
        mine = [int(each.value) for each in records if each.key == key]
        assert mine == sorted(mine)


def test_offsets_and_times(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str
) -> None:
    cluster.create_topic(topic)
    here, start, made = TopicPartition(topic, 0), int(time.time() * 1000) - 60_000, producer()
    for each in range(5):
        made.send(topic, b"%d" % each, timestamp_ms=start + each * 10).get(60)
    reader = consumer()
    assert reader.beginning_offsets([here]) == {here: 0}
    assert reader.end_offsets([here]) == {here: 5}
    found = reader.offsets_for_times({here: start + 11})[here]
    assert (found.offset, found.timestamp) == (2, start + 20)
    assert reader.offsets_for_times({here: start + 41})[here] is None
    assert reader.partitions_for_topic(topic) == {0}
    assert topic in reader.topics()


def test_seek_pause_and_position(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str
) -> None:
    cluster.create_topic(topic)
    write(producer(), topic, 20)
    reader, here = consumer(), TopicPartition(topic, 0)
    reader.assign([here])
    reader.seek(here, 15)
    assert int(take(reader, 1)[0].value) == 15
    assert reader.position(here) == 16
    reader.seek_to_beginning(here)
    assert reader.position(here) == 0
    reader.seek_to_end(here)
    assert reader.position(here) == 20
    reader.seek(here, 3)
    reader.pause(here)
    assert reader.poll(200) == {}
    reader.resume(here)
    assert int(take(reader, 1)[0].value) == 3


def test_no_offset_and_out_of_range_are_errors_when_there_is_no_policy(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    write(producer(), topic, 5)
    reader, here = consumer(auto_offset_reset="none", group_id=group), TopicPartition(topic, 0)
    reader.assign([here])
    with pytest.raises(NoOffsetForPartitionError):
        take(reader, 1)
    reader.seek(here, 99)
    with pytest.raises(OffsetOutOfRangeError):
        take(reader, 1)


def test_commit_and_committed(
    cluster: Cluster, consumer: Consumers, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    reader, here = consumer(group_id=group), TopicPartition(topic, 0)
    reader.assign([here])
    assert reader.committed(here) is None
    reader.commit({here: OffsetAndMetadata(12, "note", -1)})
    assert reader.committed(here) == 12
    assert reader.committed(here, metadata=True).metadata == "note"


def test_subscribing_to_a_missing_topic_creates_it(
    cluster: Cluster, consumer: Consumers, topic: str, group: str
) -> None:
    reader = consumer(topic, known=False, group_id=group)
    poll_until(cluster, [reader], lambda: len(reader.assignment()) == 2)


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda each: each.name)
def test_two_consumers_share_and_hand_over(
    cluster: Cluster, consumer: Consumers, topic: str, group: str, assignor: Any
) -> None:
    cluster.create_topic(topic, partitions=4)
    options = {"group_id": group, "partition_assignment_strategy": (assignor,)}
    first = consumer(topic, **options)
    poll_until(cluster, [first], lambda: len(first.assignment()) == 4)
    second = consumer(topic, **options)
    both = [first, second]
    poll_until(cluster, both, lambda: [len(each.assignment()) for each in both] == [2, 2])
    assert first.assignment().isdisjoint(second.assignment())
    second.close(autocommit=False)
    poll_until(cluster, [first], lambda: len(first.assignment()) == 4)


def test_a_pattern_finds_topics(
    cluster: Cluster, consumer: Consumers, new_name: Callable[[], str], group: str
) -> None:
    stem = new_name()
    cluster.create_topic(f"{stem}-a")
    # A look at all topics must end before the next is due, on a slow machine too.
    reader = consumer(group_id=group, metadata_max_age_ms=1500)
    reader.subscribe(pattern=f"^{stem}-.*")
    poll_until(cluster, [reader], lambda: len(reader.assignment()) == 1)
    cluster.create_topic(f"{stem}-b")
    poll_until(cluster, [reader], lambda: len(reader.assignment()) == 2)


def test_a_zombies_commit_is_refused(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str, group: str
) -> None:
    """It stops polling, is replaced, and then tries to commit what it had read."""
    cluster.create_topic(topic)
    write(producer(), topic, 3)
    zombie = consumer(topic, group_id=group, max_poll_interval_ms=1500, session_timeout_ms=1000)
    take(zombie, 3)
    heir = consumer(topic, group_id=group)
    poll_until(cluster, [heir], lambda: heir.assignment())
    with pytest.raises(CommitFailedError):
        zombie.commit()
    assert heir.committed(TopicPartition(topic, 0)) is None
