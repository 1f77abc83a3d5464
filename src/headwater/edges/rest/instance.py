"""One member of a consumer group, for a client that comes by HTTP: its position here, its commits in the log.

Called by `instances`, each method in a thread and one at a time. What was handed out and not committed is
handed out again, to whoever has the partition next, when the instance ends.

While its client is away, `rest` takes part in the group's rebalances for it: the others would wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headwater.client.errors import translated
from headwater.client.librdkafka import (
    LATER,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.records import Record, record_of
from headwater.client.tail import PASSING
from headwater.edges.rest.access import NO_INSTANCE
from headwater.edges.rest.answers import RestError
from headwater.edges.rest.batch import Answer, Batch
from headwater.errors import HeadwaterError

QUEUE_KBYTES = 1024
FETCH_BYTES = 512 * 1024
GATHER_S = 0.01
"""For more, once there is something."""
TURN_S = 0.2
_PASSING = PASSING | {KafkaError.UNKNOWN_TOPIC_OR_PART}
_QUIET = logging.getLogger("headwater.client.librdkafka")
Place = tuple[str, int]


@dataclass(frozen=True)
class Options:
    """As POST /consumers/{group} has them."""

    format: str = "binary"
    reset: str = "latest"
    commits_itself: bool = False
    min_bytes: int = 1
    idle_s: float = 300.0


class Instance:
    """Close it: its partitions are then free for the other members."""

    def __init__(self, log: Log, owner: str, group: str, name: str, options: Options) -> None:
        self.owner, self.group, self.name, self.options = owner, group, name, options
        self.used_at = time.monotonic()
        self._log = log
        self._lock = threading.Lock()
        self._pending: deque[Record] = deque()
        """Read while its client was away; handed out first."""
        self._handed: dict[Place, int] = {}
        """What comes next in each partition."""
        self._is_paused = self._is_ending = False
        self._topics: list[str] = []
        self._consumer = Consumer(
            {
                **log.settings,
                "client.id": f"headwater-http-{name}"[:200],
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": options.reset,
                "isolation.level": "read_committed",
                "allow.auto.create.topics": False,
                "queued.max.messages.kbytes": QUEUE_KBYTES,
                "queued.min.messages": 1000,
                "max.partition.fetch.bytes": FETCH_BYTES,
                "fetch.min.bytes": options.min_bytes,
                "session.timeout.ms": 10_000,
                "max.poll.interval.ms": max(60_000, int(options.idle_s * 1000) + 60_000),
            },
            logger=_QUIET,
        )

    @property
    def topics(self) -> list[str]:
        return list(self._topics)

    def subscribe(self, topics: Sequence[str]) -> None:
        with self._used():
            self._forget()
            self._topics = sorted(set(topics))
            if self._topics:
                self._consumer.subscribe(self._topics, on_revoke=self._gone, on_lost=self._gone)
            else:
                self._consumer.unsubscribe()

    def assigned(self) -> list[Place]:
        with self._used():
            return [(each.topic, each.partition) for each in self._consumer.assignment()]

    def read(self, timeout_s: float, bytes_max: int) -> Answer:
        """What is there, or comes within the time; at least one record, however large."""
        with self._used():
            if self.options.commits_itself:
                self._commit(self._handed)
            self._resume()
            batch = Batch(self.options.format, bytes_max)
            until = time.monotonic() + timeout_s
            while not batch.is_full and not self._is_ending:
                left_s = max(0.0, until - time.monotonic())
                record = self._next(batch, left_s)
                if record is None:
                    if batch or not left_s:
                        break
                elif batch.add(record):
                    self._handed[record.topic, record.partition] = record.offset + 1
                else:
                    self._pending.appendleft(record)
                    break
            return batch.answer()

    def commit(self, position: Mapping[Place, int] | None) -> None:
        """None: all that was handed out."""
        with self._used():
            self._commit(self._handed if position is None else position)

    def committed(self) -> dict[Place, int]:
        """Of its partitions; below 0: nothing."""
        with self._used():
            asked = self._consumer.assignment()
            if not asked:
                return {}
            try:
                found = self._consumer.committed(asked, timeout=TIMEOUT_S)
            except KafkaException as failure:
                raise self._told(failure, "asking for offsets") from None
            return {(each.topic, each.partition): each.offset for each in found}

    def seek(self, position: Mapping[Place, int]) -> None:
        with self._used():
            held = {(each.topic, each.partition) for each in self._consumer.assignment()}
            for place, offset in position.items():
                if place not in held:
                    raise RestError(409, f"{place[0]}-{place[1]} is not of this instance now")
                try:
                    self._consumer.seek(TopicPartition(*place, offset))
                except KafkaException as failure:
                    raise self._told(failure, "going to an offset") from None
                self._handed[place] = offset
            kept = [each for each in self._pending if (each.topic, each.partition) not in position]
            self._pending = deque(kept)

    def attend(self) -> None:
        """Take part in the group's rebalances, and take no records, while the client is away."""
        with self._lock:
            if self._is_ending or not self._topics:
                return
            self._consumer.pause(self._consumer.assignment())
            self._is_paused = True
            record = self._polled(0)
            if record is not None:
                self._pending.append(record)

    def end(self) -> None:
        """A read that is under way comes to its end soon."""
        self._is_ending = True

    def close(self, *, in_order: bool = False) -> None:
        """`in_order`: its client says so, and has done what it was handed."""
        self._is_ending = True
        with self._lock:
            try:
                if in_order and self.options.commits_itself:
                    self._commit(self._handed)
            finally:
                self._consumer.close()

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Raises 404 where it was ended while somebody waited for it."""
        with self._lock:
            if self._is_ending:
                raise RestError(NO_INSTANCE, "the consumer instance has ended: make another one")
            yield

    def _next(self, batch: Batch, left_s: float) -> Record | None:
        """When the time is over: only what is here already."""
        if self._pending:
            return self._pending.popleft()
        try:
            return self._polled(min(GATHER_S if batch else TURN_S, left_s))
        except HeadwaterError:
            if not batch:
                raise
            return None  # what was gathered goes out: its position has been passed

    def _polled(self, wait_s: float) -> Record | None:
        message = self._consumer.poll(wait_s)
        if message is None:
            return None
        error = message.error()
        if error is None:
            return record_of(message)
        if error.code() in _PASSING:
            return None
        raise translated(error, f"reading as {self.group}", self._log.bootstrap)

    def _commit(self, position: Mapping[Place, int]) -> None:
        if not position:
            return
        places = [TopicPartition(*place, offset) for place, offset in position.items()]
        try:
            done = self._consumer.commit(offsets=places, asynchronous=False) or []
        except KafkaException as failure:
            raise self._told(failure, "committing") from None
        for each in done:
            if each.error is not None:
                raise self._told(KafkaException(each.error), "committing")

    def _told(self, failure: KafkaException, what: str) -> Exception:
        error = failure.args[0]
        if error.code() in LATER - _AWAY:
            return RestError(
                409, f"{what}: the group is being rebalanced; read again, and try then"
            )
        return translated(error, f"{what} for {self.group}", self._log.bootstrap)

    def _resume(self) -> None:
        if self._is_paused:
            self._consumer.resume(self._consumer.assignment())
            self._is_paused = False

    def _gone(self, _consumer: Consumer, places: Sequence[TopicPartition]) -> None:
        """Others have these now, and read what was not committed."""
        for each in places:
            self._handed.pop((each.topic, each.partition), None)
        lost = {(each.topic, each.partition) for each in places}
        kept = [each for each in self._pending if (each.topic, each.partition) not in lost]
        self._pending = deque(kept)

    def _forget(self) -> None:
        self._handed.clear()
        self._pending.clear()


_AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})
