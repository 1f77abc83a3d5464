"""Who owns which partitions: a consumer group over NAME.commands, in a thread of its own.

Whoever is given a partition of the inbox owns that partition of the events. The group only says who
should own; that nobody else can write is the claim's work (`claim`), so a member that was put out and does
not know it yet harms nobody. The same consumer reads the inbox: commands of other processes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from headwater.client.librdkafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from headwater.events.options import for_group

logger = logging.getLogger("headwater.events")

RELEASE_DEADLINE_S = 10.0
AGAIN_S = 1.0
_POLL_S = 0.1
_MESSAGES_MAX = 500


class Member(Protocol):
    """What the application does when the group says something; all of it on the event loop."""

    def assigned(self, partitions: list[int]) -> None: ...

    async def released(self, partitions: list[int], lost: bool) -> None: ...

    def forgotten(self, partitions: list[int]) -> None: ...

    def arrived(self, messages: list[Message]) -> None: ...

    def to_commit(self) -> dict[int, int]: ...

    def committed(self, offsets: dict[int, int]) -> None: ...


class Membership:
    """One member of the owners' group."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        topic: str,
        group: str,
        session_timeout_ms: int,
        member: Member,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.failures = 0
        """Of the member's thread, since the start."""
        self._topic = topic
        self._member = member
        self._loop = loop
        self._ending = threading.Event()
        self._committed: dict[int, int] = {}
        self._paused = False
        member_settings = for_group(settings, group, session_timeout_ms)
        self._consumer = Consumer({**member_settings, "on_commit": self._on_commit})
        self._thread = threading.Thread(target=self._run, name=f"owners of {topic}", daemon=True)
        self._thread.start()

    def pause(self, wanted: bool) -> None:
        """Read no further while too many commands wait; membership goes on."""
        self._paused = wanted

    async def leave(self) -> None:
        """Give the partitions back, and go."""
        self._ending.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        paused = False
        self._consumer.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        while not self._ending.is_set():
            try:
                found = self._consumer.consume(_MESSAGES_MAX, _POLL_S)
                if paused != self._paused:
                    paused = self._paused
                    change = self._consumer.pause if paused else self._consumer.resume
                    change(self._consumer.assignment())
                self._commit()
                good = [each for each in found if each.error() is None]
                if good:
                    self._loop.call_soon_threadsafe(self._member.arrived, good)
            except KafkaException as error:
                self.failures += 1
                logger.warning("%s: %s", self._topic, error)
            except Exception:  # a member that is silent for good would keep its partitions closed
                self.failures += 1
                logger.exception("%s: the member failed, and goes on", self._topic)
                self._ending.wait(AGAIN_S)
        self._consumer.close()

    def _commit(self) -> None:
        done = self._member.to_commit()
        new = {p: offset for p, offset in done.items() if self._committed.get(p) != offset}
        if new:
            places = [TopicPartition(self._topic, p, offset) for p, offset in new.items()]
            self._consumer.commit(offsets=places, asynchronous=True)
            self._committed |= new

    def _on_commit(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        good = {p.partition: p.offset for p in places if error is None and p.error is None}
        for each in places:
            if each.partition not in good:
                self._committed.pop(each.partition, None)  # it is tried again
        if good:
            self._loop.call_soon_threadsafe(self._member.committed, good)

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        numbers = [each.partition for each in places]
        consumer.incremental_assign(places)
        self._loop.call_soon_threadsafe(self._member.assigned, numbers)

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._release(places, lost=False)
        consumer.incremental_unassign(places)

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._release(places, lost=True)
        consumer.incremental_unassign(places)

    def _release(self, places: list[TopicPartition], lost: bool) -> None:
        numbers = [each.partition for each in places]
        waiting = asyncio.run_coroutine_threadsafe(self._member.released(numbers, lost), self._loop)
        try:
            waiting.result(RELEASE_DEADLINE_S)
        except TimeoutError:
            logger.warning("%s: owners did not let go in time", self._topic)
        if not lost:
            self._commit_last(numbers)
        for number in numbers:
            self._committed.pop(number, None)
        self._loop.call_soon_threadsafe(self._member.forgotten, numbers)

    def _commit_last(self, numbers: list[int]) -> None:
        done = {p: o for p, o in self._member.to_commit().items() if p in numbers}
        if done:
            try:
                self._consumer.commit(
                    offsets=[TopicPartition(self._topic, p, o) for p, o in done.items()],
                    asynchronous=False,
                )
                self._loop.call_soon_threadsafe(self._member.committed, done)
            except KafkaException as error:
                logger.warning("%s: offsets were not committed: %s", self._topic, error)
