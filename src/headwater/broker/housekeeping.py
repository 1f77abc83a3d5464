"""What the broker does beside answering: retention, checkpoints, idle connections, old producers.

Each duty is a task of its own with its own interval, so that one that fails, or waits, keeps no other
from its turn. The disk's part of them is done in the disk threads, so that no client waits for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from headwater.broker.partition import Partition
from headwater.broker.slices import Pace
from headwater.log import retention
from headwater.log.producers import SILENT_MS
from headwater.log.segment import SUFFIXES, Segment

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

TICK_SECONDS = 1.0
CHECKPOINT_SECONDS = 5.0
RELEASE_SECONDS = 60.0


class Housekeeping:
    """The broker's background duties."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        duties: list[tuple[str, Callable[[], float], Callable[[], Awaitable[None]]]] = [
            ("idle connections", lambda: TICK_SECONDS, self._close_idle),
            ("memory", lambda: TICK_SECONDS, self._watch_memory),
            ("disk space", lambda: TICK_SECONDS, self._watch_space),
            ("retention", self._retention_seconds, self.retain),
            ("checkpoints", self._checkpoint_seconds, self._checkpoint),
            ("release", lambda: RELEASE_SECONDS, self._release),
            ("state of groups", lambda: CHECKPOINT_SECONDS, self._broker.state.recount),
            ("share state", lambda: RELEASE_SECONDS, self._broker.shares.tidy),
        ]
        for name, seconds, duty in duties:
            run = partial(self._repeat, name, seconds, duty)
            self._tasks.append(self._broker.supervisor.run(name, run))

    async def stop(self) -> None:
        for task in self._tasks:
            await self._broker.supervisor.end(task)

    async def _repeat(
        self, name: str, seconds: Callable[[], float], duty: Callable[[], Awaitable[None]]
    ) -> None:
        """The interval is asked for at every tick: it may be changed while the broker runs."""
        began = self._broker.clock.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = self._broker.clock.monotonic()
            if now - began < seconds() and seconds() > TICK_SECONDS:
                continue
            began = now
            with self._broker.supervisor.duty(name):
                await duty()

    async def _in_disk_thread(self, function: Callable[..., None], *arguments: object) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._broker.duties, function, *arguments)

    async def retain(self) -> None:
        """Drop segments that are too old, too many, or before the start of their log."""
        now_ms = self._broker.clock.now_ms()
        for partition in tuple(self._broker.topics.partitions.values()):
            with self._broker.supervisor.duty("retention", f"{partition.topic}-{partition.number}"):
                await self.retain_partition(partition, now_ms)

    async def retain_partition(self, partition: Partition, now_ms: int) -> None:
        if partition.maintenance.locked():
            return  # segments are being replaced; the others need not wait for that
        async with partition.maintenance:
            log = partition.log
            if partition.is_closed:
                return  # another topic may have its folder by now
            if log.config.compact and log.is_overdue(now_ms):
                partition.roll(now_ms)  # so that an idle log gets clean, too
            loop, end_offset, config = asyncio.get_running_loop(), log.next_offset, log.config
            count = await loop.run_in_executor(self._broker.duties, retention.expired, log, now_ms)
            if log.config != config:
                return  # what was to go may be wanted now: the next round looks again
            if count and log.segments[count - 1].next_offset > end_offset:
                count -= 1  # it was the active one, and has got new records meanwhile
            if not count:
                return
            if count == len(log.segments):
                partition.roll(now_ms)
            dropped = log.drop_front(count)
            try:
                await self._in_disk_thread(self._broker.store.checkpoint_starts)
            except OSError:
                log.put_back(dropped)  # their files may not go yet: tried again next time
                raise
            try:
                await self._in_disk_thread(_remove_files, dropped)
            finally:  # what could not be removed goes at the next start
                await partition.cold_reads.over()
                for segment in dropped:
                    segment.close()
        logger.info(
            "%s-%d: %d old segments removed, the log starts at offset %d now",
            partition.topic,
            partition.number,
            count,
            log.start_offset,
        )

    async def _checkpoint(self) -> None:
        store, supervisor = self._broker.store, self._broker.supervisor
        with supervisor.duty("checkpoints", "syncing"):
            await self._in_disk_thread(store.sync_lazy)
        await self._in_disk_thread(store.checkpoint)

    async def _watch_memory(self) -> None:
        broker = self._broker
        broker.memory.tick(broker.clock.monotonic(), tuple(broker.connections))

    async def _watch_space(self) -> None:
        await self._broker.disk_space.watch(self._broker.duties)

    async def _close_idle(self) -> None:
        limit_ms = self._broker.settings.get("connections.max.idle.ms")
        now = self._broker.clock.monotonic()
        for connection in tuple(self._broker.connections):
            if 0 <= limit_ms / 1000 < now - connection.inbound.last_active and (
                connection.stuck or not connection.busy
            ):
                connection.fail("silent for longer than connections.max.idle.ms", logging.INFO)

    async def _release(self) -> None:
        """Give back descriptors and indexes of sealed segments, and forget silent producers."""
        now_ms = self._broker.clock.now_ms()
        silent_ms: int = self._broker.settings.get("producer.id.expiration.ms")
        census = self._broker.store.census
        if census.count > census.most() // 2:
            silent_ms = min(silent_ms, SILENT_MS)  # new ones need the room more than these
        before_ms = now_ms - silent_ms
        pace = Pace(self._broker.supervisor.monotonic)
        for partition in tuple(self._broker.topics.partitions.values()):
            with self._broker.supervisor.duty("release", f"{partition.topic}-{partition.number}"):
                partition.log.producers.expire(before_ms, now_ms)
                if not partition.cold_reads and not partition.maintenance.locked():
                    partition.log.release()
            await pace.rest()
        self._broker.store.count_producers()

    def _retention_seconds(self) -> float:
        wanted: int = self._broker.settings.get("log.retention.check.interval.ms")
        return wanted / 1000

    def _checkpoint_seconds(self) -> float:
        """Kafka's interval, but no more than ours: what is written down need not be scanned."""
        wanted: int = self._broker.settings.get("log.flush.offset.checkpoint.interval.ms")
        return min(wanted / 1000, CHECKPOINT_SECONDS)


def _remove_files(segments: list[Segment]) -> None:
    """Oldest first; open descriptors stay readable."""
    for segment in segments:
        for suffix in SUFFIXES:
            segment.files.remove(segment.path(suffix))
