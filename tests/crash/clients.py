"""confluent-kafka as it is used in earnest: producers that number what they send and remember every
acknowledgement, and a reader that takes everything there is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

DEADLINE_S = 100.0
QUICK = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "log_level": 0,
}


class Stored(NamedTuple):
    """A record where it is in the log."""

    partition: int
    offset: int
    value: bytes


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.002)


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK})
    new = NewTopic(topic, partitions, 1, config=config)
    admin.create_topics([new])[topic].result(DEADLINE_S)


class NumberedProducer(threading.Thread):
    """Sends records named `name:0`, `name:1`, … with acks=all until it is told to end."""

    def __init__(self, bootstrap: str, topic: str, name: str, **config: object) -> None:
        super().__init__(name=name, daemon=True)
        self.acknowledged: list[Stored] = []
        self.refused: list[tuple[bytes, KafkaError]] = []
        self.sent = 0
        self._topic = topic
        self._ending = threading.Event()
        self._dropping = False
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 1,
                "batch.num.messages": 40,
                "message.timeout.ms": 60_000,
                "queue.buffering.max.messages": 2_000,
                **QUICK,
                **config,
            }
        )

    def run(self) -> None:
        while not self._ending.is_set():
            value = f"{self.name}:{self.sent}".encode()
            try:
                self._producer.produce(self._topic, value.ljust(1000), on_delivery=self._delivered)
                self.sent += 1
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)
        if self._dropping:
            self._producer.purge(in_queue=True, in_flight=False)
        left = self._producer.flush(DEADLINE_S)
        assert left == 0, f"{left} records neither acknowledged nor refused"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = (message.value() or b"").rstrip()
        if error is not None:
            self.refused.append((value, error))
        else:
            self.acknowledged.append(Stored(message.partition(), message.offset(), value))

    def end(self, *, drop_unsent: bool = False) -> None:
        """Send no more, and wait for the answers to what was sent."""
        self._dropping = drop_unsent
        self._ending.set()
        self.join(2 * DEADLINE_S)
        assert not self.is_alive()


def read_all(bootstrap: str, topic: str, partitions: int = 1) -> list[Stored]:
    """Every record from the start to the end of every partition."""
    consumer = _consumer(bootstrap)
    found: list[Stored] = []
    try:
        ends = {}
        for number in range(partitions):
            place = TopicPartition(topic, number)
            low, high = consumer.get_watermark_offsets(place, timeout=DEADLINE_S)
            if high > low:
                ends[number] = high
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        until_ms = time.monotonic() + DEADLINE_S
        while ends:
            assert time.monotonic() < until_ms, f"no end of {topic}: {ends}"
            for message in consumer.consume(500, 0.1):
                error = message.error()
                if error is None:
                    value = (message.value() or b"").rstrip()
                    found.append(Stored(message.partition(), message.offset(), value))
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if message.offset() >= ends.get(message.partition(), 0) - (error is None):
                    ends.pop(message.partition(), None)
    finally:
        consumer.close()
    return found


def read_at(bootstrap: str, topic: str, offset: int) -> Stored | KafkaError:
    """The first record at or after that offset of partition 0, or the error instead of it."""
    consumer = _consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        end = time.monotonic() + DEADLINE_S
        while True:
            assert time.monotonic() < end, f"neither a record nor an error at offset {offset}"
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                value = (message.value() or b"").rstrip()
                return Stored(message.partition(), message.offset(), value)
            if error.code() != KafkaError._PARTITION_EOF:
                return error
    finally:
        consumer.close()


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            **QUICK,
        }
    )


def send(bootstrap: str, topic: str, values: list[bytes]) -> list[Stored]:
    """One batch for each value, one after the other."""
    stored: list[Stored] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        stored.append(Stored(message.partition(), message.offset(), message.value() or b""))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **QUICK})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
        assert producer.flush(DEADLINE_S) == 0
    return stored
