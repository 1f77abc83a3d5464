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

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.client.errors import translated
from headwater.client.log import PAGE_BYTES, Log, read_from
from headwater.client.ranges import Detour, Stuck, is_stuck
from headwater.client.records import Cursor, Keep, Record, record_of
from headwater.errors import HeadwaterError

TURN_S = 0.25
_PARTITIONS_EVERY_S = 10.0
_AT_ONCE = 500
_WAIT_MS = 500
PASSING = frozenset(
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
    at, detour = dict(start), Detour(log, topic)
    while True:
        try:
            yield from _from(log, topic, at, keep, partitions_fixed)
            return
        except Stuck as stuck:
            p = stuck.partition
            at[p] = detour.next_offset(p, at[p], log.ranges(topic, [p])[p][1])


def _from(
    log: Log, topic: str, at: dict[int, int], keep: Keep | None, partitions_fixed: bool
) -> Iterator[list[Record]]:
    with log.reader(PAGE_BYTES, wait_ms=_WAIT_MS) as consumer:
        read_from(consumer, topic, at)
        looked = time.monotonic()
        try:
            while True:
                found, stuck = _some(log, consumer, topic, at)
                yield found if keep is None else [each for each in found if keep(each)]
                if stuck is not None:
                    raise Stuck(stuck)
                if not partitions_fixed and time.monotonic() - looked > _PARTITIONS_EVERY_S:
                    looked = time.monotonic()
                    _add_new(log, consumer, topic, at)
        except GeneratorExit:
            return


def _some(
    log: Log, consumer: Consumer, topic: str, at: dict[int, int]
) -> tuple[list[Record], int | None]:
    first = consumer.poll(TURN_S)
    found: list[Record] = []
    for message in [] if first is None else [first, *consumer.consume(_AT_ONCE, 0.0)]:
        error = message.error()
        if error is None:
            found.append(record_of(message))
            at[found[-1].partition] = found[-1].offset + 1
        elif is_stuck(error):
            return found, message.partition()
        elif error.code() not in PASSING:
            raise translated(error, f"following {topic}", log.bootstrap)
    return found, None


def _add_new(log: Log, consumer: Consumer, topic: str, known: dict[int, int]) -> None:
    try:
        numbers = log.partitions(topic)
    except HeadwaterError:
        return  # the broker is away for a moment
    new = [number for number in numbers if number not in known]
    if new:
        consumer.incremental_assign([TopicPartition(topic, number, 0) for number in new])
        known.update(dict.fromkeys(new, 0))
