"""Runs log compaction beside the traffic: one child process at a time, lowest priority.

The broker starts one. Every `log.cleaner.backoff.ms` the partitions are looked at, and those that are
dirty enough are compacted, the dirtiest first. The work is done by `headwater.log.compaction` in a
process of its own; here it is only started, and its result put in place. Whatever goes wrong leaves the
log as it was, is counted, and is tried again; meanwhile the other partitions have their turn.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager

from headwater.broker.child import run_child
from headwater.broker.maintenance import Maintenance
from headwater.broker.partition import Partition
from headwater.log import compaction
from headwater.log.compaction import Plan, Result
from headwater.record.errors import CorruptBatch

logger = logging.getLogger("headwater.broker")

RETRY_MS = 60_000


class Cleaner:
    """The broker's compaction."""

    def __init__(self, maintenance: Maintenance) -> None:
        self._maintenance = maintenance
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        settings = self._maintenance.settings
        self._task = self._maintenance.supervisor.every(
            "cleaner", lambda: settings.get("log.cleaner.backoff.ms") / 1000, self.clean_all
        )

    async def stop(self) -> None:
        await self._maintenance.supervisor.end(self._task)

    async def clean_all(self) -> None:
        settings = self._maintenance.settings
        while settings.get("log.cleaner.enable") and await self.clean_dirtiest():
            pass

    async def clean_dirtiest(self) -> bool:
        """Compact one partition; False if none needs it."""
        dirty = []
        for partition in self._maintenance.partitions():
            found = await self._plan(partition)
            if found is not None:
                dirty.append(found)
        if not dirty:
            return False
        _, partition, plan = max(dirty, key=lambda item: item[0])
        with self._duty(partition):
            await self.clean(partition, plan)
        return True

    def _duty(self, partition: Partition) -> AbstractContextManager[None]:
        name = f"{partition.topic}-{partition.number}"
        return self._maintenance.supervisor.duty("cleaner", name, lambda: partition.is_closed)

    async def _plan(self, partition: Partition) -> tuple[int, Partition, Plan] | None:
        """How dirty it is, and what to do; None if there is nothing to do, or not now."""
        settings, now_ms = self._maintenance.settings, self._maintenance.clock.now_ms()
        if not partition.log.config.compact or partition.failed is not None:
            return None
        if partition.compaction_failed >= self._monotonic_ms():
            return None
        if partition.rewriting.locked():  # an excision is at work; the others need not wait for it
            return None
        rate = settings.get("log.cleaner.io.max.bytes.per.second")
        with self._duty(partition):
            before = partition.compaction_failed
            partition.compaction_failed = self._monotonic_ms() + RETRY_MS
            await self._maintenance.in_thread(compaction.prepare, partition.log)
            plan = compaction.plan(
                partition.log,
                now_ms,
                key_bytes_max=settings.get("log.cleaner.dedupe.buffer.size"),
                bytes_per_second=rate if rate < 2**60 else None,
            )
            partition.compaction_failed = before
            if plan is not None:
                return partition.log.next_offset - plan.first_dirty_offset, partition, plan
        return None

    async def clean(self, partition: Partition, plan: Plan) -> None:
        """Carry out one plan. If it fails, the partition is left alone for a while."""
        partition.compaction_failed = self._monotonic_ms() + RETRY_MS
        async with partition.rewriting:
            result = await self._compact(partition, plan)
            if not await self._maintenance.put_in_place(partition, plan, result):
                return
        partition.compaction_failed = -1
        for sentence in (*result.damaged, *result.unreadable):
            partition.report_damage(CorruptBatch(f"left as it is by compaction: {sentence}"))
        logger.info(
            "%s-%d: compacted %d bytes to %d",
            partition.topic,
            partition.number,
            result.bytes_read,
            result.bytes_kept,
        )

    def _monotonic_ms(self) -> int:
        return int(self._maintenance.clock.monotonic() * 1000)

    async def _compact(self, partition: Partition, plan: Plan) -> Result:
        command = compaction.command(partition.log.directory)
        told = await self._maintenance.in_thread(plan.to_json)
        return Result.from_json(await run_child(command, told))
