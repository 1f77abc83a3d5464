"""`__headwater_changes`: who changed what, written by the broker alone, in the order of its answers.

The handlers' changes (`changes`) wait in memory, a bounded number of bytes, and a supervised task writes
them a moment later: no request waits for it or fails by it. What does not fit is counted in the health; while
the disk refuses, what is there is tried again. A line that cannot be written for another reason is dropped,
and counted. A record's value is JSON:

    at_ms, api, what, kind, name, details, error    see `description.Change`
    principal, host                                 of the connection, as the broker knows them
    client_id                                       what the client calls itself: a claim
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.broker import internal_topics
from headwater.broker.audit.changes import Audited
from headwater.broker.audit.description import BROKEN, UNKNOWN, Change, MayTell
from headwater.broker.audit.limits import Refusals, line
from headwater.broker.partition import Partition
from headwater.broker.registry import Context
from headwater.log.partition import StorageFailed
from headwater.record import batch as batches
from headwater.record import records

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

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


class Trail:
    """Changes that wait, and the task that writes them; once made, it hears all of the APIs."""

    def __init__(self, broker: Broker, audited: Audited) -> None:
        self._broker = broker
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._singly = 0
        """So many of those that wait are written one by one: one of them cannot be."""
        self._refusals = Refusals(broker.clock.monotonic())
        self._untold: asyncio.TimerHandle | None = None
        self._logged_at: float | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        """From the first change on."""
        broker.apis = audited(broker.apis, self.tell)

    async def stop(self) -> None:
        """What waits is written, if the disk takes it at once."""
        if self._untold is not None:
            self._untold.cancel()
            self._tell_untold()
        if self._task is None:
            return
        await self._broker.supervisor.end(self._task)
        with self._broker.supervisor.duty("audit"):
            await self._write()
        self._lost(len(self._waiting), "they could not be written at the stop")

    # ---- what is told ----------------------------------------------------------------------------

    def tell(
        self, api: str, describe: Callable[[MayTell], Iterable[Change]], context: Context
    ) -> None:
        """Called between a handler's answer and its sending; must not raise."""
        if not self._broker.settings.get("audit.enable"):
            return
        principal, host, client_id = context.principal, context.client_host, context.client_id
        try:
            for each in describe(lambda error: self._may_tell(principal, error)):
                self._put(api, each, principal, host, client_id)
        except BROKEN as error:
            logger.exception("%s cannot be described", api)
            unknown = replace(UNKNOWN, details={"because": repr(error)})
            self._put(api, unknown, principal, host, client_id)

    def _may_tell(self, principal: str, error: str) -> bool:
        if self._refusals.may_tell(principal, error, self._broker.clock.monotonic()):
            return True
        if self._untold is None:
            later = self._broker.supervisor.later
            self._untold = later(UNTOLD_S, "audit", self._tell_untold)
        return False

    def _tell_untold(self) -> None:
        self._untold = None
        for principal, untold in self._refusals.take_untold().items():
            name = f"{untold.count} more refused; the error is that of the last"
            self._put("", Change("and more", "request", name, {}, untold.error), principal)

    def _put(
        self, api: str, change: Change, principal: str, host: str = "", client_id: str | None = ""
    ) -> None:
        said: dict[str, object] = {
            "at_ms": self._broker.clock.now_ms(),
            "api": api,
            **vars(change),
            "principal": principal,
            "host": host,
            "client_id": client_id or "",
        }
        written = line(said)
        if self._bytes + len(written) > WAITING_BYTES_MAX:
            self._lost(1, "more than can be written down waits already")
            return
        self._waiting.append(written)
        self._bytes += len(written)
        self._task = self._task or self._broker.supervisor.run("audit", self._run)
        self._news.set()

    def _lost(self, count: int, why: str) -> None:
        if not count:
            return
        self._broker.health.audit_lost += count
        now = self._broker.clock.monotonic()
        if self._logged_at is None or now - self._logged_at >= LOGGED_S:
            self._logged_at = now
            total = self._broker.health.audit_lost
            logger.warning("%d changes are not in %s since the start: %s", total, NAME, why)

    # ---- what is written -------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            with self._broker.supervisor.duty("audit"):
                await self._write()
            if self._waiting:
                await asyncio.sleep(AGAIN_S)

    async def _write(self) -> None:
        while self._waiting:
            await self._broker.topics.ensure(NAME)
            partition = self._broker.partition(NAME, 0)
            if partition is None:
                raise StorageFailed(f"{NAME} is not there")
            lines = self._next()
            offset = self._append(partition, lines)
            if offset is None:
                self._cannot(lines)
                continue
            await partition.durable(offset + len(lines))
            self._take(len(lines))
        self._news.clear()

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

    def _append(self, partition: Partition, lines: list[bytes]) -> int | None:
        """The offset of the first. None: it is not the disk that refuses, so something is wrong with them."""
        found: int | StorageFailed | OSError | None = None
        with self._broker.supervisor.duty("audit", "lines that cannot be written"):
            found = self._offer(partition, lines)
        if isinstance(found, StorageFailed | OSError):
            raise found
        return found

    def _offer(self, partition: Partition, lines: list[bytes]) -> int | StorageFailed | OSError:
        now_ms = self._broker.clock.now_ms()
        batch = [records.Record(at, now_ms, None, each) for at, each in enumerate(lines)]
        data = records.build(batch)
        try:
            return partition.append(data, batches.read_header(data), now_ms)
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
