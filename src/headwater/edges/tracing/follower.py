"""The service that tells records' ways: it follows the topics, and looks how far their readers are.

Every record of the followed topics is looked at, but only for a sampled `traceparent` among its headers.
While such records wait for a reader, the groups are asked every `LOOK_S`; else not at all. It begins at the
topics' ends: what came while it was away is not told, since nobody has seen when it was read.

Also here: how far those are who read the topics: views, webhooks, bridges, and groups that have members now.

All of them commit offsets as consumer groups, so one question suffices. Groups that nobody is in any more,
and that are none of ours, are not waited for.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

from headwater.client import groups
from headwater.client.cluster import EARLIEST, LATEST
from headwater.client.errors import translated
from headwater.client.librdkafka import Consumer, KafkaError, TopicPartition
from headwater.client.log import Log
from headwater.client.ranges import is_stuck
from headwater.client.records import record_of
from headwater.client.tail import PASSING
from headwater.edges import counts
from headwater.edges.tracing.exporter import Exporter
from headwater.edges.tracing.in_flight import Pending, Positions
from headwater.edges.tracing.settings import Tracing
from headwater.edges.tracing.spans import capture_span, followed, is_ours
from headwater.edges.tracing.traceparent import TRACEPARENT

LOOK_S = 0.1
TOPICS_EVERY_S = 5.0
_AT_ONCE = 1000
_TURN_S = 0.05
_PASSING = PASSING | {KafkaError.UNKNOWN_TOPIC_OR_PART}  # deleted: the next listing forgets it
_READER: dict[str, Any] = {
    "group.id": "headwater-tracing",  # never joined, and nothing is committed
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "latest",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
    "queued.max.messages.kbytes": 16 * 1024,
    "fetch.wait.max.ms": 100,
}
_FOLLOWED = counts.counter("headwater_edge_traced_records_total", "Records whose way was followed")
_LEFT_OUT = counts.counter(
    "headwater_edge_traced_records_left_out_total", "Records with a trace, beyond the bounds"
)


class Follower:
    """`tracing`, among the services."""

    name = "tracing"

    def __init__(self, log: Log, tracing: Tracing, exporter: Exporter) -> None:
        self._log, self._tracing, self._exporter = log, tracing, exporter
        self._pending = Pending(int(tracing.patience_seconds * 1e9))
        self._readers = Readers(log)
        self._at: dict[tuple[str, int], int] = {}
        self.is_following = threading.Event()
        """Set once it stands at the topics' ends: what comes from now on is told."""

    async def run(self) -> None:
        stop = threading.Event()
        try:
            await asyncio.to_thread(self._follow, stop)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.to_thread(self._exporter.close)
            raise

    def facts(self) -> Mapping[str, Any]:
        """For GET /status."""
        return {
            "partitions": len(self._at),
            "records_waiting_for_readers": len(self._pending),
            "spans_sent": self._exporter.sent,
            "spans_waiting": self._exporter.waiting,
        }

    def _follow(self, stop: threading.Event) -> None:
        self._at.clear()
        consumer = Consumer({**self._log.settings, **_READER})
        try:
            self._assign(consumer, LATEST)
            self.is_following.set()
            listed = looked = time.monotonic()
            while not stop.is_set():
                self._take(consumer.consume(_AT_ONCE, _TURN_S))
                now = time.monotonic()
                if now - listed > TOPICS_EVERY_S:
                    listed = now
                    self._assign(consumer, EARLIEST)  # new ones: all of them is new
                if len(self._pending) and now - looked > LOOK_S:
                    looked = now
                    self.look()
        finally:
            self.is_following.clear()
            consumer.close()

    def look(self) -> None:
        positions = self._readers.positions()
        self._exporter.tell(self._pending.look(positions, time.time_ns()))

    def _take(self, messages: list[Any]) -> None:
        for message in messages:
            error = message.error()
            if error is not None:
                self._heard(error)
                continue
            headers = message.headers()
            if headers and any(name == TRACEPARENT for name, _ in headers):
                self._begin(message)

    def _begin(self, message: Any) -> None:
        record = record_of(message)
        each = followed(record)
        if each is None:
            return
        span = capture_span(record, each)
        if span is not None:
            self._exporter.tell([span])
        (_FOLLOWED if self._pending.add(each, time.time_ns()) else _LEFT_OUT).inc()

    def _heard(self, error: Any) -> None:
        if error.code() not in _PASSING and not is_stuck(error):
            raise translated(error, "following the topics", self._log.bootstrap)

    def _assign(self, consumer: Consumer, where: int) -> None:
        """Follow the topics that there are now; those that are new begin at `where`."""
        places = {
            (name, number)
            for name, count in self._log.topics().items()
            if self._tracing.follows(name)
            for number in range(count)
        }
        new = sorted(places - set(self._at))
        gone = [TopicPartition(*place) for place in sorted(set(self._at) - places)]
        if gone:
            consumer.incremental_unassign(gone)
            for each in gone:
                del self._at[each.topic, each.partition]
        if new:
            begin = self._log.offsets(new, where)
            self._at.update(begin)
            consumer.incremental_assign([TopicPartition(*p, begin[p]) for p in new])


LISTED_EVERY_S = 3.0
GROUPS_MAX = 200


class Readers:
    """Asked by one thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._names: list[str] = []
        self._listed = float("-inf")

    def positions(self) -> Positions:
        """As they are now. Raises Unreachable."""
        if time.monotonic() - self._listed > LISTED_EVERY_S:
            found = groups.listed(self._log)
            chosen = [each.name for each in found if each.is_active or is_ours(each.name)]
            self._names = chosen[:GROUPS_MAX]
            self._listed = time.monotonic()
        return groups.committed(self._log, self._names)
