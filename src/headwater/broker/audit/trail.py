"""`__headwater_changes`: who changed what, written by the broker alone, in the order of its answers.

The handlers' changes (`changes`) wait in memory, a bounded number of bytes, and a supervised task writes
them a moment later: no request waits for it or fails by it. What does not fit is counted in the health; while
the disk refuses, what is there is tried again. A line that cannot be written for another reason is dropped,
and counted. A record's value is JSON:

    at_ms, api, what, kind, name, details, error    see `description.Change`
    principal, host                                 of the connection, as the broker knows them
    client_id                                       what the client calls itself: a claim
    on_behalf_of                                    for whom a principal of `audit.delegates` says it asks
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headwater.broker import internal_topics
from headwater.broker.audit.description import BROKEN, UNKNOWN, Change, MayTell
from headwater.broker.audit.limits import Refusals, line
from headwater.broker.clock import Clock
from headwater.broker.internal_topic import InternalTopic, Staged
from headwater.broker.partition import Partition
from headwater.broker.registry import Context
from headwater.broker.security.authorizer import super_users
from headwater.broker.settings import Settings
from headwater.broker.supervisor import Supervisor
from headwater.broker.topics import Topics
from headwater.log.partition import StorageFailed
from headwater.on_behalf import person_of

logger = logging.getLogger("headwater.broker")

NAME = internal_topics.CHANGES
WAITING_BYTES_MAX = 16 * 1024**2
BATCH_BYTES_MAX = 1024**2
RECORD_BYTES = 64
"""More than a record has beside its value."""
AGAIN_S = 5.0
"""After a write that was refused."""
UNTOLD_S = 60.0
"""From the first refusal that is only counted to the line with their number."""
LOGGED_S = 60.0
"""Between two lines of the log about what is lost."""
NOBODY = {"host": "", "client_id": ""}


class Trail:
    """Changes that wait, and the task that writes them. `tell` is what `changes.audited` calls."""

    def __init__(
        self, topics: Topics, settings: Settings, clock: Clock, supervisor: Supervisor
    ) -> None:
        self._topic = InternalTopic(NAME, topics, clock.now_ms)
        self._settings = settings
        self._clock = clock
        self._supervisor = supervisor
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._singly = 0
        """So many of those that wait are written one by one: one of them cannot be."""
        self._staged: asyncio.Future[None] | None = None
        self._staged_count = 0
        """Until those that are in the log are durable or refused, and how many they are."""
        self._refusals = Refusals(clock.monotonic())
        self._untold: asyncio.TimerHandle | None = None
        self._logged_at: float | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        """From the first change on."""

    async def stop(self) -> None:
        """What waits is written, if the disk takes it at once."""
        if self._untold is not None:
            self._untold.cancel()
            self._tell_untold()
        if self._task is None:
            return
        await self._supervisor.end(self._task)
        with self._supervisor.duty("audit"):
            await self._write()
        self._lost(len(self._waiting), "they could not be written at the stop")

    # ---- what is told ----------------------------------------------------------------------------

    def tell(
        self, api: str, describe: Callable[[MayTell], Iterable[Change]], context: Context
    ) -> None:
        """Called between a handler's answer and its sending; must not raise."""
        if not self._settings.get("audit.enable"):
            return
        principal = context.principal
        caller = {"host": context.client_host, "client_id": context.client_id or ""}
        if principal in super_users(self._settings.get("audit.delegates")):
            caller["on_behalf_of"] = person_of(context.client_id) or ""
        try:
            for each in describe(lambda error: self._may_tell(principal, error)):
                self._put(api, each, principal, caller)
        except BROKEN as error:
            logger.exception("%s cannot be described", api)
            unknown = replace(UNKNOWN, details={"because": repr(error)})
            self._put(api, unknown, principal, caller)

    def _may_tell(self, principal: str, error: str) -> bool:
        if self._refusals.may_tell(principal, error, self._clock.monotonic()):
            return True
        if self._untold is None:
            later = self._supervisor.later
            self._untold = later(UNTOLD_S, "audit", self._tell_untold)
        return False

    def _tell_untold(self) -> None:
        self._untold = None
        for principal, untold in self._refusals.take_untold().items():
            name = f"{untold.count} more refused; the error is that of the last"
            self._put("", Change("and more", "request", name, {}, untold.error), principal)

    def _put(
        self, api: str, change: Change, principal: str, caller: Mapping[str, str] = NOBODY
    ) -> None:
        said: dict[str, object] = {
            "at_ms": self._clock.now_ms(),
            "api": api,
            **vars(change),
            "principal": principal,
            **caller,
        }
        written = line(said)
        if self._bytes + len(written) > WAITING_BYTES_MAX:
            self._lost(1, "more than can be written down waits already")
            return
        self._waiting.append(written)
        self._bytes += len(written)
        self._task = self._task or self._supervisor.run("audit", self._run)
        self._news.set()

    def _lost(self, count: int, why: str) -> None:
        if not count:
            return
        self._supervisor.health.audit_lost += count
        now = self._clock.monotonic()
        if self._logged_at is None or now - self._logged_at >= LOGGED_S:
            self._logged_at = now
            total = self._supervisor.health.audit_lost
            logger.warning("%d changes are not in %s since the start: %s", total, NAME, why)

    # ---- what is written -------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            with self._supervisor.duty("audit"):
                await self._write()
            if self._waiting:
                await asyncio.sleep(AGAIN_S)

    async def _write(self) -> None:
        while self._waiting:
            await self._topic.ensure()
            partition = self._topic.partition()
            if self._staged is None and not self._stage(partition):
                continue
            assert self._staged is not None
            try:
                await asyncio.shield(self._staged)
            except StorageFailed:  # a stop that comes in between goes on from here
                self._staged = None
                raise
            self._staged = None
            self._take(self._staged_count)
        self._news.clear()

    def _stage(self, partition: Partition) -> bool:
        lines = self._next()
        staged = self._append(partition, lines)
        if staged is None:
            self._cannot(lines)
            return False
        self._staged, self._staged_count = staged.durable(), len(lines)
        return True

    def _next(self) -> list[bytes]:
        """The first of those that wait, as many as make a batch."""
        found: list[bytes] = []
        size = 0
        for each in self._waiting:
            size += len(each) + RECORD_BYTES
            if found and (self._singly or size > BATCH_BYTES_MAX):
                break
            found.append(each)
        return found

    def _append(self, partition: Partition, lines: list[bytes]) -> Staged | None:
        """None: it is not the disk that refuses, so something is wrong with them."""
        found: Staged | StorageFailed | OSError | None = None
        with self._supervisor.duty("audit", "lines that cannot be written"):
            found = self._offer(partition, lines)
        if isinstance(found, StorageFailed | OSError):
            raise found
        return found

    def _offer(self, partition: Partition, lines: list[bytes]) -> Staged | StorageFailed | OSError:
        try:
            return self._topic.stage(partition, [(None, each) for each in lines])
        except (StorageFailed, OSError) as error:
            return error

    def _cannot(self, lines: list[bytes]) -> None:
        """All but the one that is to blame are written."""
        if len(lines) > 1:
            self._singly = len(lines)
            return
        self._lost(1, "a line cannot be written; the log has the reason")
        self._take(1)

    def _take(self, count: int) -> None:
        for _ in range(count):
            self._bytes -= len(self._waiting.popleft())
        self._singly = max(0, self._singly - count)
