"""Lookups by time: where in a log the first record at or after a time stands.

ListOffsets asks here. A lookup reads a batch and decompresses it, however much a stranger has put into
it, so it has threads of its own, and bounds:

    at work at once    two, whoever asks; each connection has no more than one that waits
    asked for again    while the same lookup is under way, it is waited for and not begun again
    memory             what is read and decompressed counts in the budget for as long as it takes
    nobody waits       one that has not begun yet is not begun
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from headwater.broker.memory import MemoryBudget
from headwater.broker.partition import Partition
from headwater.broker.supervisor import Supervisor
from headwater.log.partition import PartitionLog
from headwater.log.segment_reader import Found

TASK = "lookups"
THREADS = 2


class Key(NamedTuple):
    log: PartitionLog
    timestamp: int | None
    """None: the latest that there is."""


class _Lookup:
    __slots__ = ("answer", "era", "job", "partition", "size", "waiting")

    def __init__(self, partition: Partition, answer: asyncio.Future[Found | None]) -> None:
        self.partition = partition
        self.era = partition.cold_reads.begin()
        self.answer = answer
        self.job: Future[Found | None] | None = None
        self.size = 0
        """Bytes that are counted for it."""
        self.waiting = 0


class Lookups:
    """All that are under way. Belongs to the event loop."""

    def __init__(self, memory: MemoryBudget, supervisor: Supervisor) -> None:
        self._memory = memory
        self._supervisor = supervisor
        self._under_way: dict[Key, _Lookup] = {}
        self.threads = ThreadPoolExecutor(THREADS, "headwater-lookup")

    def __len__(self) -> int:
        return len(self._under_way)

    def close(self) -> None:
        self.threads.shutdown(cancel_futures=True)

    async def find(self, partition: Partition, timestamp: int | None) -> Found | None:
        """The first record at or after `timestamp`; None: there is none. Raises CorruptBatch, OSError."""
        key = Key(partition.log, timestamp)
        lookup = self._under_way.get(key) or self._begin(key, partition)
        lookup.waiting += 1
        try:
            return await asyncio.shield(lookup.answer)
        finally:
            lookup.waiting -= 1
            if not lookup.waiting and lookup.job is not None:
                lookup.job.cancel()

    def _begin(self, key: Key, partition: Partition) -> _Lookup:
        loop = asyncio.get_running_loop()
        lookup = self._under_way[key] = _Lookup(partition, loop.create_future())

        def counted(size: int) -> None:
            self._supervisor.from_thread(loop, TASK, self._count, lookup, size)

        def find() -> Found | None:
            if key.timestamp is None:
                return key.log.find_max_timestamp(counted)
            return key.log.find_time(key.timestamp, counted)

        lookup.job = self.threads.submit(find)
        lookup.job.add_done_callback(
            lambda job: self._supervisor.from_thread(loop, TASK, self._ended, key, lookup, job)
        )
        return lookup

    def _count(self, lookup: _Lookup, size: int) -> None:
        self._memory.take("payloads", size - lookup.size)
        lookup.size = size

    def _ended(self, key: Key, lookup: _Lookup, job: Future[Found | None]) -> None:
        if self._under_way.get(key) is lookup:
            del self._under_way[key]
        lookup.partition.cold_reads.end(lookup.era)
        self._memory.release("payloads", lookup.size)
        if lookup.answer.done():
            return
        if job.cancelled():
            lookup.answer.cancel()
            return
        error = job.exception()
        if error is None:
            lookup.answer.set_result(job.result())
        else:
            lookup.answer.set_exception(error)
            lookup.answer.exception()  # whoever waited may be gone
