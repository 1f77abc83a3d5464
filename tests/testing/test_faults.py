"""What a test can let go wrong in its broker, in one line each, seen by real clients."""

from __future__ import annotations

import errno
import math
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.errors import NotLeaderForPartitionError

from headwater.testing.embedded_broker import EmbeddedBroker, broker
from tests.compat.waiting import until


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    with broker() as running:
        yield running


def sent(kafka: EmbeddedBroker, topic: str, *values: bytes, **settings: Any) -> list[str]:
    """Write these; the error of each, or `""`."""
    told: list[str] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, **settings})

    def heard(error: KafkaError | None, message: Message) -> None:
        told.append("" if error is None else error.name())

    for value in values:
        producer.produce(topic, value, on_delivery=heard)
        producer.flush(30)
    return told


def read(kafka: EmbeddedBroker, *topics: str, count: int) -> list[bytes]:
    """The first so many records of these topics."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    found: list[bytes] = []

    def poll() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message.value())
        return len(found) >= count

    until(poll, f"{count} records of {topics}")
    consumer.close()
    return found


# ---- requests -----------------------------------------------------------------------------------


def test_the_next_produce_fails_and_the_client_that_tries_again_is_served(kafka):
    fault = kafka.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders")
    assert sent(kafka, "orders", b"1") == [""]
    assert fault.struck == 1
    assert read(kafka, "orders", count=1) == [b"1"]


def test_a_client_that_does_not_try_again_is_told(kafka):
    sent(kafka, "orders", b"0")
    kafka.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders")
    producer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap, retries=0, enable_idempotence=False, acks=1
    )
    with pytest.raises(NotLeaderForPartitionError):
        producer.send("orders", b"1").get(30)
    producer.send("orders", b"2").get(30)
    producer.close()
    assert read(kafka, "orders", count=2) == [b"0", b"2"]


def test_an_error_that_no_retry_helps_reaches_the_caller_until_the_block_ends(kafka):
    with kafka.faults.fail("Produce", "INVALID_RECORD", topic="a", times=math.inf):
        assert sent(kafka, "a", b"1", b"2") == ["INVALID_RECORD"] * 2
        assert sent(kafka, "b", b"3") == [""]
    assert sent(kafka, "a", b"4") == [""]


def test_some_may_pass_first(kafka):
    kafka.faults.fail("Produce", "INVALID_RECORD", topic="a", after=1, times=2)
    assert sent(kafka, "a", b"1", b"2", b"3", b"4") == ["", "INVALID_RECORD", "INVALID_RECORD", ""]


def test_of_one_request_about_two_topics_only_the_one_fails(kafka):
    told: dict[str, str] = {}
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 200})
    sent(kafka, "a", b"0")
    sent(kafka, "b", b"0")
    kafka.faults.fail("Produce", "INVALID_RECORD", topic="a")

    def heard(error: KafkaError | None, message: Message) -> None:
        told[str(message.topic())] = "" if error is None else error.name()

    for topic in ("a", "b"):
        producer.produce(topic, b"1", on_delivery=heard)
    producer.flush(30)
    assert told == {"a": "INVALID_RECORD", "b": ""}


def test_a_fetch_that_fails_is_asked_again_also_within_a_session(kafka):
    sent(kafka, "a", b"1")
    sent(kafka, "b", b"1")
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("a", 0, 0), TopicPartition("b", 0, 0)])
    until(lambda: consumer.poll(0.1) is not None, "a record")
    fault = kafka.faults.fail("Fetch", "KAFKA_STORAGE_ERROR", topic="a", times=2)
    fault.until_struck(2)
    sent(kafka, "a", b"2")
    found: list[bytes] = []

    def poll() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message.value())
        return b"2" in found

    until(poll, "what was written afterwards")
    consumer.close()


def test_a_fetch_waits_until_it_is_released(kafka):
    sent(kafka, "orders", b"1")
    found: list[bytes] = []
    with kafka.faults.hold("Fetch", topic="orders") as fetch:
        reader = threading.Thread(target=lambda: found.extend(read(kafka, "orders", count=1)))
        reader.start()
        fetch.until_struck()
        assert found == []
    reader.join(60)
    assert found == [b"1"]


def test_what_a_client_sends_behind_a_held_request_keeps_its_order(kafka):
    sent(kafka, "orders", b"0")
    held = kafka.faults.hold("Produce", topic="orders")
    writer = threading.Thread(target=sent, args=(kafka, "orders", b"1"))
    writer.start()
    held.until_struck()
    assert sent(kafka, "orders", b"2") == [""]
    held.release()
    writer.join(60)
    assert read(kafka, "orders", count=3) == [b"0", b"2", b"1"]


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_lost_answer_is_a_duplicate_unless_the_producer_is_idempotent(kafka, idempotent):
    sent(kafka, "orders", b"0")
    kafka.faults.lose_answer("Produce", topic="orders")
    settings = {"enable.idempotence": idempotent, "retry.backoff.ms": 10}
    assert sent(kafka, "orders", b"1", b"2", **settings) == ["", ""]
    count = 3 if idempotent else 4
    expected = [b"0", b"1", b"2"] if idempotent else [b"0", b"1", b"1", b"2"]
    assert read(kafka, "orders", count=count) == expected


def test_a_connection_that_is_lost_before_anything_is_done_is_made_again(kafka):
    sent(kafka, "orders", b"0")
    fault = kafka.faults.disconnect("Produce", topic="orders", client_id="other")
    assert sent(kafka, "orders", b"1") == [""]
    assert fault.struck == 0
    settings = {"enable.idempotence": False, "retry.backoff.ms": 10, "client.id": "other"}
    assert sent(kafka, "orders", b"2", **settings) == [""]
    assert fault.struck == 1
    assert read(kafka, "orders", count=3) == [b"0", b"1", b"2"]


def test_requests_about_no_topic_fail_as_a_whole(kafka):
    fault = kafka.faults.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS")
    coordinator = kafka.faults.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    assert (fault.struck, coordinator.struck) == (1, 1)


def test_a_name_that_is_none_is_told_with_the_nearest(kafka):
    with pytest.raises(ValueError, match=r"no API is called 'Prodce'; Produce\?"):
        kafka.faults.fail("Prodce", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match=r"NOT_LEADER_OR_FOLLOWER\?"):
        kafka.faults.fail("Produce", "NOT_LEADER_OR_FOLOWER")


def test_waiting_for_what_does_not_come_ends_with_its_name(kafka):
    with pytest.raises(TimeoutError, match="Produce of orders: nothing came within"):
        kafka.faults.hold("Produce", topic="orders").until_struck(timeout_s=0.01)


def test_a_broker_stops_though_somebody_is_still_held():
    told: list[str] = []
    with broker() as kafka:
        sent(kafka, "orders", b"0")
        held = kafka.faults.hold("Produce", topic="orders")
        writer = threading.Thread(target=lambda: told.extend(sent(kafka, "orders", b"1")))
        writer.start()
        held.until_struck()
    writer.join(60)
    assert told == [""]


# ---- the disk -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_is_refused_and_what_is_tried_again_is_stored_once(kafka, code):
    sent(kafka, "orders", b"0")
    fault = kafka.faults.disk.fail("write", code, topic="orders", name="*.log")
    assert sent(kafka, "orders", b"1", b"2") == ["", ""]
    assert fault.struck == 1
    assert read(kafka, "orders", count=3) == [b"0", b"1", b"2"]


def test_a_sync_that_fails_ends_the_writes_to_its_topic_and_no_other(kafka):
    sent(kafka, "orders", b"0")
    kafka.faults.disk.fail("sync", topic="orders")
    settings = {"message.timeout.ms": 500, "enable.idempotence": False}
    assert sent(kafka, "orders", b"1", **settings) == ["_MSG_TIMED_OUT"]
    assert sent(kafka, "others", b"1") == [""]
    assert read(kafka, "orders", count=1) == [b"0"]


def test_nothing_is_acknowledged_or_served_before_the_disk_has_it(kafka):
    sent(kafka, "orders", b"0")
    told: list[str] = []
    with kafka.faults.disk.hold("sync", topic="orders") as sync:
        writer = threading.Thread(target=lambda: told.extend(sent(kafka, "orders", b"1")))
        writer.start()
        sync.until_struck()
        assert read(kafka, "orders", count=1) == [b"0"]
        assert told == []
    writer.join(60)
    assert told == [""]
    assert read(kafka, "orders", count=2) == [b"0", b"1"]


# ---- where they are -----------------------------------------------------------------------------


def test_a_broker_that_is_no_test_s_has_none(tmp_path):
    from headwater.broker.broker import Broker

    assert not hasattr(Broker(tmp_path), "faults")


def test_the_plugin_hands_out_a_broker(headwater_broker):
    headwater_broker.faults.fail("Produce", "INVALID_RECORD")
    assert sent(headwater_broker, "orders", b"1", b"2") == ["INVALID_RECORD", ""]
