"""What a topic's configuration makes of records: codecs, clocks and limits, read back by a real client."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.testing import ManualClock
from tests.broker.serving import Serving, create, serving
from tests.compat.asking import end_offset, fetch, produce, read_all
from tests.compat.batches import GZIP, LOG_APPEND_TIME, NOW_MS, batch, read_batches
from tests.compat.wire import ErrorCode, Wire

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TOPIC_TYPES = ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
VALUES = [b"%d " % number * 50 for number in range(200)]


def consume(bootstrap: str, topic: str, count: int) -> list[Any]:
    options = {"bootstrap.servers": bootstrap, "group.id": "g", "check.crcs": True}
    consumer = Consumer(options)
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Any] = []
    while len(messages) < count:
        got = consumer.consume(count - len(messages), timeout=60)
        assert got, f"{len(messages)} of {count}"
        messages += got
    consumer.close()
    return messages


@pytest.mark.parametrize("sent", CODECS)
def test_every_codec_is_turned_into_the_topics_and_read_back(shared: Serving, sent: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": shared.bootstrap,
            "compression.type": sent,
            "linger.ms": 100,
            "enable.idempotence": True,
        }
    )
    for wanted in TOPIC_TYPES:
        shared.create(f"{sent}-to-{wanted}", compression_type=wanted)
        for number, value in enumerate(VALUES):
            headers = [("n", b"%d" % number)]
            producer.produce(f"{sent}-to-{wanted}", value, b"k%d" % number, headers=headers)
    assert producer.flush(60) == 0
    for wanted in TOPIC_TYPES:
        topic = f"{sent}-to-{wanted}"
        stored = CODECS[sent] if wanted == "producer" else CODECS.get(wanted, 0)
        with shared.wire() as wire:
            found = read_batches(fetch(wire, topic).records)
            assert {each.attributes & 7 for each in found} == {stored}
            assert min(each.producer_id for each in found) >= 0, "the producer's mark is kept"
        messages = consume(shared.bootstrap, topic, len(VALUES))
        assert [message.value() for message in messages] == VALUES
        assert [message.key() for message in messages] == [b"k%d" % n for n in range(len(VALUES))]
        assert messages[7].headers() == [("n", b"7")]


def test_a_recompressed_retry_is_still_a_duplicate(wire: Wire, topic: str) -> None:
    create(wire, topic, compression_type="zstd")
    sent = batch([(None, bytes(1000))] * 3, producer=(9, 0, 0), attributes=GZIP)
    assert [produce(wire, topic, sent).base_offset for _ in range(3)] == [0, 0, 0]
    assert end_offset(wire, topic) == 3


def test_the_limit_is_on_the_batch_as_it_comes_and_as_it_is_stored(wire: Wire, topic: str) -> None:
    create(wire, topic, max_message_bytes=2000, compression_type="uncompressed")
    too_large = batch([(None, bytes(2500))])
    assert produce(wire, topic, too_large).error_code is ErrorCode.message_too_large
    packed = batch([(None, bytes(2500))], attributes=GZIP)
    assert len(packed) < 200
    assert produce(wire, topic, packed).error_code is ErrorCode.message_too_large, "once unpacked"
    assert produce(wire, topic, batch([(None, bytes(1500))])).base_offset == 0
    assert end_offset(wire, topic) == 1


def test_a_batch_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(
    wire: Wire, topic: str
) -> None:
    sizes = itertools.count(1400)
    exact = next(each for size in sizes if len(each := batch([(None, bytes(size))])) == 1500)
    create(wire, topic, max_message_bytes=1500)
    assert produce(wire, topic, exact).error_code is ErrorCode.none
    value = bytes(len(read_batches(exact)[0].pairs[0][1] or b"") + 1)
    more = batch([(None, value)])
    assert produce(wire, topic, more).error_code is ErrorCode.message_too_large


# ---- clocks --------------------------------------------------------------------------------------------


def test_append_time_is_the_brokers_clock_for_every_record(data: Path) -> None:
    clock = ManualClock(NOW_MS)
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t", message_timestamp_type="LogAppendTime")
        for number in range(3):
            clock.advance(1000)
            sent = batch([(None, b"v")] * 2, timestamps=[5, 2**60])
            row = produce(wire, "t", sent)
            told = row.log_append_time
            assert told is not None
            assert round(told.timestamp() * 1000) == NOW_MS + 1000 * (number + 1)
        assert {each.attributes & LOG_APPEND_TIME for each in read_all(wire, "t")} == {8}
        found = consume(broker.bootstrap, "t", 6)
        times = [message.timestamp() for message in found]
        assert times == [(2, NOW_MS + 1000 * n) for n in (1, 1, 2, 2, 3, 3)]


def test_a_change_of_the_clock_counts_from_then_on(data: Path) -> None:
    with serving(data, clock=ManualClock(NOW_MS)) as broker, broker.wire() as wire:
        create(wire, "t")
        produce(wire, "t", batch(timestamps=[NOW_MS - 5000]))
        change = {"name": "message.timestamp.type", "config_operation": 0, "value": "LogAppendTime"}
        asked = {"resource_type": 2, "resource_name": "t", "configs": [change]}
        wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
        produce(wire, "t", batch(timestamps=[NOW_MS - 5000]))
        found = [message.timestamp() for message in consume(broker.bootstrap, "t", 2)]
        assert found == [(1, NOW_MS - 5000), (2, NOW_MS)]


@pytest.mark.parametrize("where", ["topic", "broker"])
def test_times_too_far_from_the_brokers_are_refused(data: Path, where: str) -> None:
    bounds = {"message.timestamp.before.max.ms": 10_000, "message.timestamp.after.max.ms": 3000}
    topic = {key.replace(".", "_"): value for key, value in bounds.items()}
    settings = {f"log.{key}": value for key, value in bounds.items()}
    clock = ManualClock(NOW_MS)
    with (
        serving(data, settings if where == "broker" else {}, clock=clock) as broker,
        broker.wire() as wire,
    ):
        create(wire, "t", **(topic if where == "topic" else {}))
        for distance, is_taken in (
            (-10_000, True),
            (-10_001, False),
            (3000, True),
            (3001, False),
            (0, True),
        ):
            row = produce(wire, "t", batch(timestamps=[NOW_MS + distance]))
            wanted = ErrorCode.none if is_taken else ErrorCode.invalid_timestamp
            assert row.error_code is wanted, distance
        mixed = batch([(None, b"v")] * 2, timestamps=[NOW_MS, NOW_MS + 5000])
        assert produce(wire, "t", mixed).error_code is ErrorCode.invalid_timestamp
        assert end_offset(wire, "t") == 3
