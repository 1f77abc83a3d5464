"""What the broker does beside answering: retention, checkpoints, idle connections, old producers.

One task, waking every second; each duty has its own interval. Duties run one after the other, and the
disk's part of them in the disk threads, so that no client waits for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.broker.partition import Partition
from headwater.broker.settings import Settings
from headwater.log import retention
from headwater.log.partition import StorageFailed
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
        self._task: asyncio.Task[None] | None = None
        self._due: dict[str, float] = {}

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        broker, settings = self._broker, self._broker.settings
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                self._close_idle()
                broker.memory.tick(broker.clock.monotonic(), tuple(broker.connections))
                if self._is_due(
                    "retention", settings.get("log.retention.check.interval.ms") / 1000
                ):
                    await self.retain()
                if self._is_due("checkpoint", _checkpoint_seconds(settings)):
                    await self._in_disk_thread(broker.store.sync_lazy)
                    await self._in_disk_thread(broker.store.checkpoint)
                if self._is_due("release", RELEASE_SECONDS):
                    self._release()
                    await broker.shares.tidy()
            except (OSError, StorageFailed) as error:
                logger.error("housekeeping: %s", error)

    def _is_due(self, duty: str, seconds: float) -> bool:
        now = self._broker.clock.monotonic()
        if now < self._due.setdefault(duty, now + seconds):
            return False
        self._due[duty] = now + seconds
        return True

    async def _in_disk_thread(self, function: Callable[..., None], *arguments: object) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._broker.executor, function, *arguments)

    async def retain(self) -> None:
        """Drop segments that are too old, too many, or before the start of their log."""
        now_ms = self._broker.clock.now_ms()
        for partition in tuple(self._broker.topics.partitions.values()):
            await self.retain_partition(partition, now_ms)

    async def retain_partition(self, partition: Partition, now_ms: int) -> None:
        async with partition.maintenance:
            log = partition.log
            if log.config.compact and log.is_overdue(now_ms):
                partition.roll(now_ms)  # so that an idle log gets clean, too
            count = retention.expired(log, now_ms)
            if not count:
                return
            if count == len(log.segments):
                partition.roll(now_ms)
            dropped = log.drop_front(count)
            await self._in_disk_thread(self._broker.store.checkpoint_starts)
            await self._in_disk_thread(_remove_files, dropped)
            await partition.when_unread()
            for segment in dropped:
                segment.close()
        logger.info(
            "%s-%d: %d old segments removed, the log starts at offset %d now",
            partition.topic,
            partition.number,
            count,
            log.start_offset,
        )

    def _close_idle(self) -> None:
        limit_ms = self._broker.settings.get("connections.max.idle.ms")
        now = self._broker.clock.monotonic()
        for connection in tuple(self._broker.connections):
            if 0 <= limit_ms / 1000 < now - connection.last_active and (
                connection.stuck or not connection.busy
            ):
                connection.fail("silent for longer than connections.max.idle.ms", logging.INFO)

    def _release(self) -> None:
        """Give back descriptors and indexes of sealed segments, and forget silent producers."""
        before_ms = self._broker.clock.now_ms() - self._broker.settings.get(
            "producer.id.expiration.ms"
        )
        for partition in self._broker.topics.partitions.values():
            partition.log.producers.expire(before_ms)
            if not partition.cold_reads and not partition.maintenance.locked():
                for segment in partition.log.segments[:-1]:
                    segment.release()


def _checkpoint_seconds(settings: Settings) -> float:
    """Kafka's interval, but no more than ours: what is written down need not be scanned."""
    wanted: int = settings.get("log.flush.offset.checkpoint.interval.ms")
    return min(wanted / 1000, CHECKPOINT_SECONDS)


def _remove_files(segments: list[Segment]) -> None:
    """Oldest first; open descriptors stay readable."""
    for segment in segments:
        for suffix in SUFFIXES:
            segment.files.remove(segment.path(suffix))
