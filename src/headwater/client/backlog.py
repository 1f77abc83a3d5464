"""What a reader has not read yet: how old it is, and how many records it is. Asked by reports of progress."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from headwater.client.errors import told
from headwater.client.log import Log
from headwater.client.offsets import Place

LOOK_S = 2.0
_FETCH_BYTES = 64 * 1024


def oldest_ms(log: Log, position: Mapping[Place, int]) -> int | None:
    """The timestamp of the oldest record at or after the position; None if none came in time."""
    waiting, stamps = {**position}, []
    for record in _read(log, position, 1):
        if waiting.pop((record.topic(), record.partition()), None) is not None:
            stamps.append(record.timestamp()[1])
        if not waiting:
            break
    return min(stamps, default=None)


def count(log: Log, begin: Mapping[Place, int]) -> tuple[int, dict[Place, int]]:
    """Records at or after `begin`, and where to go on: offsets alone also count markers."""
    more = {place for place, end in log.ends(begin).items() if end > begin[place]}
    counted, reached = 0, dict(begin)
    for record in _read(log, {place: begin[place] for place in more}, 1000):
        counted += 1
        reached[record.topic(), record.partition()] = record.offset() + 1
    return counted, reached


def _read(log: Log, begin: Mapping[Place, int], at_once: int) -> Iterator[Any]:
    """Committed records from there to the end, or for as long as a look may take."""
    if not begin:
        return
    with told("reading what waits", log.bootstrap), log.reader(_FETCH_BYTES) as consumer:
        consumer.assign([TopicPartition(*place, offset) for place, offset in begin.items()])
        deadline, unread = time.monotonic() + LOOK_S, len(begin)
        try:
            while unread and time.monotonic() < deadline:
                for record in consumer.consume(at_once, 0.2):
                    error = record.error()
                    if error is None:
                        yield record
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unread -= 1
        except GeneratorExit:
            return  # the consumer is in order, and goes back to the pool
