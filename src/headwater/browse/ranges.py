"""The committed records of some ranges of a topic's partitions, in each partition's order.

Pages, searches and replays read through `read`. It ends when every range is exhausted, whatever is at its
end: a record, a hole that compaction left, a transaction's marker or aborted records.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.browse.errors import Unreachable, translated
from headwater.browse.log import PAGE_BYTES, TIMEOUT_S, Log
from headwater.browse.records import Range, Record, record_of

AT_ONCE = 1000
"""Messages taken from the client in one call: more is no faster, fewer costs calls."""


def read(
    log: Log, topic: str, ranges: Mapping[int, Range], fetch_bytes: int = PAGE_BYTES
) -> Iterator[list[Record]]:
    """Records as they arrive, in lists; partitions are mixed. Closing the iterator ends the reading."""
    open_ends = {p: end for p, (start, end) in ranges.items() if start < end}
    if not open_ends:
        return
    with log.reader(fetch_bytes) as consumer:
        consumer.assign([TopicPartition(topic, p, ranges[p][0]) for p in open_ends])
        try:
            while open_ends:
                yield _some(log, consumer, topic, open_ends)
        except GeneratorExit:
            return  # the consumer is in order, and goes back to the pool


def _some(log: Log, consumer: Consumer, topic: str, open_ends: dict[int, int]) -> list[Record]:
    """The next records within the ranges; partitions that are through leave `open_ends`."""
    found: list[Record] = []
    for message in _messages(log, consumer, topic):
        partition = message.partition()
        end = open_ends.get(partition)
        if end is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise translated(error, f"reading {topic}", log.bootstrap)
            del open_ends[partition]
            continue
        offset = message.offset()
        if offset < end:
            found.append(record_of(message))
        if offset + 1 >= end:
            del open_ends[partition]
            if open_ends:
                # Not paused: that would outlive the assignment.
                consumer.incremental_unassign([TopicPartition(topic, partition)])
    return found


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
            raise Unreachable(
                f"reading {topic}: {log.bootstrap} sent nothing for {TIMEOUT_S:.0f} s",
                hint="see what the broker logs",
            )
