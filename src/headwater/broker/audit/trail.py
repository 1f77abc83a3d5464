"""`__headwater_changes`: who changed what, written by the broker alone, in the order of its answers.

The handlers' changes (`changes`) wait in memory, a bounded number, and a supervised task writes them a moment
later: no request waits for it or fails by it. What does not fit is counted in the health; while the disk
refuses, what is there is tried again. A record's value is JSON:

    at_ms, api, what, kind, name, details, error    see `changes.Change`
    principal, host                                 of the connection, as the broker knows them
    client_id                                       what the client calls itself: a claim
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from headwater.broker import internal_topics
from headwater.broker.audit.changes import Audited, Change
from headwater.broker.registry import Context
from headwater.log.partition import StorageFailed
from headwater.record import batch as batches
from headwater.record import records

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

NAME = internal_topics.CHANGES
WAITING_MAX = 10_000
BATCH_MAX = 500
AGAIN_S = 5.0
"""After a write that was refused."""
CLIENT_CHARS_MAX = 200


class Trail:
    """Changes that wait, and the task that writes them; once made, it hears all of the APIs."""

    def __init__(self, broker: Broker, audited: Audited) -> None:
        self._broker = broker
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        """From the first change on."""
        broker.apis = audited(broker.apis, self.tell)

    async def stop(self) -> None:
        """What waits is written, if the disk takes it at once."""
        if self._task is None:
            return
        await self._broker.supervisor.end(self._task)
        try:
            await self._write()
        except (StorageFailed, OSError) as error:
            self._lost(len(self._waiting), f"at the stop: {error}")

    def tell(self, api: str, changes: Iterable[Change], context: Context) -> None:
        """Called between a handler's answer and its sending; must not raise."""
        if not self._broker.settings.get("audit.enable"):
            return
        try:
            lines = [self._line(api, each, context) for each in changes]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            self._lost(1, f"{api} cannot be described: {error!r}")
            return
        room = WAITING_MAX - len(self._waiting)
        self._waiting.extend(lines[:room])
        if len(lines) > room:
            self._lost(len(lines) - room, "more changes than can be written down")
        if self._waiting:
            self._task = self._task or self._broker.supervisor.run("audit", self._run)
            self._news.set()

    def _line(self, api: str, change: Change, context: Context) -> bytes:
        said = {
            "at_ms": self._broker.clock.now_ms(),
            "api": api,
            **asdict(change),
            "principal": context.principal,
            "host": context.client_host,
            "client_id": (context.client_id or "")[:CLIENT_CHARS_MAX],
        }
        return json.dumps(said, sort_keys=True, default=str).encode()

    def _lost(self, count: int, why: str) -> None:
        if count:
            self._broker.health.audit_lost += count
            logger.warning("%d changes are not in %s: %s", count, NAME, why)

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            try:
                await self._write()
            except (StorageFailed, OSError) as error:
                self._broker.health.failed("audit", error)
                await asyncio.sleep(AGAIN_S)
            else:
                self._broker.health.succeeded("audit")

    async def _write(self) -> None:
        while self._waiting:
            await self._broker.topics.ensure(NAME)
            partition = self._broker.partition(NAME, 0)
            if partition is None:
                raise StorageFailed(f"{NAME} is not there")
            now_ms = self._broker.clock.now_ms()
            lines = [self._waiting[at] for at in range(min(BATCH_MAX, len(self._waiting)))]
            batch = [records.Record(at, now_ms, None, line) for at, line in enumerate(lines)]
            data = records.build(batch)
            offset = partition.append(data, batches.read_header(data), now_ms)
            await partition.durable(offset + len(lines))
            for _ in lines:
                self._waiting.popleft()
        self._news.clear()
