"""The coordinator's way to the log: records go in in order, and are reported in that same order.

The effects of a record (an offset in the view, an assignment handed out, a group removed) must come
in the order in which the records stand in the log, or memory and log would tell two stories after a
restart. So records are appended in the turn of the decision, before anybody can append what contradicts
it, and `then` is called in order even if the store finishes out of order. What is under way is bounded by
the requests under way, each of which waits for its own record.

What is too much for one write is written in several, one right behind the other, for a group whose records
could not be written would be refused for good, its end included. Only a commit of offsets is whole or not at
all.
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

    def append(self, group_id: str, records: Records) -> Awaitable[int]:
        """Append in the order of calls and, if the topic is there, in this very turn; done means
        durable; raises, or the result does, if that failed.

        The result grows in the order of the group's records in the log.
        """


class Entry:
    """Records on their way."""

    __slots__ = ("error", "order", "then")

    def __init__(self, then: Callable[[ErrorCode], None]) -> None:
        self.then = then
        self.error: ErrorCode | None = None
        self.order = 0
        """Where they stand among the group's records, once they are durable."""


class Journal:
    """One owner of the order of records."""

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self._store = store
        self._supervisor = supervisor
        self._under_way: deque[Entry] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    def append(
        self,
        group_id: str,
        records: Records,
        then: Callable[[ErrorCode], None],
        *,
        whole: bool = False,
    ) -> Entry:
        """Start an append; `then` hears `none` once it is durable, else what to tell the client."""
        entry = Entry(then)
        self._under_way.append(entry)
        self._idle.clear()
        writing = self._write(entry, self._append(group_id, records, whole))
        self._supervisor.spawn("group journal", writing, lambda done: self._written(entry, done))
        return entry

    def _append(self, group_id: str, records: Records, whole: bool) -> Awaitable[int]:
        try:
            return self._store.append(group_id, records)
        except Exception as error:  # told like all the others, in order
            if not isinstance(error, RecordTooLarge) or whole or len(records) < 2:
                return _refused(error)
        half = len(records) // 2
        parts = (records[:half], records[half:])
        return _last(*[self._append(group_id, part, whole) for part in parts])

    async def _write(self, entry: Entry, appended: Awaitable[int]) -> ErrorCode:
        try:
            entry.order = await appended
        except RecordTooLarge:  # the client's doing, and told to it alone
            return ErrorCode.record_list_too_large
        return ErrorCode.none

    def _written(self, entry: Entry, done: asyncio.Task[ErrorCode]) -> None:
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


async def _last(first: Awaitable[int], second: Awaitable[int]) -> int:
    return (await asyncio.gather(first, second))[1]


async def _refused(error: Exception) -> int:
    raise error


def _error_of(done: asyncio.Task[ErrorCode]) -> ErrorCode:
    """Kafka's translation of storage trouble: the client looks for the coordinator and retries."""
    if done.cancelled():
        return ErrorCode.coordinator_not_available
    return ErrorCode.not_coordinator if done.exception() else done.result()
