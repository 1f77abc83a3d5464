"""A log with all that makes offsets hard to keep, and what a client sees of it; for the tests of promote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import headwater.testing
from headwater.broker.broker import Broker
from tests.compat.waiting import until

BEGIN_MS = int(time.time() * 1000) - 3_600_000
SETTINGS = {"log.cleaner.enable": True, "log.cleaner.backoff.ms": 50}


class Seen(NamedTuple):
    """A record as a consumer gets it."""

    place: tuple[str, int, int]
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: object


@contextmanager
def log(folder: Path) -> Iterator[Broker]:
    """The log of a project in this folder."""
    with headwater.testing.broker(folder / "data" / "log", SETTINGS) as broker:
        yield broker


def create(bootstrap: str, name: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    named = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=named)])[name].result(30)


def produce(bootstrap: str, topic: str, numbers: range, **more: object) -> None:
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "batch.num.messages": 20}
    producer = Producer(settings)
    failures: list[object] = []
    for number in numbers:
        _send(producer, topic, number, on_delivery=lambda e, _: e and failures.append(e), **more)
    assert producer.flush(30) == 0
    assert not failures, failures[0]


def _send(
    producer: Producer,
    topic: str,
    number: int,
    keys: int = 1_000,
    begin_ms: int = BEGIN_MS,
    **more: object,
) -> None:
    producer.produce(
        topic,
        b"value %d" % number if number % 7 else None,
        b"key %d" % (number % keys),
        headers=[("n", b"%d" % number), ("empty", None)] if number % 3 else None,
        timestamp=begin_ms + number,
        **more,  # type: ignore[arg-type]
    )


def transact(bootstrap: str, topic: str) -> None:
    """Transactions that are committed and aborted, two of them open at a time, others in between."""
    common = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0}
    first, second = (Producer({**common, "transactional.id": name}) for name in ("one", "two"))
    for each in (first, second):
        each.init_transactions(30)
        each.begin_transaction()
    for number in range(100, 112):
        _send(first if number % 2 else second, topic, number, partition=0)
        for each in (first, second):
            each.flush(30)
        if number == 105:
            produce(bootstrap, topic, range(200, 203), partition=0)
    first.abort_transaction(30)
    second.commit_transaction(30)
    second.begin_transaction()
    _send(second, topic, 120, partition=0)
    second.abort_transaction(30)
    produce(bootstrap, topic, range(130, 135), partition=0)


def compacted(bootstrap: str, topic: str) -> None:
    """Holes: all but the last value of each key has been taken out."""
    create(
        bootstrap,
        topic,
        cleanup_policy="compact",
        internal_segment_bytes="2000",
        min_cleanable_dirty_ratio="0.01",
    )
    produce(bootstrap, topic, range(300), keys=10)
    until(lambda: len(seen(bootstrap, [topic])) < 100, "compaction", pause=0.1)


def seen(bootstrap: str, topics: list[str], isolation: str = "read_uncommitted") -> list[Seen]:
    """All records, as an ordinary consumer gets them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        known = consumer.list_topics(timeout=30).topics
        places = [TopicPartition(t, p) for t in topics for p in known[t].partitions]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place, timeout=30)[0]
        consumer.assign(places)
        found, ended = [], set()
        while len(ended) < len(places):
            # One at a time, in a list: a message without a value counts as false by itself.
            (message,) = until(lambda: consumer.consume(1, 1), "a record, or the end")
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add((message.topic(), message.partition()))
                continue
            found.append(
                Seen(
                    (message.topic(), message.partition(), message.offset()),
                    message.timestamp(),
                    message.key(),
                    message.value(),
                    message.headers(),
                )
            )
        return sorted(found)
    finally:
        consumer.close()


def ends(bootstrap: str, topics: list[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """First and next offset of every partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "log_level": 0})
    try:
        known = consumer.list_topics(timeout=30).topics
        return {
            (t, p): consumer.get_watermark_offsets(TopicPartition(t, p), timeout=30)
            for t in topics
            for p in known[t].partitions
        }
    finally:
        consumer.close()
