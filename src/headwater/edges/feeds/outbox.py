"""What waits for one client, within a bound. One task takes; whoever publishes puts.

A client that does not take what is put for it is dropped: its box is emptied, the reason is the last thing in
it, and nobody else waits for it. How long it has taken nothing is looked at from outside (`stalled_s`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Chunk = TypeVar("Chunk")
"""Bytes of SSE, or the texts of WebSocket messages; shared by all clients that get the same."""


class Outbox(Generic[Chunk]):
    """Of one client. For one event loop."""

    def __init__(self, bytes_max: int, clock: Callable[[], float]) -> None:
        self._bytes_max, self._clock = bytes_max, clock
        self._chunks: deque[tuple[Chunk, int]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._moved = clock()
        self.size = 0
        self.dropped: str | None = None
        """Why nothing more comes, where that is so."""
        self.is_closed = False
        """The client has gone away by itself."""

    def put(self, chunk: Chunk, size: int) -> None:
        """A chunk larger than the bound is taken where nothing else waits: else nobody could have it."""
        if self.dropped is not None or self.is_closed:
            return
        if self._chunks and self.size + size > self._bytes_max:
            self.drop(f"too slow: {self.size + size:,} bytes wait, more than {self._bytes_max:,}")
            return
        if not self._chunks:
            self._moved = self._clock()
        self._chunks.append((chunk, size))
        self.size += size
        self._wake()

    def drop(self, reason: str) -> None:
        if self.dropped is None:
            self.dropped = reason
            self._chunks.clear()
            self.size = 0
            self._wake()

    def close(self) -> None:
        self.is_closed = True
        self._chunks.clear()
        self.size = 0
        self._wake()

    @property
    def is_empty(self) -> bool:
        return not self._chunks

    def stalled_s(self) -> float:
        """Since when the client has taken nothing, although something waits for it."""
        return self._clock() - self._moved if self._chunks else 0.0

    async def take(self) -> Chunk | None:
        """The next chunk; None once the client was dropped or has gone."""
        while not self._chunks:
            if self.dropped is not None or self.is_closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        chunk, size = self._chunks.popleft()
        self.size -= size
        self._moved = self._clock()
        return chunk

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
