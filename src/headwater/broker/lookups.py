"""Lookups by time: where in a log the first record at or after a time stands.

ListOffsets asks here. A lookup reads a batch and decompresses it, however much a stranger has put into
it, so it has threads of its own, and bounds:

    at work at once    two, whoever asks; each connection has no more than one that waits
    in turn            addresses, so that nobody waits for all that a stranger has asked for; of one
                       address, those in logs where the last lookup had as much to decompress
    asked for again    while the same lookup is under way, it is waited for and not begun again, unless the
                       log has grown or lost its front since it had its turn; it stands in the line of
                       each address that waits for it, and begins when the first of them says so
    memory             what is read and decompressed counts in the budget for as long as it takes
    nobody waits       one that has not begun yet is not begun
"""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple
from weakref import WeakKeyDictionary

from headwater.broker.memory import MemoryBudget
from headwater.broker.partition import Partition
from headwater.broker.supervisor import Supervisor
from headwater.fair_queue import Circle, network
from headwater.log.partition import PartitionLog
from headwater.log.segment_reader import Found

TASK = "lookups"
THREADS = 2


class Key(NamedTuple):
    log: PartitionLog
    timestamp: int | None
    """None: the latest that there is."""


class _Lookup:
    __slots__ = ("answer", "era", "job", "key", "partition", "seen", "size", "waiting")

    def __init__(
        self, key: Key, partition: Partition, answer: asyncio.Future[Found | None]
    ) -> None:
        self.key = key
        self.partition = partition
        self.era = partition.cold_reads.begin()
        self.answer = answer
        self.job: Future[Found | None] | None = None
        """None: it has not had its turn."""
        self.seen = (-1, -1)
        """Where the log began and ended when it had its turn."""
        self.size = 0
        """Bytes that are counted for it."""
        self.waiting = Counter[str]()
        """How many of which address."""

    @property
    def is_current(self) -> bool:
        """Whether whoever asks now may have its answer: it has all that was acknowledged before."""
        return self.job is None or self.seen == _ends(self.key.log)


def _ends(log: PartitionLog) -> tuple[int, int]:
    return log.start_offset, log.durable_offset


class Lookups:
    """All that are under way. Belongs to the event loop."""

    def __init__(self, memory: MemoryBudget, supervisor: Supervisor) -> None:
        self._memory = memory
        self._supervisor = supervisor
        self._under_way: dict[Key, _Lookup] = {}
        self._queue: Circle[_Lookup] = Circle()
        self._sizes: WeakKeyDictionary[PartitionLog, int] = WeakKeyDictionary()
        """What the last lookup in a log held."""
        self._at_work = 0
        self.threads = ThreadPoolExecutor(THREADS, "headwater-lookup")

    def __len__(self) -> int:
        return len(self._under_way)

    def close(self) -> None:
        while self._queue:
            self._take().answer.cancel()
        self.threads.shutdown(cancel_futures=True)

    async def find(self, partition: Partition, timestamp: int | None, address: str) -> Found | None:
        """The first record at or after `timestamp`; None: there is none. Raises CorruptBatch, OSError."""
        key, line = Key(partition.log, timestamp), network(address)
        lookup = self._under_way.get(key)
        if lookup is None or not lookup.is_current:
            lookup = self._begin(key, partition)
        self._join(lookup, line)
        try:
            return await asyncio.shield(lookup.answer)
        finally:
            self._leave(lookup, line)

    def _begin(self, key: Key, partition: Partition) -> _Lookup:
        answer: asyncio.Future[Found | None] = asyncio.get_running_loop().create_future()
        lookup = self._under_way[key] = _Lookup(key, partition, answer)
        return lookup

    def _join(self, lookup: _Lookup, line: str) -> None:
        lookup.waiting[line] += 1
        if lookup.job is None and lookup.waiting[line] == 1:
            self._queue.add(line, lookup, self._sizes.get(lookup.key.log, 0))
            self._next()

    def _leave(self, lookup: _Lookup, line: str) -> None:
        lookup.waiting[line] -= 1
        if lookup.waiting[line]:
            return
        del lookup.waiting[line]
        if lookup.job is None:
            was_queued = self._queue.discard(line, lookup)
            if lookup.waiting:
                return
            if was_queued:
                lookup.partition.cold_reads.end(lookup.era)
        elif lookup.waiting or not lookup.job.cancel():
            return
        if self._under_way.get(lookup.key) is lookup:
            del self._under_way[lookup.key]  # in this turn: who asks now must not wait for it

    def _next(self) -> None:
        while self._queue and self._at_work < THREADS:
            self._at_work += 1
            self._submit(self._take())

    def _take(self) -> _Lookup:
        """The next, out of every line in which it stands."""
        lookup = self._queue.take()
        for line in lookup.waiting:
            self._queue.discard(line, lookup)
        return lookup

    def _submit(self, lookup: _Lookup) -> None:
        loop, key = asyncio.get_running_loop(), lookup.key

        def counted(size: int) -> None:
            self._supervisor.from_thread(loop, TASK, self._count, lookup, size)

        def find() -> Found | None:
            if key.timestamp is None:
                return key.log.find_max_timestamp(counted)
            return key.log.find_time(key.timestamp, counted)

        lookup.seen = _ends(key.log)
        lookup.job = self.threads.submit(find)
        lookup.job.add_done_callback(
            lambda job: self._supervisor.from_thread(loop, TASK, self._ended, lookup, job)
        )

    def _count(self, lookup: _Lookup, size: int) -> None:
        self._memory.take("payloads", size - lookup.size)
        lookup.size = size

    def _ended(self, lookup: _Lookup, job: Future[Found | None]) -> None:
        self._at_work -= 1
        self._next()
        if self._under_way.get(lookup.key) is lookup:
            del self._under_way[lookup.key]
        lookup.partition.cold_reads.end(lookup.era)
        self._memory.release("payloads", lookup.size)
        self._sizes[lookup.key.log] = lookup.size
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
