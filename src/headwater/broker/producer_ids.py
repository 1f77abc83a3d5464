"""Which producer ids have been given out: by the catalogue's word, and never below it.

An id that two producers have loses records: what one writes is taken for the other's repetition. So ids are
taken in blocks, each durable before one of it is given; after a start none of the last block is given again,
nor one that a transactional id has, whatever the catalogue says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

BLOCK = 1000
KEY = "producer-ids"
JUMP = 1_000_000
"""Ids that may have been given without a trace: left out where the catalogue was lost."""
MADE_UP = 1 << 48
"""From here on it is a client's invention, unless it is proven to be none: no broker comes that far."""


def end_beyond(highest: int) -> int:
    """Where to go on if nobody knows how far they were given, but this one is in use."""
    return (highest // BLOCK + 2) * BLOCK + JUMP


class ProducerIds:
    """The next one."""

    def __init__(self, write: Callable[[str, Mapping[str, int]], Awaitable[None]]) -> None:
        self._write = write
        self._next = 0
        self.end = 0
        """No producer has been given an id from here on."""

    def apply(self, value: Mapping[str, int]) -> None:
        """A record of the catalogue."""
        self.end = value["next"]

    def begin(self) -> None:
        """Which ids of the last block were given out is not known: none of them is given again."""
        self._next = self.end

    def are_used(self, ids: Iterable[int]) -> None:
        """Somebody has them."""
        self._next = max(self._next, 1 + max(ids, default=-1))

    async def next(self) -> int:
        """An id that no producer has had before."""
        while self._next >= self.end:
            await self._write(KEY, {"next": max(self.end, self._next) + BLOCK})
        self._next += 1
        return self._next - 1
