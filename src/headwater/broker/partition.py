"""A partition as the broker sees it: the log, its group commit, and those who wait for it.

One event loop owns it. Handlers call `append` and `read`; nothing else changes the log. While one
commit is at the disk, whatever is appended gathers for the next: the busier the disk, the larger the
commits. Failing to write is final for the records concerned (they are refused, the log goes back to
what is durable); failing to sync is final for the partition, because the operating system may have
dropped the pages it could not write: it is fenced until the next start has read the disk again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from headwater.broker.disk import DiskThreads
from headwater.log.partition import Commit, PartitionLog, StorageFailed, SyncFailed
from headwater.record.batch import BatchHeader
from headwater.record.varint import Buffer

logger = logging.getLogger("headwater.broker")

INLINE_BYTES_MAX = 128 * 1024
"""With durability=os a write this small is only a copy into the page cache."""

Done = Callable[[Exception | None], None]


class Watcher(Protocol):
    """Someone who wants to know that there is more to read."""

    def grew(self, size: int) -> None: ...


class Partition:
    """The one owner of a `PartitionLog`."""

    __slots__ = (
        "_committing",
        "_disk",
        "_failed",
        "_must_reopen",
        "_reopen",
        "_reported",
        "_settled",
        "_waiting",
        "cold_reads",
        "compaction_failed",
        "log",
        "maintenance",
        "number",
        "rewriting",
        "topic",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        number: int,
        log: PartitionLog,
        disk: DiskThreads,
        reopen: Callable[[str, int], PartitionLog],
    ) -> None:
        self.topic = topic
        self.number = number
        self.log = log
        self.watchers: set[Watcher] = set()
        self.cold_reads = 0
        """Reads under way in other threads; segments stay open as long as there are any."""
        self.rewriting = asyncio.Lock()
        """Held by whoever has segments written anew: compaction, excision."""
        self.maintenance = asyncio.Lock()
        """Held by whoever removes or replaces segments."""
        self.compaction_failed = 0
        """Not to be compacted again before this time."""
        self._disk = disk
        self._reopen = reopen
        self._must_reopen = False
        self._committing = False
        self._settled: asyncio.Future[None] | None = None
        self._waiting: deque[tuple[int, Done]] = deque()
        self._failed: Exception | None = None
        self._reported: set[str] = set()

    @property
    def failed(self) -> Exception | None:
        """Why this partition takes no more writes, if so."""
        return self._failed

    def append(self, data: Buffer, header: BatchHeader, now_ms: int) -> int:
        """Stage a batch and see that it gets to disk; returns its first offset."""
        if self._failed is not None:
            self._try_again()
        log = self.log
        offset = log.stage(data, header, now_ms)
        if not self._committing:
            self._commit()
            if self.log is not log or self._failed is not None:  # written at once, and refused
                raise StorageFailed(f"{self.topic}-{self.number}: the disk refused the write")
        return offset

    def _try_again(self) -> None:
        """After a write that failed (but not after a sync that did) the disk may have room again."""
        if not self._must_reopen:
            raise StorageFailed(f"{self.topic}-{self.number}: {self._failed}")
        try:
            self.log = self._reopen(self.topic, self.number)
        except OSError as error:
            raise StorageFailed(f"{self.topic}-{self.number}: {error}") from error
        self._failed, self._must_reopen = None, False

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, so that the one before can be removed or compacted."""
        self.log.roll(now_ms)
        if not self._committing:
            self._commit()

    def when_durable(self, next_offset: int, done: Done) -> None:
        """Call `done` once everything before `next_offset` is durable, or with why it will not be."""
        if next_offset <= self.log.durable_offset:
            done(None)
        elif self._failed is not None:
            done(self._failed)
        else:
            self._waiting.append((next_offset, done))

    async def durable(self, next_offset: int) -> None:
        """Return once everything before `next_offset` is durable. Raises StorageFailed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if waiter.done():
                return
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(StorageFailed(str(error)))

        self.when_durable(next_offset, done)
        await waiter

    def _commit(self) -> None:
        """Send what is staged to the disk; small writes that nobody waits to be synced go at once."""
        while (commit := self.log.take()) is not None:
            self._committing = True
            if commit.unsynced or commit.size() > INLINE_BYTES_MAX:
                self._disk.submit(commit.run, partial(self._committed, commit))
                return
            try:
                commit.run()
            except OSError as error:
                self._write_failed(error)
                return
            self._finish(commit)
        self._idle()

    def _idle(self) -> None:
        """Nothing is on its way to the disk."""
        self._committing = False
        if self._settled is not None:
            self._settled.set_result(None)
            self._settled = None

    def _committed(self, commit: Commit, error: BaseException | None) -> None:
        if error is not None:
            self._write_failed(error)
            return
        self._finish(commit)
        self._commit()

    def _finish(self, commit: Commit) -> None:
        before = self.log.durable_offset
        self.log.finish(commit)
        reached = self.log.durable_offset
        waiting = self._waiting
        while waiting and waiting[0][0] <= reached:
            waiting.popleft()[1](None)
        if reached > before and self.watchers:
            size = commit.size()
            for watcher in tuple(self.watchers):
                watcher.grew(size)

    def _write_failed(self, error: BaseException) -> None:
        """Refuse everything that is not durable, and go back to what is."""
        logger.error(
            "%s-%d: writing failed (%s); what was not acknowledged is refused. "
            "Free or mend the disk.",
            self.topic,
            self.number,
            error,
        )
        failure = StorageFailed(str(error))
        waiting, self._waiting = self._waiting, deque()
        if isinstance(error, SyncFailed):
            self._failed, self.log.fenced = error, True
            logger.error("%s-%d: takes no more writes until a restart", self.topic, self.number)
        else:
            try:
                self.log = self._reopen(self.topic, self.number)
            except OSError as worse:
                self._failed, self._must_reopen, self.log.fenced = worse, True, True
        for _, done in waiting:
            done(failure)
        if self._failed is None:
            self._commit()
        else:
            self._idle()

    async def reopen(self) -> None:
        """Read the log's folder anew: a change of its files failed half-way."""
        await self.settle()
        try:
            self.log = self._reopen(self.topic, self.number)
        except OSError as error:
            self._failed, self._must_reopen, self.log.fenced = error, True, True

    async def when_unread(self) -> None:
        """Return once no other thread reads this log."""
        while self.cold_reads:
            await asyncio.sleep(0.01)

    def report_damage(self, error: Exception | str) -> None:
        """Say it once for each place, however often it is read."""
        if str(error) not in self._reported and len(self._reported) < 1000:
            self._reported.add(str(error))
            logger.error("%s-%d: %s", self.topic, self.number, error)

    async def settle(self) -> None:
        """Return when nothing is on its way to the disk."""
        if self._committing:
            if self._settled is None:
                self._settled = asyncio.get_running_loop().create_future()
            await self._settled

    async def close(self) -> None:
        """Everything staged is written; then no more appends."""
        await self.settle()
        self.refuse(StorageFailed("the partition is closed"))

    def refuse(self, why: Exception) -> None:
        """No more appends, and nobody waits any longer: deleted, or the broker stops."""
        self._failed = why
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(why)
        for watcher in tuple(self.watchers):
            watcher.grew(0)
