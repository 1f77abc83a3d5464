"""The topic of the keys under which something was appended: made when it is first needed, read at the start.

Called by `writer`; its records are described in `index`. One topic for each name of an edges
process: an open transaction of another would keep us from reading our own entries. Retention takes what is
older than the window, so that a start reads a day's keys and not a year's.

What `writer` does with its producer, around the ways of confluent-kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from headwater.client import topics
from headwater.client.errors import BrokerUnreachable, told, translated
from headwater.client.librdkafka import KafkaError, KafkaException, Producer, TopicPartition
from headwater.client.log import SCAN_BYTES, TIMEOUT_S, Log
from headwater.client.publisher import Stored

_MANY = 10_000
_WAIT_S = 0.05
"""Of one look: a client waits for so long even where fewer are there than asked for."""


def name_of(edges: str) -> str:
    return f"__headwater_{edges}_keys"


def ensure(log: Log, topic: str, window_ms: int) -> None:
    """That the topic is there."""
    topics.ensure(log, topic, 1, cleanup_policy="delete", retention_ms=str(window_ms))


def read(log: Log, topic: str) -> Iterator[tuple[bytes, bytes, int]]:
    """Every committed entry, oldest first: key, value, time."""
    first, end = log.ranges(topic)[0]
    if first == end:
        return
    quiet_s = 0.0
    with log.reader(SCAN_BYTES) as consumer:
        with told(f"reading {topic}", log.bootstrap):
            # One from the pool would hear of this topic at its next turn only, after a second.
            consumer.list_topics(topic, timeout=TIMEOUT_S)
        consumer.assign([TopicPartition(topic, 0, first)])
        while True:
            with told(f"reading {topic}", log.bootstrap):
                messages = consumer.consume(_MANY, _WAIT_S)
                (now,) = consumer.position([TopicPartition(topic, 0)])
            for message in messages:
                error: Any = message.error()
                if error is None:
                    key, value = message.key(), message.value()
                    if key and value:
                        yield key, value, message.timestamp()[1]
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                else:
                    raise translated(error, f"reading {topic}", log.bootstrap)
            if now.offset >= end:
                return
            quiet_s = 0.0 if messages else quiet_s + _WAIT_S
            if quiet_s > TIMEOUT_S:
                raise BrokerUnreachable(
                    f"{topic} cannot be read to its end", hint="is the broker well?"
                )


_FULL_S = 0.05


def produce(producer: Producer, topic: str, words: dict[str, Any]) -> None:
    while True:
        try:
            producer.produce(topic, **words)
            return
        except BufferError:
            producer.poll(_FULL_S)


def flushed(producer: Producer, seconds: float) -> int:
    """How many are left."""
    try:
        return producer.flush(seconds)
    except SystemError as error:
        # confluent-kafka notes a fatal error as raised, and then calls who is to hear of deliveries.
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


def heard(places: list[Stored], failed: list[Any], error: Any, message: Any) -> None:
    if error is not None:
        failed.append(error)
    else:
        places.append(Stored(message.partition(), message.offset()))


def commit(producer: Producer) -> None:
    """Again while it may be tried again, until the time is up."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            producer.commit_transaction(max(0.1, deadline - time.monotonic()))
            return
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                raise
