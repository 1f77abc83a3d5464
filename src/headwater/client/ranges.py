"""The committed records of some ranges of a topic's partitions, in each partition's order.

Pages, searches and replays read through `read`. It ends when every range is exhausted, whatever is at its
end: a record, a hole that compaction left, a transaction's marker or aborted records.

Also here: a place that librdkafka cannot pass by itself: a segment of which compaction left only an
empty batch.

An answer with only that batch is taken for one that was cut off; the client asks for more and more bytes at
the same offset, and gives up with MSG_SIZE_TOO_LARGE. `ranges` and `tail` then drop the client, whose
fetches have become huge, and go on with another from the next offset that has a record.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.client.errors import BrokerUnreachable, RequestRefused, translated
from headwater.client.log import PAGE_BYTES, TIMEOUT_S, Log, read_from
from headwater.client.records import Range, Record, record_of

AT_ONCE = 1000
"""Messages taken from the client in one call: more is no faster, fewer costs calls."""


def read(
    log: Log, topic: str, ranges: Mapping[int, Range], fetch_bytes: int = PAGE_BYTES
) -> Iterator[list[Record]]:
    """Records as they arrive, in lists; partitions are mixed. Closing the iterator ends the reading."""
    at = {p: start for p, (start, _) in ranges.items()}
    ends = {p: end for p, (start, end) in ranges.items() if start < end}
    detour = Detour(log, topic)
    while ends:
        try:
            yield from _from(log, topic, at, ends, fetch_bytes)
        except Stuck as stuck:
            p = stuck.partition
            at[p] = detour.next_offset(p, at[p], ends[p])
            if at[p] >= ends[p]:
                del ends[p]


def _from(
    log: Log, topic: str, at: dict[int, int], ends: dict[int, int], fetch_bytes: int
) -> Iterator[list[Record]]:
    """With one consumer; `at` tells how far each partition is, and what is through leaves `ends`."""
    with log.reader(fetch_bytes) as consumer:
        read_from(consumer, topic, {p: at[p] for p in ends})
        try:
            while ends:
                found, stuck = _some(log, consumer, topic, at, ends)
                yield found
                if stuck is not None:
                    raise Stuck(stuck)
        except GeneratorExit:
            return  # the consumer is in order, and goes back to the pool


def _some(
    log: Log, consumer: Consumer, topic: str, at: dict[int, int], ends: dict[int, int]
) -> tuple[list[Record], int | None]:
    """Records, and the partition at which the consumer is stuck; what it had fetched then comes again."""
    found: list[Record] = []
    for message in _messages(log, consumer, topic):
        partition = message.partition()
        end = ends.get(partition)
        if end is None:
            continue
        error = message.error()
        if error is not None:
            if is_stuck(error):
                return found, partition
            if error.code() != KafkaError._PARTITION_EOF:
                raise translated(error, f"reading {topic}", log.bootstrap)
            del ends[partition]
            continue
        at[partition] = message.offset() + 1
        if message.offset() < end:
            found.append(record_of(message))
        if at[partition] >= end:
            del ends[partition]
            if ends:
                # Not paused: that would outlive the assignment.
                consumer.incremental_unassign([TopicPartition(topic, partition)])
    return found, None


def _messages(log: Log, consumer: Consumer, topic: str) -> list[Any]:
    """At least one: what is there already, else the first to come."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        found = consumer.consume(AT_ONCE, 0.0)
        if found:
            return found
        first = consumer.poll(max(0.0, deadline - time.monotonic()))
        if first is not None:
            return [first]
        if time.monotonic() >= deadline:
            raise BrokerUnreachable(
                f"reading {topic}: {log.bootstrap} sent nothing for {TIMEOUT_S:.0f} s",
                hint="see what the broker logs",
            )


_TRIES_MAX = 3


class Stuck(Exception):
    """Reading this partition does not go on at its position."""

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.partition = partition


def is_stuck(error: Any) -> bool:
    return error.code() == KafkaError.MSG_SIZE_TOO_LARGE


class Detour:
    """Finds where to go on; gives up on a record that is really too large."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self._topic = log, topic
        self._tries: Counter[tuple[int, int]] = Counter()

    def next_offset(self, partition: int, offset: int, end: int) -> int:
        """Of the first record from that offset on; `end` if there is none before it."""
        from headwater.client.key_search import Stretch, first_record

        with self._log.cluster() as connected:
            found = first_record(connected, Stretch(self._topic, partition, offset, end))
        at = end if found is None else found.offset
        self._tries[partition, at] += 1
        if self._tries[partition, at] > _TRIES_MAX:
            raise RequestRefused(
                f"the record at {partition}:{at} of {self._topic} is larger than can be read here",
                hint="begin behind it",
            )
        return at
