"""A member of a consumer group that commits what an account says, for an event loop.

Called by `subscriber`. One thread owns the consumer: no call of confluent-kafka's gets through while another
thread polls. So it polls in short turns while something is to be committed, and commits in between; that a
commit is durable it hears while it polls. When partitions come or go, the loop is asked to take them or to
finish with them before the group goes on; so no two processes deliver from one partition, unless one of them
is taken for dead.

The member is static (KIP-345), named after the edges: after kill -9 the next process of that name goes on at
once, and one of the same name beside it fences this one, which then stays away.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headwater.client.errors import InstanceFenced, translated
from headwater.client.librdkafka import (
    LATER,
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.records import Keep, Record, record_of
from headwater.client.tail import PASSING
from headwater.edges.webhooks.account import Note
from headwater.edges.webhooks.deliverer import NotNow
from headwater.edges.webhooks.delivery import Listener, Place

IDLE_TURN_S = 0.1
BUSY_TURN_S = 0.01
COMMIT_TURN_S = 0.002
T = TypeVar("T")
SESSION_MS, HEARTBEAT_MS = 10_000, 1000
REBALANCE_S, COMMIT_S = 30.0, 15.0
_AT_ONCE = 500
_QUIET = "headwater.client.librdkafka"
_PASSING = PASSING | {KafkaError.UNKNOWN_TOPIC_OR_PART}
_FENCED = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED})
_log = logging.getLogger("headwater.edges")


class Member:
    """`run` it; whoever listens may then be told. `keep`: which records are wanted. It is asked in the
    member's thread: it may wait for a registry, and takes as long as the values are large."""

    def __init__(
        self, log: Log, group: str, instance: str, listener: Listener, keep: Keep | None = None
    ) -> None:
        self.group = group
        self._keep = keep
        self._log, self._instance, self._listener = log, instance, listener
        self._loop = asyncio.get_running_loop()
        self._asked: queue.SimpleQueue[_Commit | None] = queue.SimpleQueue()
        self._commit: _Commit | None = None
        self._paused: set[Place] = set()
        self._closing = False
        self._consumer = Consumer(self._settings(), logger=logging.getLogger(_QUIET))

    def _settings(self) -> dict[str, Any]:
        return {
            **self._log.settings,
            "group.id": self.group,
            "group.instance.id": self._instance,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
            "topic.metadata.refresh.interval.ms": 10_000,
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 4 * 1024,
            "on_commit": self._on_commit,
        }

    async def run(self, topics: list[str]) -> None:
        """Until `close`, or until it fails. Cancelled, it goes on: whoever cancels it closes it."""
        ended: asyncio.Future[None] = self._loop.create_future()

        def work() -> None:
            failure: Exception | None = None
            try:
                self._work(topics)
            except Exception as error:
                failure = error
            self._loop.call_soon_threadsafe(_end, ended, failure)

        threading.Thread(target=work, name=self.group, daemon=True).start()
        await asyncio.shield(ended)

    def close(self) -> None:
        self._closing = True
        self._asked.put(None)

    async def commit(self, notes: Mapping[Place, Note]) -> None:
        """Durable when it returns. Raises NotNow. One at a time."""
        places = [
            TopicPartition(*place, note.position, metadata=note.metadata)
            for place, note in notes.items()
        ]
        asked = _Commit(places, self._loop.create_future())
        self._asked.put(asked)
        await asked.heard

    # ---- the thread -------------------------------------------------------------------------------

    def _work(self, topics: list[str]) -> None:
        lost = self._on_lost
        try:
            self._consumer.subscribe(
                topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=lost
            )
            while not self._closing:
                self._turn()
        finally:
            self._consumer.close()
            self._told_of(NotNow("the member has left its group"))
            while not self._asked.empty():
                if (asked := self._asked.get()) is not None:
                    self._end_commit(asked, NotNow("the member has left its group"))

    def _turn(self) -> None:
        if self._commit is not None:
            found = self._some(COMMIT_TURN_S)  # the answer is heard within
            self._give_up_late_commit()
        elif self._listener.is_busy or not self._asked.empty():
            self._take_commit()
            found = self._some(0.0)
        else:
            found = self._some(IDLE_TURN_S)
        if found or self._paused:
            keep = self._keep
            looked = [(each, keep is None or keep(each)) for each in found]
            self._hold(self._on_loop(self._fed(looked)))

    def _take_commit(self) -> None:
        try:
            asked = self._asked.get(timeout=BUSY_TURN_S)
        except queue.Empty:
            return
        if asked is None:
            return
        self._commit = asked
        try:
            self._consumer.commit(offsets=asked.places, asynchronous=True)
        except KafkaException as failure:
            self._told_of(self._meaning(failure.args[0]))

    def _give_up_late_commit(self) -> None:
        """It may be durable or not; the next one tells as much."""
        if self._commit is not None and time.monotonic() > self._commit.asked_s + COMMIT_S:
            self._told_of(NotNow("no answer to a commit"))

    def _on_commit(self, error: Any, places: list[TopicPartition]) -> None:
        if self._commit is None:
            return
        if error is None and _content(places) != _content(self._commit.places):
            return  # of one that was committed again while partitions changed hands
        failed = error or next((each.error for each in places if each.error is not None), None)
        self._told_of(None if failed is None else self._meaning(failed))

    def _told_of(self, failure: Exception | None) -> None:
        asked, self._commit = self._commit, None
        if asked is not None:
            self._end_commit(asked, failure)

    def _end_commit(self, asked: _Commit, failure: Exception | None) -> None:
        self._loop.call_soon_threadsafe(_end, asked.heard, failure)

    def _meaning(self, error: Any) -> Exception:
        if error.code() in LATER:
            return NotNow(str(error))
        return self._told(error, f"committing for {self.group}")

    async def _fed(self, records: list[tuple[Record, bool]]) -> set[Place]:
        self._listener.feed(records)
        return self._listener.full()

    def _some(self, wait_s: float) -> list[Record]:
        first = self._consumer.poll(wait_s)
        found: list[Record] = []
        for message in [] if first is None else [first, *self._consumer.consume(_AT_ONCE, 0.0)]:
            error: Any = message.error()
            if error is None:
                found.append(record_of(message))
            elif error.code() not in _PASSING:
                raise self._told(error, f"following as {self.group}")
        return found

    def _told(self, error: Any, what: str) -> Exception:
        if error.code() in _FENCED or "FENCED" in (error.str() or "").upper():
            return InstanceFenced(
                f"another process has taken over as {self._instance} in {self.group}",
                hint="give each edges process a name of its own: name = … under [edges]",
            )
        return translated(error, what, self._log.bootstrap)

    def _hold(self, full: set[Place]) -> None:
        for change, places in (
            (self._consumer.pause, full - self._paused),
            (self._consumer.resume, self._paused - full),
        ):
            for place in places:
                try:
                    change([TopicPartition(*place)])
                except KafkaException:
                    pass  # it is no longer ours
        self._paused = full

    # ---- partitions come and go -------------------------------------------------------------------

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        where = []
        for each in consumer.committed(partitions, TIMEOUT_S):
            place = (each.topic, each.partition)
            known = each.offset >= 0
            if known:
                self._look_for_loss(consumer, each)
            self._on_loop(self._take(place, max(each.offset, 0), each.metadata if known else None))
            where.append(TopicPartition(*place, each.offset if known else OFFSET_BEGINNING))
        consumer.incremental_assign(where)
        if where:
            consumer.resume(where)  # librdkafka keeps one paused that was when it was let go

    async def _take(self, place: Place, position: int, metadata: str | None) -> None:
        self._listener.assign(place, position, metadata)

    def _look_for_loss(self, consumer: Consumer, place: TopicPartition) -> None:
        first, _ = consumer.get_watermark_offsets(place, TIMEOUT_S)
        if first > place.offset:
            _log.warning(
                "%s: %s-%d was deleted from offset %d to %d before it was read",
                *(self.group, place.topic, place.partition, place.offset, first),
            )

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Waits for what is under way, and commits it here: within a poll no answer to a commit is heard."""
        ending = self._begin_on_loop(
            self._listener.let_go([(each.topic, each.partition) for each in partitions])
        )
        deadline = time.monotonic() + REBALANCE_S
        if self._commit is not None:
            asked, self._commit = self._commit, None
            self._commit_now(consumer, asked)
        while not ending.done() and time.monotonic() < deadline:
            self._commit_next(consumer)
        self._paused.difference_update((each.topic, each.partition) for each in partitions)

    def _commit_next(self, consumer: Consumer) -> None:
        try:
            asked = self._asked.get(timeout=BUSY_TURN_S)
        except queue.Empty:
            return
        if asked is not None:
            self._commit_now(consumer, asked)

    def _commit_now(self, consumer: Consumer, asked: _Commit) -> None:
        try:
            consumer.commit(offsets=asked.places, asynchronous=False)
        except KafkaException as failure:
            self._end_commit(asked, self._meaning(failure.args[0]))
        else:
            self._end_commit(asked, None)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """They are another's already: commits would be refused."""
        self._on_revoke(consumer, partitions)

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return self._begin_on_loop(work).result(REBALANCE_S)

    def _begin_on_loop(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)


@dataclass(frozen=True)
class _Commit:
    places: list[TopicPartition]
    heard: asyncio.Future[None]
    asked_s: float = field(default_factory=time.monotonic)


def _content(places: list[TopicPartition]) -> set[tuple[str, int, int, str]]:
    return {(each.topic, each.partition, each.offset, each.metadata or "") for each in places}


def _end(future: asyncio.Future[None], failure: Exception | None) -> None:
    if future.done():
        return  # whoever waited has left
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(None)
