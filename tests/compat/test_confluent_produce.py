"""confluent-kafka's producer (librdkafka): what is written is what is read."""

from __future__ import annotations

import hashlib
import time

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from .cluster import Cluster
from .confluent import code_of, consumer, producer, send, take

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_comes_back_as_it_went(
    cluster: Cluster, topic: str, group: str, codec: str
) -> None:
    cluster.create_topic(topic)
    values = [b"%06d" % each * 20 for each in range(500)]
    send(producer(cluster, compression_type=codec), topic, values, key=b"k")
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        assert [each.value() for each in take(reader, 500)] == values


@pytest.mark.parametrize("stored", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_every_codec_of_the_topic_can_be_read(
    cluster: Cluster, topic: str, group: str, stored: str
) -> None:
    cluster.create_topic(topic, compression_type=stored)
    values = [b"%06d" % each * 20 for each in range(200)]
    send(producer(cluster, compression_type="lz4"), topic, values)
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        assert [each.value() for each in take(reader, 200)] == values


def test_headers_keep_order_repetition_and_null(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic)
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("ünï", b"\x00\xff")]
    send(producer(cluster), topic, [b"v"], headers=headers)
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        (message,) = take(reader, 1)
        assert message.headers() == headers


def test_null_and_empty_are_not_the_same(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic)
    writer = producer(cluster)
    pairs = [(None, None), (None, b""), (b"", None), (b"", b""), (b"k", b"v")]
    for key, value in pairs:
        writer.produce(topic, value, key)
    writer.flush(60)
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        assert [(each.key(), each.value()) for each in take(reader, 5)] == pairs


def test_a_message_of_900_kilobytes(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic)
    value = hashlib.sha256(b"x").digest() * 28_800
    send(producer(cluster, message_max_bytes=2_000_000), topic, [value, b"small", value])
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        assert [len(each.value()) for each in take(reader, 3)] == [len(value), 5, len(value)]


def test_a_message_above_the_limit_is_refused(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    writer = producer(cluster, message_max_bytes=4_000_000)
    with pytest.raises(KafkaException) as raised:
        send(writer, topic, [b"x" * 1_100_000])
    assert code_of(raised) == KafkaError.MSG_SIZE_TOO_LARGE
    assert send(writer, topic, [b"fits"])[0].offset() == 0


def test_the_topics_own_limit_wins(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic, max_message_bytes="3000000")
    writer = producer(cluster, message_max_bytes=4_000_000)
    send(writer, topic, [b"x" * 2_500_000])
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        assert len(take(reader, 1)[0].value()) == 2_500_000


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(cluster: Cluster, topic: str, group: str, acks: str) -> None:
    cluster.create_topic(topic)
    done = send(producer(cluster, acks=acks), topic, [b"%d" % each for each in range(100)])
    if acks != "0":
        assert [each.offset() for each in done] == list(range(100))
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        assert [each.offset() for each in take(reader, 100)] == list(range(100))


def test_create_time_is_the_clients(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic)
    when = int(time.time() * 1000) - 3_600_000
    send(producer(cluster), topic, [b"v"], timestamp=when)
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        assert take(reader, 1)[0].timestamp() == (TIMESTAMP_CREATE_TIME, when)


def test_log_append_time_is_the_brokers(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    send(producer(cluster), topic, [b"v", b"w"], timestamp=12_345)
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        for message in take(reader, 2):
            kind, when = message.timestamp()
            assert kind == TIMESTAMP_LOG_APPEND_TIME
            assert before - 1 <= when <= int(time.time() * 1000) + 1


def test_one_key_stays_in_one_partition_in_order(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic, partitions=4)
    writer = producer(cluster)
    for each in range(400):
        writer.produce(topic, b"%d" % each, b"key-%d" % (each % 20))
    writer.flush(60)
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        messages = take(reader, 400)
    by_key: dict[bytes, list[tuple[int, int]]] = {}
    for message in messages:
        seen = by_key.setdefault(message.key(), [])
        seen.append((message.partition(), int(message.value())))
    assert {len({partition for partition, _ in seen}) for seen in by_key.values()} == {1}
    assert all(seen == sorted(seen, key=lambda each: each[1]) for seen in by_key.values())
    assert len({message.partition() for message in messages}) == 4


def test_a_partition_can_be_chosen(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic, partitions=3)
    send(producer(cluster), topic, [b"v"] * 5, partition=2)
    with consumer(cluster, group) as reader:
        ends = {
            each: reader.get_watermark_offsets(TopicPartition(topic, each))[1] for each in range(3)
        }
    assert ends == {0: 0, 1: 0, 2: 5}


def test_a_partition_that_does_not_exist_is_refused(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    with pytest.raises(KafkaException) as raised:
        send(producer(cluster), topic, [b"v"], partition=7)
    assert code_of(raised) == KafkaError._UNKNOWN_PARTITION


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_hundred_thousand_records_arrive_once_and_in_order(
    cluster: Cluster, topic: str, group: str, idempotent: bool
) -> None:
    cluster.create_topic(topic, partitions=3)
    writer = producer(cluster, enable_idempotence=idempotent, compression_type="lz4", linger_ms=5)
    sums = [hashlib.sha256() for _ in range(3)]

    def values(partition: int) -> list[bytes]:
        return [b"%d-%07d" % (partition, each) for each in range(33_334)]

    for partition in range(3):
        written = values(partition)
        send(writer, topic, written, partition=partition)
        sums[partition].update(b"".join(written))
    found = [hashlib.sha256() for _ in range(3)]
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        for message in take(reader, 100_002, timeout=40):
            found[message.partition()].update(message.value())
    assert [each.hexdigest() for each in found] == [each.hexdigest() for each in sums]


def test_an_idempotent_producer_writes_to_many_partitions(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=4)
    writer = producer(cluster, enable_idempotence=True, linger_ms=0)
    for round_ in range(50):
        for partition in range(4):
            writer.produce(topic, b"%d" % round_, partition=partition)
        writer.poll(0)
    assert writer.flush(60) == 0
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        per_partition: dict[int, list[int]] = {}
        for message in take(reader, 200):
            per_partition.setdefault(message.partition(), []).append(int(message.value()))
    assert per_partition == {each: list(range(50)) for each in range(4)}


def test_producing_to_a_missing_topic_creates_it(cluster: Cluster, topic: str) -> None:
    writer = producer(cluster)
    (done,) = send(writer, topic, [b"first"])
    assert done.offset() == 0
    assert len(writer.list_topics(topic, 5).topics[topic].partitions) == 2


def test_producing_to_a_missing_topic_fails_when_creation_is_not_wanted(
    cluster: Cluster, topic: str
) -> None:
    writer = producer(
        cluster, allow_auto_create_topics=False, topic_metadata_propagation_max_ms=300
    )
    with pytest.raises(KafkaException) as raised:
        send(writer, topic, [b"v"])
    assert code_of(raised) in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)


def test_a_compacted_topic_wants_keys(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, cleanup_policy="compact")
    writer = producer(cluster)
    with pytest.raises(KafkaException) as raised:
        send(writer, topic, [b"v"])
    assert code_of(raised) == KafkaError.INVALID_RECORD
    assert send(writer, topic, [b"v"], key=b"k")[0].offset() == 0


def test_a_timestamp_out_of_range_is_refused(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, message_timestamp_before_max_ms="60000")
    with pytest.raises(KafkaException) as raised:
        send(producer(cluster), topic, [b"v"], timestamp=int(time.time() * 1000) - 600_000)
    assert code_of(raised) == KafkaError.INVALID_TIMESTAMP
