"""Runs log compaction beside the traffic: one child process at a time, lowest priority.

The broker starts one. Every `log.cleaner.backoff.ms` the partitions are looked at, and those that are
dirty enough are compacted, the dirtiest first. The work is done by `headwater.log.compaction` in a
process of its own; here it is only started, and its result put in place. Whatever goes wrong leaves the
log as it was, and is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headwater.broker.child import ChildFailed, run_child
from headwater.broker.partition import Partition
from headwater.log import compaction
from headwater.log.compaction import Plan, Result

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")


class Cleaner:
    """The broker's compaction."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        settings = self._broker.settings
        while True:
            await asyncio.sleep(settings.get("log.cleaner.backoff.ms") / 1000)
            try:
                while settings.get("log.cleaner.enable") and await self.clean_dirtiest():
                    pass
            except OSError as error:
                logger.error("compaction: %s", error)

    async def clean_dirtiest(self) -> bool:
        """Compact one partition; False if none needs it."""
        settings, now_ms = self._broker.settings, self._broker.clock.now_ms()
        rate = settings.get("log.cleaner.io.max.bytes.per.second")
        dirty: list[tuple[int, Partition, Plan]] = []
        for partition in self._broker.all_partitions():
            if partition.failed is None and partition.compaction_failed < now_ms:
                plan = compaction.plan(
                    partition.log,
                    now_ms,
                    key_bytes_max=settings.get("log.cleaner.dedupe.buffer.size"),
                    bytes_per_second=rate if rate < 2**60 else None,
                )
                if plan is not None:
                    size = partition.log.next_offset - plan.first_dirty_offset
                    dirty.append((size, partition, plan))
        if not dirty:
            return False
        _, partition, plan = max(dirty, key=lambda item: item[0])
        await self.clean(partition, plan)
        return True

    async def clean(self, partition: Partition, plan: Plan) -> None:
        """Carry out one plan. If it fails, the partition is left alone for a while."""
        partition.compaction_failed = self._broker.clock.now_ms() + 60_000
        async with partition.rewriting:
            await self._clean(partition, plan)

    async def _clean(self, partition: Partition, plan: Plan) -> None:
        result = await self._compact(partition, plan)
        if result is None:
            return
        for sentence in result.unreadable:
            partition.report_damage(f"left as it is by compaction: {sentence}")
        loop = asyncio.get_running_loop()
        async with partition.maintenance:
            # Compacted segments have gaps; recovery must not take them for a torn tail.
            await loop.run_in_executor(self._broker.executor, self._broker.store.checkpoint)
            exchange = compaction.begin(partition.log, plan, result)
            if exchange is None:
                return
            try:
                await loop.run_in_executor(self._broker.executor, exchange.run)
            except OSError as error:
                logger.error("%s-%d: compaction: %s", partition.topic, partition.number, error)
                await partition.reopen()
                return
            old = compaction.finish(exchange)
            await partition.when_unread()
            for segment in old:
                segment.close()
        partition.compaction_failed = 0
        logger.info(
            "%s-%d: compacted %d bytes to %d",
            partition.topic,
            partition.number,
            result.bytes_read,
            result.bytes_kept,
        )

    async def _compact(self, partition: Partition, plan: Plan) -> Result | None:
        try:
            command = compaction.command(partition.log.directory)
            return Result.from_json(await run_child(command, plan.to_json()))
        except ChildFailed as error:
            logger.error("compaction failed: %s", error)
            return None
