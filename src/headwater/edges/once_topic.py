"""The topic of the keys under which something was appended: made when it is first needed, read at the start.

Called by `once_writing`; its records are described in `remembered`. One topic for each name of an edges
process: an open transaction of another would keep us from reading our own entries. Retention takes what is
older than the window, so that a start reads a day's keys and not a year's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from headwater.browse import making
from headwater.browse.errors import Unreachable, told, translated
from headwater.browse.log import SCAN_BYTES, TIMEOUT_S, Log

_MANY = 10_000
_WAIT_S = 0.05
"""Of one look: a client waits for so long even where fewer are there than asked for."""


def name_of(edges: str) -> str:
    return f"__headwater_{edges}_keys"


def ensure(log: Log, topic: str, window_ms: int) -> None:
    """That the topic is there."""
    making.ensure(log, topic, 1, cleanup_policy="delete", retention_ms=str(window_ms))


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
                raise Unreachable(f"{topic} cannot be read to its end", hint="is the broker well?")
