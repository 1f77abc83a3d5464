"""What works on the files beside the traffic, and the one step that all of it has: putting segments in place.

The cleaner, excision and housekeeping get a `Maintenance` and nothing else of the broker. With what their
process has made, the first two come to `put_in_place`. The partition's maintenance lock is held for the
exchange of files alone, never while a process works: retention and others would wait. What has begun is
finished even if the broker stops meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from headwater.broker.clock import Clock
from headwater.broker.partition import Partition
from headwater.broker.settings import Settings
from headwater.broker.supervisor import Supervisor
from headwater.broker.topics import Topics
from headwater.log import compaction, swap
from headwater.log.compaction import Plan, Result
from headwater.log.segment import Segment
from headwater.log.store import LogStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The files, and who may work on them when."""

    settings: Settings
    clock: Clock
    supervisor: Supervisor
    store: LogStore
    topics: Topics
    threads: Executor
    """For the disk's part of it: no client waits for them."""
    catalogue: Partition
    """The catalogue's own log, which is no topic."""

    def partitions(self) -> list[Partition]:
        """Those of the topics, and the catalogue's own."""
        return [*self.topics.partitions.values(), self.catalogue]

    async def in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *arguments)

    async def put_in_place(
        self, partition: Partition, plan: Plan, result: Result, *, keeps_dirty: bool = False
    ) -> bool:
        """False if the log is no longer what was planned for. `keeps_dirty`: nothing was compacted."""
        work = self._exchange(partition, plan, result, keeps_dirty)
        return await self.supervisor.whole("segment swaps", work)

    async def _exchange(
        self, partition: Partition, plan: Plan, result: Result, keeps_dirty: bool
    ) -> bool:
        async with partition.maintenance:
            if partition.is_closed:
                return False  # another topic may have its folder by now
            if not keeps_dirty and not partition.log.config.compact:  # any more
                await self.in_thread(swap.forget, self.store.files, partition.log.directory)
                return False
            if not keeps_dirty:
                # On disk before anything counts: readers, too, learn from it of gaps, if the next policy is
                # not to compact; and a segment that was clean and could not be read now is dirty.
                cleaned_offset = min(partition.log.cleaned_offset, result.cleaned_offset)
                partition.log.cleaned_offset = cleaned_offset or 1
            # Rewritten segments may have gaps; recovery must not take them for a torn tail.
            own = [(partition.topic, partition.number)]
            await self.in_thread(self.store.checkpoint, own)
            exchange = await self.in_thread(compaction.begin, partition.log, plan, result)
            if exchange is None:
                return False
            try:
                await self.in_thread(exchange.run)
                old = compaction.finish(exchange, keeps_dirty=keeps_dirty)
            except Exception as error:
                await partition.reopen(error)  # only the disk knows how far it came
                raise
            await partition.cold_reads.over()
            await self.in_thread(_close, old)
        return True


def _close(segments: list[Segment]) -> None:
    for segment in segments:
        segment.close()
