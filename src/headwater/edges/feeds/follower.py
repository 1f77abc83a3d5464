"""The one reader of a topic behind all its changefeeds: a thread that hands batches to the event loop.

A batch is the records that came, as items with their events made, and the position behind them. The position
also moves where nothing is handed out, past the markers of transactions: the end that the log tells is always
reached. The loop takes one batch after the other, each in as many turns as it needs; a thread that is further
ahead waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.browse.decoder import Decoder
from headwater.client.errors import BrokerUnreachable, RequestRefused, told, translated
from headwater.client.librdkafka import Consumer, KafkaError, TopicPartition
from headwater.client.log import SCAN_BYTES, TIMEOUT_S, Log
from headwater.client.ranges import Detour, Stuck, is_stuck
from headwater.client.records import record_of
from headwater.client.tail import PASSING
from headwater.edges.caller import SENDER
from headwater.edges.feeds.bodies import Body
from headwater.edges.feeds.event_ids import Offsets, text_of
from headwater.edges.feeds.wires import Item
from headwater.errors import HeadwaterError

TURN_S = 0.25
"""How long a stop waits at most for the thread to look."""
AT_ONCE = 1000
AHEAD_MAX = 4
"""Batches that wait for the loop."""
PARTITIONS_EVERY_S = 5.0
"""How soon a partition that is new, or a topic that is gone, is noticed: librdkafka takes minutes."""
_WAIT_MS = 500
_log = logging.getLogger("headwater.edges")


@dataclass(frozen=True)
class Batch:
    """`added`: partitions that are new, from their beginning on."""

    items: list[Item]
    position: Offsets
    added: tuple[int, ...] = ()


class Follower:
    """From given offsets on, until it is stopped or fails."""

    def __init__(
        self,
        log: Log,
        topic: str,
        start: Mapping[int, int],
        body: Body,
        decoder: Decoder,
        *,
        publish: Callable[[Batch], Awaitable[None]],
        failed: Callable[[HeadwaterError], None],
    ) -> None:
        self._client, self._topic = log, topic
        self._at = dict(start)
        self._body, self._decoder = body, decoder
        self._publish, self._failed = publish, failed
        self._loop = asyncio.get_running_loop()
        self._ahead = threading.Semaphore(AHEAD_MAX)
        self._coming: asyncio.Queue[Batch | HeadwaterError] = asyncio.Queue()
        self._stopped = threading.Event()
        self._telling: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=f"feed {topic}", daemon=True)

    def start(self) -> None:
        self._telling = self._loop.create_task(self._tell_on())
        self._telling.add_done_callback(self._ended)
        self._thread.start()

    def stop(self) -> None:
        """It ends within a moment; nothing is published any more from now on."""
        self._stopped.set()
        if self._telling is not None:
            self._telling.cancel()

    def join(self) -> None:
        self._thread.join()

    # ---- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        detour = Detour(self._client, self._topic)
        try:
            while not self._stopped.is_set():
                try:
                    self._follow()
                except Stuck as stuck:
                    p = stuck.partition
                    end = self._client.ranges(self._topic, [p])[p][1]
                    self._at[p] = detour.next_offset(p, self._at[p], end)
        except HeadwaterError as error:
            self._tell(error)
        except Exception as error:  # a thread that dies in silence would leave all clients waiting
            _log.exception("following %s failed", self._topic)
            self._tell(HeadwaterError(f"following {self._topic} failed: {error}"))

    def _follow(self) -> None:
        with self._client.reader(SCAN_BYTES, wait_ms=_WAIT_MS) as consumer:
            with told(f"following {self._topic}", self._client.bootstrap):
                # Else a consumer that had another topic before waits a second until it asks for this one.
                consumer.list_topics(self._topic, timeout=TIMEOUT_S)
            consumer.assign([TopicPartition(self._topic, p, o) for p, o in self._at.items()])
            looked = time.monotonic()
            while not self._stopped.is_set():
                batch, stuck = self._some(consumer)
                if batch is not None:
                    self._hand_over(batch)
                if stuck is not None:
                    raise Stuck(stuck)
                if time.monotonic() - looked > PARTITIONS_EVERY_S:
                    looked = time.monotonic()
                    self._add_partitions(consumer)

    def _some(self, consumer: Consumer) -> tuple[Batch | None, int | None]:
        messages: list[Any] = consumer.consume(AT_ONCE, 0.0)
        if not messages:
            first = consumer.poll(TURN_S)
            if first is None:
                return None, None
            messages = [first, *consumer.consume(AT_ONCE, 0.0)]
        items: list[Item] = []
        for message in messages:
            error, p = message.error(), message.partition()
            if error is None:
                items.append(self._item(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at[p] = max(self._at[p], message.offset())
            elif is_stuck(error):
                return Batch(items, dict(self._at)), p
            elif error.code() not in PASSING:
                raise translated(error, f"following {self._topic}", self._client.bootstrap)
        return Batch(items, dict(self._at)), None

    def _item(self, message: object) -> Item:
        record = record_of(message)
        if record.offset < self._at[record.partition]:
            raise RequestRefused(
                f"the topic {self._topic} was recreated", hint="begin without an id"
            )
        self._at[record.partition] = record.offset + 1
        return Item(record, text_of(self._at), self._body(record, self._decoder))

    def _add_partitions(self, consumer: Consumer) -> None:
        try:
            numbers = self._client.partitions(self._topic)
        except BrokerUnreachable as error:
            _log.debug("partitions of %s: %s", self._topic, error)
            return  # the broker is away for a moment
        new = [number for number in numbers if number not in self._at]
        if new:
            consumer.incremental_assign([TopicPartition(self._topic, p, 0) for p in new])
            self._at.update(dict.fromkeys(new, 0))
            self._hand_over(Batch([], dict(self._at), tuple(new)))

    # ---- to the loop --------------------------------------------------------------------------------

    def _hand_over(self, batch: Batch) -> None:
        while not self._ahead.acquire(timeout=TURN_S):
            if self._stopped.is_set():
                return
        self._tell(batch)

    def _tell(self, what: Batch | HeadwaterError) -> None:
        try:
            self._loop.call_soon_threadsafe(self._coming.put_nowait, what)
        except RuntimeError:
            self._stopped.set()  # the loop is closed: the process ends

    async def _tell_on(self) -> None:
        """On the loop: one batch after the other, each in its own time, with the feed's share of threads."""
        SENDER.set(f"feed {self._topic}")
        while isinstance(found := await self._coming.get(), Batch):
            try:
                await self._publish(found)
            finally:
                self._ahead.release()
        self._failed(found)

    def _ended(self, telling: asyncio.Task[None]) -> None:
        """A mistake of ours: else all clients would wait for ever."""
        error = None if telling.cancelled() else telling.exception()
        if error is not None:
            _log.error("telling what came to %s failed", self._topic, exc_info=error)
            self._failed(HeadwaterError(f"following {self._topic} failed: {error}"))
