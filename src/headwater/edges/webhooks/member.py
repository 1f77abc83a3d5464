"""A member of a consumer group that commits what an account says, for an event loop.

Called by `subscribing`. Polls and commits in two threads of its own, so that a commit need not wait for
records. When partitions come or go, the loop is asked to take them or to finish with them before the group
goes on; so no two processes deliver from one partition, unless one of them is taken for dead.

The member is static (KIP-345), named after the edges: after kill -9 the next process of that name goes on at
once, and one of the same name beside it fences this one, which then stays away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from headwater.browse.errors import Unreachable, translated
from headwater.browse.log import TIMEOUT_S, Log
from headwater.browse.records import Record, record_of
from headwater.edges.webhooks.account import Note
from headwater.edges.webhooks.delivering import NotNow
from headwater.edges.webhooks.delivery import Place

TURN_S = 0.25
SESSION_MS = 10_000
REBALANCE_S = 30.0
_AT_ONCE = 500
_PASSING = frozenset(
    {
        KafkaError._PARTITION_EOF,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
"""Of a poll: librdkafka mends it by itself."""
_LATER = frozenset(
    {
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError._ASSIGNMENT_LOST,
    }
)
"""Of a commit: the group or the broker is busy with itself."""
_FENCED = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED})
T = TypeVar("T")
_log = logging.getLogger("headwater.edges")


class Fenced(Unreachable):
    """Another process of this name has taken over."""


class Member:
    """`taken` hears where to go on in a partition, `given_up` that partitions are to be finished with."""

    def __init__(
        self,
        log: Log,
        group: str,
        instance: str,
        taken: Callable[[Place, int, str | None], None],
        given_up: Callable[[Collection[Place]], Awaitable[None]],
    ) -> None:
        self.group = group
        self._log, self._instance = log, instance
        self._taken, self._given_up = taken, given_up
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix=group)
        self._paused: set[Place] = set()
        self._consumer = Consumer(
            {
                **log.settings,
                "group.id": group,
                "group.instance.id": instance,
                "session.timeout.ms": SESSION_MS,
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "allow.auto.create.topics": False,
                "topic.metadata.refresh.interval.ms": 10_000,
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 4 * 1024,
            },
            logger=logging.getLogger("headwater.browse.librdkafka"),
        )

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(
            topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    async def poll(self) -> list[Record]:
        """What has come, after a quarter of a second at most."""
        return await self._in_thread(self._some)

    async def commit(self, notes: Mapping[Place, Note]) -> None:
        """Durable when it returns. Raises NotNow."""
        places = [
            TopicPartition(*place, note.position, metadata=note.metadata)
            for place, note in notes.items()
        ]
        await self._in_thread(self._committed, places)

    def hold(self, full: Iterable[Place]) -> None:
        """Read nothing more of these partitions for now, and on in all others."""
        wanted = set(full)
        self._change(self._consumer.pause, wanted - self._paused)
        self._change(self._consumer.resume, self._paused - wanted)
        self._paused = wanted

    async def close(self) -> None:
        await self._in_thread(self._consumer.close)
        self._threads.shutdown(wait=False)

    # ---- in threads -------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[..., T], *words: Any) -> T:
        return await self._loop.run_in_executor(self._threads, partial(work, *words))

    def _some(self) -> list[Record]:
        first = self._consumer.poll(TURN_S)
        found: list[Record] = []
        for message in [] if first is None else [first, *self._consumer.consume(_AT_ONCE, 0.0)]:
            error: Any = message.error()
            if error is None:
                found.append(record_of(message))
            elif error.code() not in _PASSING:
                raise self._told(error, f"following as {self.group}")
        return found

    def _committed(self, places: list[TopicPartition]) -> None:
        try:
            answered = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as failure:
            error: Any = failure.args[0]
        else:
            error = next((each.error for each in answered or [] if each.error is not None), None)
        if error is None:
            return
        if error.code() in _LATER:
            raise NotNow(str(error))
        raise self._told(error, f"committing for {self.group}")

    def _told(self, error: Any, what: str) -> Exception:
        if error.code() in _FENCED or "FENCED" in (error.str() or "").upper():
            return Fenced(
                f"another process has taken over as {self._instance} in {self.group}",
                hint="give each edges process a name of its own: name = … under [edges]",
            )
        return translated(error, what, self._log.bootstrap)

    def _change(self, change: Callable[[list[TopicPartition]], None], places: set[Place]) -> None:
        for place in places:
            try:
                change([TopicPartition(*place)])
            except KafkaException:
                pass  # it is no longer ours

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        where = []
        for each in consumer.committed(partitions, TIMEOUT_S):
            place = (each.topic, each.partition)
            known = each.offset >= 0
            if known:
                self._look_for_loss(consumer, each)
            self._on_loop(self._take(place, max(each.offset, 0), each.metadata if known else None))
            offset = each.offset if known else OFFSET_BEGINNING
            where.append(TopicPartition(*place, offset))
        consumer.incremental_assign(where)

    async def _take(self, place: Place, position: int, metadata: str | None) -> None:
        self._taken(place, position, metadata)

    def _look_for_loss(self, consumer: Consumer, place: TopicPartition) -> None:
        first, _ = consumer.get_watermark_offsets(place, TIMEOUT_S)
        if first > place.offset:
            _log.warning(
                "%s: %s-%d was deleted from offset %d to %d before it was read",
                *(self.group, place.topic, place.partition, place.offset, first),
            )

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = [(each.topic, each.partition) for each in partitions]
        self._on_loop(self._give_up(places))

    async def _give_up(self, places: list[Place]) -> None:
        self._paused.difference_update(places)
        await self._given_up(places)

    def _on_loop(self, work: Coroutine[Any, Any, None]) -> None:
        """From a thread: the loop is free, as it only waits for this thread."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(REBALANCE_S)
