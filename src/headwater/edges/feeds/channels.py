"""Clients that get the same: one filter and one wire. What they get is made once, however many they are.

Called by the feed with each batch, on the event loop. In a channel of state (of a snapshot, of a view), a
record that does not fit the filter any more is told as the end of its key: else its old form would stay
with the client for ever. A channel whose filter fails ends its own clients, and no others.

    feed: publish ──▶ each audience: a line of batches ──▶ its channels, a few at a time ──▶ boxes

An audience is of one sender, who may have thousands of channels: a batch takes him seconds. The feed waits
for all, and for no more than `HELD_S` once the first has what came, so that nobody's filters hold up the
clients of another. Whose line is full by then is let go, and may come back where he was. Who joins while a
batch is told has it from the feed's memory: it goes to those who were here when it came.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.client.records import Record
from headwater.edges import counts
from headwater.edges.caller import SENDER
from headwater.edges.feeds.bodies import gone
from headwater.edges.feeds.outbox import Outbox
from headwater.edges.feeds.request import Choice, Remembering
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


TURN_S = 0.01
"""For which channels are told what came, before everybody else has a turn."""
HELD_S = 0.25
WAITING_MAX = 8
SLOW = "its filters and those beside it take longer than what comes: come again with fewer"
_Told = tuple[Sequence[Change], bool, Beside | None, list[tuple[Channel, tuple[Box, ...]]]]


class Audience:
    """For one event loop."""

    def __init__(
        self, topic: str, sender: str, decoder: Decoder, position: Callable[[], str]
    ) -> None:
        """`decoder`: waits for nobody; `position`: of the feed, as an id."""
        self.channels: dict[Kind, Channel] = {}
        self.decoder = Remembering(decoder)
        self._topic, self._sender, self._position = topic, sender, position
        self._waiting: deque[_Told] = deque()
        self._telling: asyncio.Task[None] | None = None
        self._is_due = False

    @property
    def is_busy(self) -> bool:
        return self._telling is not None

    @property
    def is_empty(self) -> bool:
        """Nobody is here, and nothing under way."""
        return not self.channels and not self.is_busy

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def boxes(self) -> list[Box]:
        return [box for channel in self.channels.values() for box in channel.boxes]

    def put(self, changes: Sequence[Change], *, knows: bool, beside: Beside | None) -> None:
        told_to = [(each, tuple(each.boxes)) for each in self.channels.values()]
        self._waiting.append((changes, knows, beside, told_to))
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def told(self) -> None:
        """Until all have what came. Raises what is a mistake of ours."""
        while (telling := self._telling) is not None:
            await asyncio.wait([telling])
            if not telling.cancelled():
                telling.result()

    def beat(self) -> None:
        """Once everybody has what came: it says how far they are."""
        self._is_due = self.is_busy
        if not self._is_due:
            id = self._position()
            for channel in self.channels.values():
                channel.beat(id)

    def leave(self, box: Box) -> None:
        for kind, channel in list(self.channels.items()):
            channel.boxes.discard(box)
            if not channel.boxes:
                del self.channels[kind]

    def let_go(self) -> None:
        """Who was dropped gets nothing more, and no longer counts."""
        for channel in self.channels.values():
            ended = {box for box in channel.boxes if box.dropped is not None}
            if ended:
                DROPPED.labels("slow").inc(len(ended))
                channel.boxes -= ended

    def end(self, reason: str) -> None:
        for box in self.boxes():
            box.drop(reason)
        self.channels.clear()
        self._waiting.clear()
        if self._telling is not None:
            self._telling.cancel()

    async def _tell(self) -> None:
        SENDER.set(self._sender)
        try:
            while self._waiting:
                await self._tell_one(*self._waiting[0])
                self._waiting.popleft()
        finally:
            self._telling = None
            if self._is_due:
                self.beat()

    async def _tell_one(
        self,
        changes: Sequence[Change],
        knows: bool,
        beside: Beside | None,
        told_to: Iterable[tuple[Channel, tuple[Box, ...]]],
    ) -> None:
        turn_s = time.monotonic() + TURN_S
        for channel, boxes in told_to:
            told = await channel.publish(changes, boxes, knows_before=knows, beside=beside)
            counts.went(channel.wire.name, self._topic, told * len(boxes))
            if time.monotonic() > turn_s:
                await asyncio.sleep(0)
                turn_s = time.monotonic() + TURN_S


async def all_told(audiences: Sequence[Audience]) -> None:
    """Until all have what came; of several, for no more than `HELD_S` once the first has."""
    if len(audiences) < 2:
        for each in audiences:
            await each.told()
        return
    telling = [asyncio.create_task(each.told()) for each in audiences]
    try:
        await asyncio.wait(telling, return_when=asyncio.FIRST_COMPLETED)
        done, _ = await asyncio.wait(telling, timeout=HELD_S)
        for task in done:
            task.result()
    finally:
        for task in telling:
            task.cancel()
