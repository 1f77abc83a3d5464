"""The coordinator's way to the log: records go in in order, and are reported in that same order.

The effects of a record (an offset in the view, an assignment handed out, a group removed) must come
in the order in which the records stand in the log, or memory and log would tell two stories after a
restart. So `then` is called in order even if the store finishes out of order. What is under way is
bounded by the requests under way, each of which waits for its own record.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from kio.schema.errors import ErrorCode

from headwater.broker.supervisor import Supervisor

Records = list[tuple[bytes, bytes | None]]


class RecordTooLarge(Exception):
    """A store raises this for records that exceed the topic's `max.message.bytes`."""


class Store(Protocol):
    """The internal topic `__consumer_offsets`."""

    def append(self, group_id: str, records: Records) -> Awaitable[None]:
        """Append in the order of calls; done means durable; raises if that failed."""


class _Entry:
    __slots__ = ("error", "then")

    def __init__(self, then: Callable[[ErrorCode], None]) -> None:
        self.then = then
        self.error: ErrorCode | None = None


class Journal:
    """One owner of the order of records."""

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self._store = store
        self._supervisor = supervisor
        self._under_way: deque[_Entry] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    def append(self, group_id: str, records: Records, then: Callable[[ErrorCode], None]) -> None:
        """Start an append; `then` hears `none` once it is durable, else what to tell the client."""
        entry = _Entry(then)
        self._under_way.append(entry)
        self._idle.clear()
        writing = self._write(group_id, records)
        self._supervisor.spawn("group journal", writing, lambda done: self._written(entry, done))

    async def _write(self, group_id: str, records: Records) -> ErrorCode:
        try:
            await self._store.append(group_id, records)
        except RecordTooLarge:  # the client's doing, and told to it alone
            return ErrorCode.record_list_too_large
        return ErrorCode.none

    def _written(self, entry: _Entry, done: asyncio.Task[ErrorCode]) -> None:
        entry.error = _error_of(done)
        queue = self._under_way
        while queue and queue[0].error is not None:
            head = queue.popleft()
            assert head.error is not None
            self._supervisor.call("group journal", head.then, head.error)
        if not queue:
            self._idle.set()

    async def drained(self) -> None:
        """Return when nothing is under way."""
        await self._idle.wait()


def _error_of(done: asyncio.Task[ErrorCode]) -> ErrorCode:
    """Kafka's translation of storage trouble: the client looks for the coordinator and retries."""
    if done.cancelled():
        return ErrorCode.coordinator_not_available
    return ErrorCode.not_coordinator if done.exception() else done.result()
