"""What a test finds in the log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from headwater.client.log import Log
from headwater.errors import HeadwaterError
from tests.edges.running import until

DEADLINE_S = 100.0
PLAIN = {
    "group.id": "tests",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 2,
}


@dataclass(frozen=True)
class Found:
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]
    timestamp_ms: int
    partition: int


def records(log: Log, topic: str) -> list[Found]:
    """All that are there now, partition by partition."""
    if topic not in log.admin.list_topics(timeout=60).topics:
        return []
    found: list[Found] = []
    consumer = Consumer({**log.settings, **PLAIN})  # a new one: one that read elsewhere is slower
    try:
        for partition, (first, end) in log.ranges(topic).items():
            consumer.assign([TopicPartition(topic, partition, first)])
            place, deadline = first, time.monotonic() + DEADLINE_S
            while place < end:
                assert time.monotonic() < deadline, f"{topic} was not to be read"
                message: Any = consumer.poll(1)
                if message is None:
                    continue
                if message.error() is not None:  # the end: the last ones are markers
                    break
                place = message.offset() + 1
                headers = dict(message.headers() or [])
                stamp = message.timestamp()[1]
                found.append(Found(message.key(), message.value(), headers, stamp, partition))
    finally:
        consumer.close()
    return found


def values(log: Log, topic: str) -> list[bytes | None]:
    return [each.value for each in records(log, topic)]


def wait_for(log: Log, topic: str, count: int) -> list[Found]:
    """Until the topic has at least so many."""

    def has_them() -> bool:
        try:
            return sum(end - first for first, end in log.ranges(topic).values()) >= count
        except HeadwaterError:
            return False  # it is not there yet, or has no leader yet

    until(has_them, f"{count} records in {topic}")
    return records(log, topic)
