"""Records as they come, until the caller has enough: `headwater tail`, the console's live tail.

    for records in follow(log, "orders", page(log, "orders", back=True, limit=10).ends):
        ...

The iterator hands out a list at least every `TURN_S`, an empty one where nothing came, so that the caller can
look at its own clock. A broker that goes away is waited for. Partitions that are added later are followed
from their beginning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.browse.errors import translated
from headwater.browse.filters import Keep
from headwater.browse.log import PAGE_BYTES, Log
from headwater.browse.records import Cursor, Record, record_of
from headwater.errors import HeadwaterError

TURN_S = 0.25
_PARTITIONS_EVERY_S = 10.0
_AT_ONCE = 500
_WAIT_MS = 500
_PASSING = frozenset(
    {
        KafkaError._PARTITION_EOF,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""What librdkafka mends by itself, or is none."""


def follow(
    log: Log, topic: str, start: Cursor, keep: Keep | None = None, partitions_fixed: bool = False
) -> Iterator[list[Record]]:
    """Records from `start` on, for ever."""
    with log.reader(PAGE_BYTES, wait_ms=_WAIT_MS) as consumer:
        known = dict(start)
        consumer.assign([TopicPartition(topic, p, offset) for p, offset in known.items()])
        looked = time.monotonic()
        try:
            while True:
                found = [record_of(m) for m in _messages(log, consumer, topic)]
                yield found if keep is None else [each for each in found if keep(each)]
                if not partitions_fixed and time.monotonic() - looked > _PARTITIONS_EVERY_S:
                    looked = time.monotonic()
                    _add_new(log, consumer, topic, known)
        except GeneratorExit:
            return


def _messages(log: Log, consumer: Consumer, topic: str) -> Iterator[Any]:
    first = consumer.poll(TURN_S)
    for message in [] if first is None else [first, *consumer.consume(_AT_ONCE, 0.0)]:
        error = message.error()
        if error is None:
            yield message
        elif error.code() not in _PASSING:
            raise translated(error, f"following {topic}", log.bootstrap)


def _add_new(log: Log, consumer: Consumer, topic: str, known: dict[int, int]) -> None:
    try:
        numbers = log.partitions(topic)
    except HeadwaterError:
        return  # the broker is away for a moment
    new = [number for number in numbers if number not in known]
    if new:
        consumer.incremental_assign([TopicPartition(topic, number, 0) for number in new])
        known.update(dict.fromkeys(new, 0))
