"""Runs log compaction beside the traffic: one child process at a time, lowest priority.

The broker starts one. Every `log.cleaner.backoff.ms` the partitions are looked at, and those that are
dirty enough are compacted, the dirtiest first. The work is done by `headwater.log.compaction` in a
process of its own; here it is only started, and its result put in place. Whatever goes wrong leaves the
log as it was, is counted, and is tried again; meanwhile the other partitions have their turn.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headwater.broker.child import run_child
from headwater.broker.partition import Partition
from headwater.broker.swap import put_in_place
from headwater.log import compaction
from headwater.log.compaction import Plan, Result
from headwater.record.errors import CorruptBatch

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

RETRY_MS = 60_000


class Cleaner:
    """The broker's compaction."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._broker.supervisor.run("cleaner", self._run)

    async def stop(self) -> None:
        await self._broker.supervisor.end(self._task)

    async def _run(self) -> None:
        settings = self._broker.settings
        while True:
            await asyncio.sleep(settings.get("log.cleaner.backoff.ms") / 1000)
            with self._broker.supervisor.duty("cleaner"):
                while settings.get("log.cleaner.enable") and await self.clean_dirtiest():
                    pass

    async def clean_dirtiest(self) -> bool:
        """Compact one partition; False if none needs it."""
        dirty = []
        for partition in self._broker.all_partitions():
            found = await self._plan(partition)
            if found is not None:
                dirty.append(found)
        if not dirty:
            return False
        _, partition, plan = max(dirty, key=lambda item: item[0])
        with self._broker.supervisor.duty("cleaner", f"{partition.topic}-{partition.number}"):
            await self.clean(partition, plan)
        return True

    async def _plan(self, partition: Partition) -> tuple[int, Partition, Plan] | None:
        """How dirty it is, and what to do; None if there is nothing to do, or not now."""
        settings, now_ms = self._broker.settings, self._broker.clock.now_ms()
        if not partition.log.config.compact or partition.failed is not None:
            return None
        if partition.compaction_failed >= now_ms:
            return None
        if partition.rewriting.locked():  # an excision is at work; the others need not wait for it
            return None
        rate = settings.get("log.cleaner.io.max.bytes.per.second")
        with self._broker.supervisor.duty("cleaner", f"{partition.topic}-{partition.number}"):
            partition.compaction_failed, before = now_ms + RETRY_MS, partition.compaction_failed
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._broker.duties, compaction.prepare, partition.log)
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
        partition.compaction_failed = self._broker.clock.now_ms() + RETRY_MS
        async with partition.rewriting:
            result = await self._compact(partition, plan)
            if not await put_in_place(self._broker, partition, plan, result):
                return
        partition.compaction_failed = 0
        for sentence in (*result.damaged, *result.unreadable):
            partition.report_damage(CorruptBatch(f"left as it is by compaction: {sentence}"))
        logger.info(
            "%s-%d: compacted %d bytes to %d",
            partition.topic,
            partition.number,
            result.bytes_read,
            result.bytes_kept,
        )

    async def _compact(self, partition: Partition, plan: Plan) -> Result:
        command = compaction.command(partition.log.directory)
        return Result.from_json(await run_child(command, plan.to_json()))
