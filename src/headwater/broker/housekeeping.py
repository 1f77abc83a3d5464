"""What the broker does beside answering: retention, checkpoints, idle connections, old producers, lost
records.

Each duty is a task of its own with its own interval, so that one that fails, or waits, keeps no other
from its turn. The disk's part of them is done in the disk threads, so that no client waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence

from headwater.broker.connection import Connection
from headwater.broker.disk_space import DiskSpace
from headwater.broker.maintenance import Maintenance
from headwater.broker.memory import MemoryBudget
from headwater.broker.partition import Partition
from headwater.broker.slices import pieces
from headwater.broker.supervisor import Work
from headwater.broker.turns import Pace, in_turns
from headwater.log import reserve, retention, segment_ends
from headwater.log.partition import PartitionLog
from headwater.log.producers import SILENT_MS
from headwater.log.recovery import Report
from headwater.log.segment import SUFFIXES, Segment

logger = logging.getLogger("headwater.broker")

TICK_SECONDS = 1.0
CHECKPOINT_SECONDS = 5.0
RELEASE_SECONDS = 60.0
SEGMENTS_AT_ONCE = 200

Duty = tuple[str, Callable[[], float], Work]
"""Its name, its interval, and what to do."""


class Housekeeping:
    """The broker's background duties."""

    def __init__(
        self,
        maintenance: Maintenance,
        connections: Collection[Connection],
        memory: MemoryBudget,
        disk_space: DiskSpace,
        more: Sequence[Duty],
    ) -> None:
        """`more`: duties of others."""
        self._maintenance = maintenance
        self._connections = connections
        self._memory = memory
        self._disk_space = disk_space
        self._more = more
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        duties: list[Duty] = [
            ("idle connections", lambda: TICK_SECONDS, self._close_idle),
            ("memory", lambda: TICK_SECONDS, self._watch_memory),
            ("disk space", lambda: TICK_SECONDS, self._watch_space),
            ("retention", self._retention_seconds, self.retain),
            ("checkpoints", self._checkpoint_seconds, self._checkpoint),
            ("release", lambda: RELEASE_SECONDS, self._release),
            ("segment ends", lambda: TICK_SECONDS, SegmentEnds(self._maintenance).look),
            *self._more,
        ]
        every, now = self._maintenance.supervisor.every, self._maintenance.clock.monotonic
        self._tasks = [every(*duty, now=now) for duty in duties]

    async def stop(self) -> None:
        for task in self._tasks:
            await self._maintenance.supervisor.end(task)

    async def retain(self) -> None:
        """Drop segments that are too old, too many, or before the start of their log."""
        now_ms = self._maintenance.clock.now_ms()
        for partition in tuple(self._maintenance.topics.partitions.values()):
            with self._maintenance.supervisor.duty(
                "retention", f"{partition.topic}-{partition.number}"
            ):
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
            end_offset, config = log.next_offset, log.config
            count = await self._maintenance.in_thread(retention.expired, log, now_ms)
            if log.config != config:
                return  # what was to go may be wanted now: the next round looks again
            if count and log.segments[count - 1].next_offset > end_offset:
                count -= 1  # it was the active one, and has got new records meanwhile
            count = await self._covered(partition, count, now_ms)
            if not count or partition.is_closed or log.config != config:
                return
            dropped, own = log.drop_front(count), [(partition.topic, partition.number)]
            try:
                await self._maintenance.in_thread(self._maintenance.store.checkpoint_starts, own)
            except OSError:
                log.put_back(dropped)  # their files may not go yet: tried again next time
                raise
            try:
                await self._maintenance.in_thread(_remove_files, dropped)
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

    async def _covered(self, partition: Partition, count: int, now_ms: int) -> int:
        """So many of these segments as may go: what they say of producers must be on disk behind them. Where
        that finds no room, the disk's last bytes are for it; what is covered goes in any case."""
        log, store = partition.log, self._maintenance.store
        if count == len(log.segments):
            partition.roll(now_ms)
            await partition.flushed()  # it saves one
        for has_reserve in (False, True):
            if log.fenced or retention.may_go(log, count) == count:
                break
            if has_reserve:
                with contextlib.suppress(OSError):
                    await self._maintenance.in_thread(reserve.give_back, store.files, store.root)
            log.snapshots.is_due = True
            partition.commit()
            await partition.flushed()
        return retention.may_go(log, count)

    async def _checkpoint(self) -> None:
        store, supervisor = self._maintenance.store, self._maintenance.supervisor
        with supervisor.duty("checkpoints", "syncing"):
            await self._maintenance.in_thread(store.sync_lazy)
        await self._maintenance.in_thread(store.checkpoint)

    async def _watch_memory(self) -> None:
        now, rested = self._maintenance.clock.monotonic(), self._maintenance.supervisor.monotonic
        await self._memory.tick(now, tuple(self._connections), rested)

    async def _watch_space(self) -> None:
        await self._disk_space.watch(self._maintenance.threads)

    async def _close_idle(self) -> None:
        limit_ms = self._maintenance.settings.get("connections.max.idle.ms")
        now = self._maintenance.clock.monotonic()
        rested = self._maintenance.supervisor.monotonic
        async for connection in in_turns(tuple(self._connections), rested):
            if 0 <= limit_ms / 1000 < now - connection.inbound.last_active and (
                connection.stuck or not connection.busy
            ):
                connection.fail("silent for longer than connections.max.idle.ms", logging.INFO)

    async def _release(self) -> None:
        """Give back descriptors and indexes of sealed segments, and forget silent producers."""
        now_ms = self._maintenance.clock.now_ms()
        silent_ms: int = self._maintenance.settings.get("producer.id.expiration.ms")
        census = self._maintenance.store.census
        if census.count > census.most() // 2:
            silent_ms = min(silent_ms, SILENT_MS)  # new ones need the room more than these
        before_ms = now_ms - silent_ms
        pace = Pace(self._maintenance.supervisor.monotonic)
        for partition in tuple(self._maintenance.topics.partitions.values()):
            with self._maintenance.supervisor.duty(
                "release", f"{partition.topic}-{partition.number}"
            ):
                partition.log.producers.expire(before_ms, now_ms)
                for some in pieces(partition.log.segments, SEGMENTS_AT_ONCE):
                    if not partition.cold_reads and not partition.maintenance.locked():
                        partition.log.release(some)
                    await pace.rest()
        self._maintenance.store.count_producers()

    def _retention_seconds(self) -> float:
        wanted: int = self._maintenance.settings.get("log.retention.check.interval.ms")
        return max(wanted / 1000, TICK_SECONDS)

    def _checkpoint_seconds(self) -> float:
        """Kafka's interval, but no more than ours: what is written down need not be scanned."""
        wanted: int = self._maintenance.settings.get("log.flush.offset.checkpoint.interval.ms")
        return max(min(wanted / 1000, CHECKPOINT_SECONDS), TICK_SECONDS)


class SegmentEnds:
    """After each start every log is asked once whether records are missing between its segments: two reads
    for each, which the start itself does not make. They are named as what a start finds missing is."""

    def __init__(self, maintenance: Maintenance) -> None:
        self._maintenance = maintenance
        self._left = [each for each in maintenance.partitions() if len(each.log.segments) > 1]

    async def look(self) -> None:
        while self._left:
            partition = self._left.pop()
            name = f"{partition.topic}-{partition.number}"
            with self._maintenance.supervisor.duty("segment ends", name):
                await self._look_at(partition)

    async def _look_at(self, partition: Partition) -> None:
        log = partition.log
        for some in pieces(segment_ends.neighbours(log), SEGMENTS_AT_ONCE):
            if segment_ends.may_have_gaps(log):
                return
            holes = await self._maintenance.in_thread(segment_ends.missing, some)
            if partition.is_closed or segment_ends.may_have_gaps(log):
                return  # its folder may be another topic's by now
            self._name(log, holes)

    def _name(self, log: PartitionLog, holes: list[tuple[int, int]]) -> None:
        for first, behind in holes:
            if first >= log.start_offset:
                report = Report()
                report.lacks(log.directory, first, behind)
                where = f"{log.directory.name}/{first}"
                self._maintenance.store.on_damage(where, report.sentence(log.directory))


def _remove_files(segments: list[Segment]) -> None:
    """Oldest first; open descriptors stay readable."""
    for segment in segments:
        assert not segment.is_replaced, "the file of its name is another's"
        for suffix in SUFFIXES:
            segment.files.remove(segment.path(suffix))
