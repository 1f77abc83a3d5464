"""Clients that get the same: one filter and one wire. What they get is made once, however many they are.

Called by the feed with each batch, on the event loop. In a channel of state (of a snapshot, of a view), a
record that does not fit the filter any more is told as the end of its key: else its old form would stay
with the client for ever. A channel whose filter fails ends its own clients, and no others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from headwater.browse.filters import Filter
from headwater.client.records import Record
from headwater.edges import counts
from headwater.edges.feeds.bodies import gone
from headwater.edges.feeds.outbox import Outbox
from headwater.edges.feeds.request import Choice
from headwater.edges.feeds.state import Change
from headwater.edges.feeds.wires import Chunk, Item, Wire

Box = Outbox[Chunk]
Bodies = Callable[[Record], bytes]
Kind = tuple[Filter, str, bool]
Beside = Callable[[Callable[[], list[Item]]], Awaitable[list[Item]]]
"""In a thread."""
DROPPED = counts.counter(
    "headwater_feed_dropped_total", "Clients of changefeeds that were ended", ("why",)
)
_log = logging.getLogger("headwater.edges")


class Channel:
    """`bodies`: makes the event of a record that is told as gone."""

    def __init__(self, tests: Choice, wire: Wire, bodies: Bodies, *, is_state: bool) -> None:
        self._tests, self.wire, self._bodies = tests, wire, bodies
        self._is_state = is_state
        self._spoke = False
        self.boxes: set[Box] = set()

    async def publish(
        self,
        changes: Sequence[Change],
        boxes: Sequence[Box],
        *,
        knows_before: bool,
        beside: Beside | None = None,
    ) -> int:
        """To those of its boxes that were here when it came; returns how many events there were.

        `knows_before`: a key without an item before had none. `beside`: where the filter looks at them.
        """

        def choose() -> list[Item]:
            return list(self.chosen(changes, knows_before=knows_before))

        try:
            if beside is None or self._tests.is_empty:
                return self._put(choose(), boxes)
            return self._put(await beside(choose), boxes)
        except Exception as error:  # of this filter; the other channels are to be told all the same
            _log.exception("telling %d clients of a changefeed failed", len(self.boxes))
            self._end(f"a mistake of ours: {type(error).__name__}")
            return 0

    def _put(self, items: list[Item], boxes: Sequence[Box]) -> int:
        self._spoke = self._spoke or bool(items)
        for chunk, size in self.wire.records(items):
            for box in boxes:
                box.put(chunk, size)
        return len(items)

    def _end(self, reason: str) -> None:
        DROPPED.labels("failed").inc(len(self.boxes))
        for box in self.boxes:
            box.drop(reason)
        self.boxes.clear()

    def chosen(self, changes: Iterable[Change], *, knows_before: bool) -> Iterator[Item]:
        tests = self._tests
        if tests.is_empty:
            yield from (item for item, _ in changes)
            return
        for item, before in changes:
            if tests.fits(item.record):
                yield item
            elif self._is_state and tests.is_mine(item.record):
                if tests.fits(before.record) if before is not None else not knows_before:
                    yield self._as_gone(item)

    def _as_gone(self, item: Item) -> Item:
        if item.record.is_tombstone:
            return item
        record = gone(item.record)
        return Item(record, item.id, self._bodies(record))

    def beat(self, id: str) -> None:
        """A heartbeat, where nothing was told since the last."""
        if self._spoke:
            self._spoke = False
            return
        chunk, size = self.wire.heartbeat(id)
        for box in self.boxes:
            if box.is_empty:
                box.put(chunk, size)
