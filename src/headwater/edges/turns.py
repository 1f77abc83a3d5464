"""Who is served next where strangers wait for one thread: senders in a circle, each with a line of its own.

Called by those who gather what waits into groups (`bulk`, `idempotency.requests`). Whoever sends much waits
for himself, in a line that ends; whoever comes next is behind one of each, and not behind all. For one owner:
who shares it between threads has a lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from headwater.edges.errors import Overloaded
from headwater.edges.workers import WAITING_MAX

T = TypeVar("T")


class Turns(Generic[T]):
    """`waiting_max`: of one sender."""

    def __init__(self, waiting_max: int = WAITING_MAX) -> None:
        self._waiting_max = waiting_max
        self._lines: dict[str, dict[T, None]] = {}
        """By whose turn it is; of each, the first that came first."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def put(self, sender: str, item: T) -> None:
        """Raises Overloaded."""
        line = self._lines.setdefault(sender, {})
        if len(line) >= self._waiting_max:
            raise Overloaded("too many requests of one sender wait", 1.0)
        line[item] = None

    def put_back(self, sender: str, items: Sequence[T]) -> None:
        """What was taken, before what its sender has sent since."""
        if items:
            self._lines[sender] = dict.fromkeys(items) | self._lines.get(sender, {})

    def discard(self, sender: str, item: T) -> bool:
        """Whether it waited."""
        line = self._lines.get(sender, {})
        if item not in line:
            return False
        del line[item]
        if not line:
            del self._lines[sender]
        return True

    def senders(self) -> list[str]:
        """In the order of their turns."""
        return list(self._lines)

    def first(self, sender: str) -> T | None:
        return next(iter(self._lines.get(sender, ())), None)

    def take(self, sender: str) -> T:
        """The first of a line; its sender is then behind the others."""
        line = self._lines.pop(sender)
        first = next(iter(line))
        del line[first]
        if line:
            self._lines[sender] = line
        return first
