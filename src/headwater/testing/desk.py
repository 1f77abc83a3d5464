"""The log as a test uses it: rows that wait to be appended all at once, and records read back.

Called by `rehearsal`. What a test has sent becomes visible in one transaction, so that a query that looks
meanwhile sees all of it or nothing.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import Any, NamedTuple

from headwater.client.librdkafka import Consumer, Message, Producer, TopicPartition
from headwater.client.log import Log

TIMEOUT_S = 60.0
QUIET = {"log_level": 0}


class Sent(NamedTuple):
    """A row that waits to be appended."""

    topic: str
    row: Any
    key: str | None
    partition: int | None
    timestamp_ms: int


class Desk:
    """Writes and reads for one test."""

    def __init__(self, bootstrap: str, log: Log) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, **QUIET}
        self._log = log
        self._waiting: list[Sent] = []
        self._producer: Producer | None = None
        self._known: set[str] = set()

    def put(self, sent: Sent) -> None:
        self._waiting.append(sent)

    def ensure(self, topic: str) -> None:
        """The topic is there, with one partition unless somebody has made it otherwise."""
        if topic not in self._known:
            self._log.ensure_topic(topic, {}, partitions=1)
            self._known.add(topic)

    def append(self) -> None:
        """All that waits, in one transaction."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        for topic in dict.fromkeys(each.topic for each in waiting):
            self.ensure(topic)
        if self._producer is None:
            self._producer = Producer({**self._settings, "transactional.id": "headwater-test"})
            self._producer.init_transactions(TIMEOUT_S)
        self._producer.begin_transaction()
        for each in waiting:
            self._produce(self._producer, each)
        self._producer.commit_transaction(TIMEOUT_S)

    def _produce(self, producer: Producer, sent: Sent) -> None:
        options: dict[str, Any] = {"timestamp": sent.timestamp_ms}
        if sent.partition is not None:
            options["partition"] = sent.partition
        if sent.key is not None and isinstance(sent.row, dict):
            options["key"] = str(sent.row[sent.key])
        while True:
            try:
                producer.produce(sent.topic, encoded(sent.row), **options)
                return
            except BufferError:
                producer.poll(0.1)

    def records(self, topic: str) -> list[Message]:
        """Every committed record, partition by partition, in the order of offsets."""
        count = self._log.topics().get(topic, 0)
        ends = self._log.ends((topic, partition) for partition in range(count))
        ends = {place: end for place, end in ends.items() if end > 0}
        if not ends:
            return []
        own: dict[str, Any] = {"group.id": "headwater-test", "enable.auto.commit": False}
        own |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        consumer = Consumer({**self._settings, **own})
        try:
            consumer.assign([TopicPartition(*place, 0) for place in ends])
            found: list[Message] = []
            deadline = time.monotonic() + TIMEOUT_S
            while any(_position(consumer, place) < end for place, end in ends.items()):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic} could not be read up to {ends}")
                found += [each for each in consumer.consume(10_000, 0.05) if each.error() is None]
            return sorted(found, key=lambda each: (each.partition() or 0, each.offset() or 0))
        finally:
            consumer.close()

    def close(self) -> None:
        self._producer = None


def encoded(row: Any) -> bytes | None:
    """The value of a record."""
    if row is None or isinstance(row, bytes):
        return row
    return (row if isinstance(row, str) else json.dumps(row, default=_plain)).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    raise TypeError(f"{value!r} cannot be written as JSON")


def _position(consumer: Consumer, place: tuple[str, int]) -> int:
    return int(consumer.position([TopicPartition(*place)])[0].offset)
