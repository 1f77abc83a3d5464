"""The state of one topic, for all its clients: kept up to date by the feed, shown as a list that they share.

    pieces of the log ─▶ Fold ◀─ what comes            Fold ─▶ Snapshot ─▶ clients, each in its own time

All that it takes is counted among the states of all topics, in the name of whoever was the first to ask: the
fold, and each list that somebody is being told while the fold goes on, as that keeps what was replaced since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from headwater.edges.errors import Overloaded
from headwater.edges.feeds.event_ids import Offsets
from headwater.edges.feeds.history import Piece
from headwater.edges.feeds.recent import Fold
from headwater.edges.feeds.wires import Item
from headwater.edges.memory_share import Account, MemoryShare
from headwater.errors import HeadwaterError

STATES_BYTES = 1024**3
"""Of all topics, with the lists that are being told."""
Read = Callable[[Mapping[int, int], Mapping[int, int]], Awaitable[Piece]]
Change = tuple[Item, Item | None]
"""An item, and the one of its key before it, where that is known."""


class Snapshot:
    """The state at one position. Whoever was given it says when he has `left`."""

    def __init__(self, fold: Fold, position: Offsets, account: Account) -> None:
        """Raises Overloaded."""
        account.set(fold.size)
        self.items, self.position = fold.items(), position
        self.users = 0
        self._account = account

    def left(self) -> None:
        self.users -= 1
        if not self.users:
            self.items = []
            self._account.set(0)


class State:
    """Of one feed, on its event loop."""

    def __init__(self, topic: str, bytes_max: int, held: MemoryShare) -> None:
        self._topic, self._bytes_max, self._held = topic, bytes_max, held
        self._fold: Fold | None = None
        self._account = Account(held)
        self._building: asyncio.Task[None] | None = None
        self._pending: list[list[Item]] = []
        self._shown: Snapshot | None = None

    @property
    def is_known(self) -> bool:
        return self._fold is not None

    async def snapshot(self, position: Callable[[], Offsets], read: Read) -> Snapshot:
        """At the position of this moment; where there is no memory for it, one that somebody is being told.

        Raises RequestRefused where the topic has no state, Overloaded.
        """
        while self._fold is None:  # it may be lost again before we go on
            if self._building is None or self._building.done():
                self._pending = []  # what comes from now on: the task begins in a later turn
                self._building = asyncio.create_task(self._build(dict(position()), read))
            await asyncio.shield(self._building)
        shown, at = self._shown, position()  # of the same moment as the fold: nothing awaits since
        if shown is None or not shown.users or shown.position != at:
            shown = self._shown = self._made(self._fold, at, shown)
        shown.users += 1
        return shown

    def _made(self, fold: Fold, at: Offsets, before: Snapshot | None) -> Snapshot:
        try:
            return Snapshot(fold, dict(at), Account(self._held))
        except Overloaded:
            if before is None or not before.users:
                raise
            return before  # and then what has changed since

    def changes(self, items: list[Item]) -> list[Change]:
        """What comes, with what was there before. Raises HeadwaterError where the state is lost by it."""
        if self._building is not None and not self._building.done():
            self._pending.append(items)
        fold = self._fold
        if fold is None:
            return [(item, None) for item in items]
        changes: list[Change] = []
        try:
            for item in items:
                changes.append((item, fold.get(item.record.key)))
                fold.add((item,))
            self._account.set(fold.size)
        except HeadwaterError:
            self._let_go()
            raise
        return changes

    def close(self) -> None:
        if self._building is not None:
            self._building.cancel()
        self._let_go()

    def _let_go(self) -> None:
        self._fold = None
        self._account.set(0)

    async def _build(self, ends: Offsets, read: Read) -> None:
        fold, account = Fold(self._topic, self._bytes_max), Account(self._held)
        try:
            at: Offsets = dict.fromkeys(ends, 0)
            while any(at[p] < end for p, end in ends.items()):
                piece = await read(at, ends)
                fold.add(piece.items)
                account.set(fold.size)
                at = piece.position
            for items in self._pending:
                fold.add(items)
            account.set(fold.size)
            self._fold, self._account = fold, account  # no await since the last batch was added
        finally:
            self._pending = []
            if self._fold is not fold:
                account.set(0)
