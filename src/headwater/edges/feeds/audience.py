"""Those of one sender who follow one topic: told what comes batch by batch, at a pace of their own.

    feed: publish ──▶ each audience: a line of batches ──▶ its channels, a few at a time ──▶ boxes

Each channel has a filter of its own, and a sender may have thousands of them: a batch takes him seconds. The
feed waits for all, and for no more than `HELD_S` once the first has what came, so that nobody's filters hold
up the clients of another. Whose line is full by then is let go, and may come back where he was.

Who joins while a batch is told has it from the feed's memory: it goes to those who were here when it came.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from headwater.browse.decoder import Decoder
from headwater.edges import counts
from headwater.edges.caller import SENDER
from headwater.edges.feeds.channels import DROPPED, Beside, Box, Channel, Kind
from headwater.edges.feeds.request import Remembering
from headwater.edges.feeds.state import Change

TURN_S = 0.01
"""For which channels are told what came, before everybody else has a turn."""
HELD_S = 0.25
WAITING_MAX = 8
SLOW = "its filters and those beside it take longer than what comes: come again with fewer"
_Told = tuple[Sequence[Change], bool, "Beside | None", list[tuple[Channel, tuple[Box, ...]]]]


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
    def is_telling(self) -> bool:
        return self._telling is not None

    @property
    def is_empty(self) -> bool:
        """Nobody is here, and nothing under way."""
        return not self.channels and not self.is_telling

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
        self._is_due = self.is_telling
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
