"""A partition as the broker sees it: the log, its group commit, and those who wait for it.

One event loop owns it. Handlers call `append` and `read`; nothing else changes the log. While one
commit is at the disk, whatever is appended gathers for the next: the busier the disk, the larger the
commits. Failing to write is final for the records concerned (they are refused, the log goes back to
what is durable: `_recover`, in a thread, and until then everything is refused); failing to sync is
final for the partition, because the operating system may have dropped the pages it could not write: it
is fenced until the next start has read the disk again. A segment that could not be begun changes
nothing. Whatever the disk does, callers meet StorageFailed and nothing else. Whoever waits is told for
itself: one that fails keeps nobody behind it from its answer, and many are told in several turns of
the event loop.

- A commit must end on the log it was taken from: before the log is read anew, appends are refused, and
  only then what is on its way is waited for.
- A failure must be told to those who waited when it happened, and to nobody who came later.
- Nobody may wait for a partition to be idle, unless it takes no appends: it may never be.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from headwater.broker.cold_reads import ColdReads
from headwater.broker.disk import TURN_S, DiskThreads
from headwater.log.partition import Commit, PartitionLog, StorageFailed, SyncFailed
from headwater.record.batch import BatchHeader
from headwater.record.varint import Buffer

logger = logging.getLogger("headwater.broker")

INLINE_BYTES_MAX = 128 * 1024
"""With durability=os a write this small is only a copy into the page cache."""

RETRY_SECONDS = 1.0
WAITERS = "those who wait for a partition"

Done = Callable[[Exception | None], None]


class Watcher(Protocol):
    """Someone who wants to know that there is more to read."""

    def grew(self, size: int, partition: Partition) -> None: ...


class Partition:
    """The one owner of a `PartitionLog`."""

    __slots__ = (
        "_commit_ended",
        "_committing",
        "_disk",
        "_failed",
        "_must_reopen",
        "_recovering",
        "_refused",
        "_reopen",
        "_reported",
        "_supervisor",
        "_telling",
        "_waiting",
        "_waking",
        "cold_reads",
        "compaction_failed",
        "is_closed",
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
        self.cold_reads = ColdReads()
        """Reads under way in other threads; what they read stays open for as long as they take."""
        self.rewriting = asyncio.Lock()
        """Held by whoever has segments written anew: compaction, excision."""
        self.maintenance = asyncio.Lock()
        """Held by whoever removes or replaces segments."""
        self.compaction_failed = -1
        """Not to be compacted again before this time, in milliseconds of the clock that never goes back."""
        self.is_closed = False
        """Deleted, or the broker stops: whoever waited for `maintenance` must leave the folder alone."""
        self._disk = disk
        self._supervisor = disk.supervisor
        self._reopen = reopen
        self._must_reopen = False
        self._recovering: asyncio.Task[None] | None = None
        self._committing = False
        self._commit_ended: asyncio.Future[None] | None = None
        """For those who wait until the commit that is at the disk has ended, well or badly."""
        self._waiting: deque[tuple[int, Done]] = deque()
        self._refused: list[tuple[Done, Exception]] = []
        """Whose records could not be written; told once the log has gone back to what is durable."""
        self._waking: deque[tuple[Watcher, int]] = deque()
        """Watchers that are still to hear of growth, with its size."""
        self._telling = False
        self._failed: Exception | None = None
        self._reported: set[str] = set()

    @property
    def failed(self) -> Exception | None:
        """Why this partition takes no more writes, if so."""
        return self._failed

    def append(self, data: Buffer, header: BatchHeader, now_ms: int) -> int:
        """Stage a batch and see that it gets to disk; returns its first offset. Raises StorageFailed.

        `when_durable` must be told of it in the same turn: after a failure, others get its offset.
        """
        log = self.log
        if self._failed is not None or log.fenced:
            self._refuse_write()
        try:
            offset = log.stage(data, header, now_ms)
        except OSError as error:  # no new segment: nothing has changed
            self._disk.write_failed(error)
            raise self._refusal(error) from error
        self.commit()
        if self._failed is not None:  # written at once, and refused
            raise self._refusal(self._failed)
        return offset

    def _refuse_write(self) -> None:
        """After a write that failed (but not after a sync that did) the disk may have room again."""
        if self._failed is None:
            self._fence(SyncFailed("it could not be synced"))
        self._begin_recovery()
        raise self._refusal(self._failed)

    def _refusal(self, error: object) -> StorageFailed:
        return StorageFailed(f"{self.topic}-{self.number}: {error}")

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, so that the one before can be removed or compacted. Raises
        StorageFailed."""
        if self._failed is not None or self.log.fenced:
            self._refuse_write()
        try:
            self.log.roll(now_ms)
        except OSError as error:
            raise self._refusal(error) from error
        self.commit()

    def when_durable(self, next_offset: int, done: Done) -> None:
        """Call `done` once everything before `next_offset` is durable, or with why it will not be."""
        if next_offset <= self.log.durable_offset:
            done(None)
        elif self._failed is not None and (self.is_closed or not self._committing):
            done(self._failed)
        else:  # what is at the disk may get there, though nothing more is taken
            self._waiting.append((next_offset, done))

    def durable(self, next_offset: int) -> asyncio.Future[None]:
        """Done once everything before `next_offset` is durable; fails with StorageFailed.

        To be called in the turn of the append, whenever it is awaited: see `append`.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if waiter.done():
                return
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(StorageFailed(str(error)))

        self.when_durable(next_offset, done)
        return waiter

    def commit(self) -> None:
        """See that what is staged, or due, gets to disk; not while it takes nothing."""
        if not self._committing and self._failed is None:
            self._commit()

    def _commit(self) -> None:
        """Send what is staged to the disk; small writes that nobody waits to be synced go at once."""
        log = self.log
        while (commit := log.take()) is not None:
            self._committing = True
            if not commit.is_quick or commit.size() > INLINE_BYTES_MAX:
                self._disk.submit(commit.run, partial(self._committed, log, commit))
                return
            try:
                commit.run()
            except OSError as error:
                self._write_failed(error)
                return
            if log.fenced:  # by a sync of what was written before
                self._write_failed(SyncFailed("it could not be synced"))
                return
            self._finish(log, commit)
        self._committing = False

    def _committed(self, log: PartitionLog, commit: Commit, error: BaseException | None) -> None:
        if error is None and log.fenced:
            error = SyncFailed("it could not be synced")
        if error is not None:
            self._write_failed(error)
            return
        self._finish(log, commit)
        self._commit()

    def _finish(self, log: PartitionLog, commit: Commit) -> None:
        assert log is self.log, "a log was exchanged while a commit of it was under way"
        before = log.durable_offset
        log.finish(commit)
        if log.durable_offset > before and self.watchers:
            size = commit.size()
            self._waking.extend((watcher, size) for watcher in self.watchers)
        self._tell_of_end()
        if not self._telling:
            self._tell()

    def _tell_of_end(self) -> None:
        if self._commit_ended is not None:
            self._commit_ended.set_result(None)
            self._commit_ended = None

    def _tell(self) -> None:
        """Tell those whose time has come, for a while; the rest in the next turns."""
        self._telling = False
        until = self._supervisor.monotonic() + TURN_S
        while self._tell_one():
            if self._supervisor.monotonic() > until:
                self._telling = True
                self._supervisor.soon(WAITERS, self._tell)
                return

    def _tell_durable(self) -> None:
        """All at once: what is durable is, whatever comes now."""
        while self._tell_one():
            pass

    def _tell_one(self) -> bool:
        """Whether there was one: first those who wait for their own records."""
        if self._waiting and self._waiting[0][0] <= self.log.durable_offset:
            self._supervisor.call(WAITERS, self._waiting.popleft()[1], None)
            return True
        if self._waking:
            watcher, size = self._waking.popleft()
            if watcher in self.watchers:  # it may have had its answer meanwhile
                self._supervisor.call(WAITERS, watcher.grew, size, self)
            return True
        return False

    def _write_failed(self, error: BaseException) -> None:
        """Refuse everything that is not durable, and go back to what is."""
        says = "%s-%d: writing failed (%s); what was not acknowledged is refused. Free or replace the disk."
        logger.error(says, self.topic, self.number, error)
        self._tell_durable()
        self._supervisor.call(WAITERS, self._disk.write_failed, error)
        self.log.forget_staged()
        self._committing = False
        self._tell_of_end()
        if isinstance(error, SyncFailed):
            self._fence(error)
            self._tell_waiting(StorageFailed(str(error)))
        else:
            self._failed = StorageFailed(str(error))
            self._must_reopen = self.log.fenced = True
            failure = self._refusal(error)
            self._refused += [(done, failure) for _, done in self._waiting]
            self._waiting.clear()
            self._begin_recovery()

    def _fence(self, error: SyncFailed) -> None:
        """Nobody knows what is on disk, until a start has read it."""
        self._failed, self._must_reopen, self.log.fenced = error, False, True
        logger.error("%s-%d: takes no more writes until a restart", self.topic, self.number)

    def _tell_waiting(self, failure: Exception) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            self._supervisor.call(WAITERS, done, failure)

    def _tell_refused(self) -> None:
        refused, self._refused = self._refused, []
        for done, failure in refused:
            self._supervisor.call(WAITERS, done, failure)

    # ---- going back ------------------------------------------------------------------------------

    def _begin_recovery(self) -> None:
        if self._must_reopen and self._recovering is None:
            self._recovering = self._supervisor.spawn("recovery", self._recover())

    async def _recover(self) -> None:
        """Go back to what is durable, then tell those who waited: they may send it again at once."""
        try:
            async with self.maintenance:  # whoever changes the folder's files comes first
                if self._must_reopen:
                    await self._read_anew()
        finally:
            self._recovering = None
            self._tell_refused()
        if self._must_reopen:
            self._retry()

    def _retry(self) -> None:
        """Soon, whether or not somebody writes: readers wait for it as well."""
        self._supervisor.later(RETRY_SECONDS, "recovery", self._begin_recovery)

    async def _read_anew(self) -> None:
        """The log as the disk has it; disk work, in a thread. Held: `maintenance`. Nothing is appended
        from here to the end."""
        await self.written()
        if not self._must_reopen:
            return  # a sync failed meanwhile, or it was closed
        self._tell_durable()
        self.log.fenced = True
        loop = asyncio.get_running_loop()
        done: asyncio.Future[PartitionLog] = loop.create_future()
        found: list[PartitionLog] = []

        def finished(error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(found[0])
            else:
                done.set_exception(error)

        self._disk.submit(lambda: found.append(self._reopen(self.topic, self.number)), finished)
        try:
            log = await done
        except SyncFailed as error:
            self._fence(error)
        except Exception as error:  # tried again with the next write, or soon
            logger.error("%s-%d: not recovered: %s", self.topic, self.number, error)
            self._failed = StorageFailed(str(error))
        else:
            self._adopt(log)
            if self._must_reopen:  # else it was closed, or its topic deleted, meanwhile
                self._failed, self._must_reopen = None, False

    def _adopt(self, log: PartitionLog) -> None:
        """Whatever the old log was told while the new one was being read holds for that one, too."""
        old, self.log = self.log, log
        log.config = old.config
        log.start_offset = max(log.start_offset, old.start_offset)
        old.forget_staged()
        self._supervisor.spawn("recovery", self._abandon(old))

    async def _abandon(self, log: PartitionLog) -> None:
        await self.cold_reads.over()
        log.abandon()

    async def reopen(self, error: Exception) -> None:
        """Read the log's folder anew: a change of its files failed half-way. Held: `maintenance`."""
        if self._failed is None and self.log.fenced:
            error = SyncFailed("it could not be synced")
        if self._failed is None or self._must_reopen:
            self._failed, self._must_reopen = StorageFailed(str(error)), True
            await self._read_anew()
            if isinstance(error, SyncFailed):
                self._fence(error)
            elif self._must_reopen:
                self._retry()
            self._tell_refused()

    def report_damage(self, error: Exception | str) -> None:
        """Say it once for each place, however often it is read."""
        if str(error) not in self._reported and len(self._reported) < 1000:
            self._reported.add(str(error))
            logger.error("%s-%d: %s", self.topic, self.number, error)

    # ---- waiting for the disk --------------------------------------------------------------------

    async def flushed(self) -> None:
        """Return when what was staged before is written, the indexes of a sealed segment included, or
        is refused (`failed`). What comes meanwhile is not waited for."""
        await self._end_of_commit()  # the one that is at the disk
        await self._end_of_commit()  # the one that has what had gathered behind it

    async def _end_of_commit(self) -> None:
        if self._committing:
            if self._commit_ended is None:
                self._commit_ended = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._commit_ended)

    async def written(self) -> None:
        """Return when nothing is on its way to the disk. Appends must be refused: else they go on."""
        while self._committing:
            await self._end_of_commit()

    async def settle(self) -> None:
        """Return when neither a commit nor a recovery is under way. Not to be called by whoever holds
        `maintenance`: a recovery may be waiting for that. Appends must be refused."""
        while self._committing or self._recovering is not None:
            await self.written()
            if self._recovering is not None:
                await asyncio.wait([self._recovering])

    async def close(self) -> None:
        """No more appends; then everything staged is written."""
        closed = StorageFailed("the partition is closed")
        while self._failed is None or self._committing or self._recovering is not None:
            self._failed = self._failed or closed
            await self.settle()  # a recovery lets them in again
        self.refuse(closed)

    def refuse(self, why: Exception) -> None:
        """No more appends, and nobody waits any longer: deleted, or the broker stops."""
        self._tell_durable()
        self.is_closed = True
        self._failed, self._must_reopen = why, False
        self._tell_waiting(why)
        self._tell_refused()
        self._waking.extend((watcher, 0) for watcher in self.watchers)
        self._tell()
