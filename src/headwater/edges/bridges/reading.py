"""The records of a topic for a bridge out, as a member of the bridge's group. Called by `running`.

The position is the group's committed offsets: `headwater groups` shows the lag, and can reset it. Several
edges with the same bridge share the partitions. The member is static (KIP-345), named after the edges: after
kill -9 the next process of that name goes on at once, and one of the same name beside it fences this one.
librdkafka's calls wait, so they are made in one thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.browse.errors import told, translated
from headwater.browse.log import Log
from headwater.browse.records import Record, record_of
from headwater.edges.bridges.config import END, Config
from headwater.edges.webhooks.subscribing import begin_at_end, instance_of

BATCH = 500
QUEUE_KBYTES = 16 * 1024
"""What is fetched ahead, and so also the size of a batch."""
SESSION_MS = 10_000
"""After so long without a sign of life, another process's edges take over the partitions."""
_POLL_S = 0.2
_AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
T = TypeVar("T")


class Reading:
    """One member of the group; used by one task."""

    def __init__(self, log: Log, config: Config, edges: str) -> None:
        self._log, self._config, self._edges = log, config, edges
        self._topic = config.topic
        self._thread = ThreadPoolExecutor(1, f"bridge-{config.name}")
        self._consumer: Consumer | None = None

    async def open(self) -> None:
        """Raises NotThere where there is no such topic."""
        await self._do(self._open)

    def _open(self) -> None:
        settings: dict[str, Any] = {
            **self._log.settings,
            "group.id": self._config.group,
            "group.instance.id": instance_of(self._log, self._edges, self._topic),
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": SESSION_MS // 4,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": QUEUE_KBYTES,
            "allow.auto.create.topics": False,
        }
        if self._config.start == END:
            begin_at_end(self._log, self._config.group, self._topic)
        self._consumer = Consumer(settings)
        self._consumer.subscribe([self._topic])

    async def next(self, most: int = BATCH) -> Sequence[Record]:
        """Those that are there, at least one."""
        while True:
            found = await self._do(self._taken, most)
            if found:
                return found

    def _taken(self, most: int) -> list[Record]:
        assert self._consumer is not None, "open() comes first"
        first = self._consumer.poll(_POLL_S)
        if first is None:
            return []
        # Without waiting: a record must not stand still until there are more.
        more = self._consumer.consume(most - 1, 0) if most > 1 else []
        return [record for each in (first, *more) if (record := self._record(each)) is not None]

    def _record(self, message: Any) -> Record | None:
        error = message.error()
        if error is not None:
            if error.code() in _AWAY:
                return None  # librdkafka goes on trying
            raise translated(error, f"reading {self._topic}", self._log.bootstrap)
        return record_of(message)

    async def commit(self, records: Sequence[Record]) -> None:
        """These are done with."""
        ends = {record.partition: record.offset + 1 for record in records}
        places = [TopicPartition(self._topic, *each) for each in ends.items()]
        await self._do(self._commit, places)

    def _commit(self, places: list[TopicPartition]) -> None:
        assert self._consumer is not None
        with told("committing a bridge's position", self._log.bootstrap):
            self._consumer.commit(offsets=places, asynchronous=False)

    async def close(self) -> None:
        if self._consumer is not None:
            await self._do(self._consumer.close)
        self._thread.shutdown(wait=False)

    async def _do(self, call: Callable[..., T], *words: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *words)
