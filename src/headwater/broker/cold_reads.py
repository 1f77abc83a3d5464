"""Reads of a partition that are under way in other threads.

Fetch, lookups and share groups begin and end them here; whoever has taken segments out of a log waits
here before it closes them. Only those are waited for that began before: others may always come, and
they do not see what was taken out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

LOOK_SECONDS = 0.01


class ColdReads:
    """Of one partition. Belongs to the event loop."""

    __slots__ = ("_era", "_under_way")

    def __init__(self) -> None:
        self._era = 0
        self._under_way: Counter[int] = Counter()
        """Era in which they began → how many."""

    def __len__(self) -> int:
        return self._under_way.total()

    def begin(self) -> int:
        """Returns what `end` wants to know."""
        self._under_way[self._era] += 1
        return self._era

    def end(self, era: int) -> None:
        self._under_way[era] -= 1
        if not self._under_way[era]:
            del self._under_way[era]

    @contextmanager
    def one(self) -> Iterator[None]:
        """A read that takes as long as the block."""
        era = self.begin()
        try:
            yield
        finally:
            self.end(era)

    async def over(self) -> None:
        """Return once all that are under way now have ended."""
        self._era += 1
        before = self._era
        while any(era < before for era in self._under_way):
            await asyncio.sleep(LOOK_SECONDS)
