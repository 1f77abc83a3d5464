"""Putting rewritten segments in the place of the old ones, in a running broker.

The cleaner and excision come here with what their process has made. The partition's maintenance lock is
held for the exchange of files alone, never while a process works: retention and others would wait. What
has begun is finished even if the broker stops meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headwater.broker.partition import Partition
from headwater.log import compaction, swap
from headwater.log.compaction import Plan, Result

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def put_in_place(
    broker: Broker, partition: Partition, plan: Plan, result: Result, *, keeps_dirty: bool = False
) -> bool:
    """False if the log is no longer what was planned for. `keeps_dirty`: nothing was compacted."""
    work = _exchange(broker, partition, plan, result, keeps_dirty)
    return await broker.supervisor.whole("segment swaps", work)


async def _exchange(
    broker: Broker, partition: Partition, plan: Plan, result: Result, keeps_dirty: bool
) -> bool:
    loop = asyncio.get_running_loop()
    async with partition.maintenance:
        if partition.is_closed:
            return False  # another topic may have its folder by now
        if not keeps_dirty and not partition.log.config.compact:  # any more
            files, directory = broker.store.files, partition.log.directory
            await loop.run_in_executor(broker.duties, swap.forget, files, directory)
            return False
        if not keeps_dirty:
            # On disk before anything counts: readers, too, learn from it of gaps, if the next policy is
            # not to compact; and a segment that was clean and could not be read now is dirty.
            cleaned_offset = min(partition.log.cleaned_offset, result.cleaned_offset)
            partition.log.cleaned_offset = cleaned_offset or 1
        # Rewritten segments may have gaps; recovery must not take them for a torn tail.
        await loop.run_in_executor(broker.duties, broker.store.checkpoint)
        exchange = compaction.begin(partition.log, plan, result)
        if exchange is None:
            return False
        try:
            await loop.run_in_executor(broker.duties, exchange.run)
            old = compaction.finish(exchange, keeps_dirty=keeps_dirty)
        except Exception as error:
            await partition.reopen(error)  # only the disk knows how far it came
            raise
        await partition.cold_reads.over()
        for segment in old:
            segment.close()
    return True
