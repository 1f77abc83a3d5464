"""The live tail: records as they come, the newest first, in a buffer that does not grow.

Owned by the browser of a topic. What comes faster than it can be drawn is skipped and counted, so that a
busy topic costs the console no more than a quiet one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from headwater.client.log import Log
from headwater.client.records import Cursor, Record
from headwater.client.tail import follow
from headwater.console.live import loaded

SHOWN_MAX = 200
DRAW_EVERY_S = 0.3
TAKEN_MAX = 2000
"""Records taken for one drawing; where there are more, the tail jumps to the end."""


class Tail:
    """One visit's tail of one topic."""

    def __init__(
        self,
        log: Log,
        topic: str,
        tell: Callable[[Tail | Exception], None],
        is_seen: Callable[[], bool],
    ) -> None:
        self._log, self._topic, self._tell, self._is_seen = log, topic, tell, is_seen
        self.records: deque[Record] = deque(maxlen=SHOWN_MAX)
        self.is_on = False
        self._came = self._skipped = 0

    def stop(self) -> None:
        self.is_on = False

    def sentence(self) -> str:
        count = f"{self._came:,} record{'' if self._came == 1 else 's'} came"
        skipped = f", {self._skipped:,} more were too fast to be shown" if self._skipped else ""
        bound = f" The last {SHOWN_MAX} are here." if self._came > SHOWN_MAX else ""
        if self.is_on and not self._came:
            return "Following: records are shown as they come."
        return f"{'Following' if self.is_on else 'Stopped'}: {count}{skipped}.{bound}"

    async def run(self, partitions: list[int] | None) -> None:
        """Follow until `stop`, or until nobody looks any more."""
        self.is_on = True
        self._came = self._skipped = 0
        self.records.clear()
        try:
            at = await loaded(partial(self._ends, partitions))
            self._tell(self)
            while self.is_on and self._is_seen():
                at = await self._follow(at, is_fixed=partitions is not None)
        except Exception as error:
            self.is_on = False
            self._tell(error)
            return
        self.is_on = False
        self._tell(self)

    async def _follow(self, at: Cursor, *, is_fixed: bool) -> Cursor:
        """Until stopped, or until so much came that the tail has to jump; then where it goes on."""
        lists = follow(self._log, self._topic, at, partitions_fixed=is_fixed)
        reached = dict(at)
        try:
            while self.is_on and self._is_seen():
                began = time.monotonic()
                taken = await self._taken(lists)
                reached.update({each.partition: each.offset + 1 for each in taken})
                self._keep(taken)
                if len(taken) >= TAKEN_MAX:
                    return await self._jump(reached)
                await asyncio.sleep(max(0.0, DRAW_EVERY_S - (time.monotonic() - began)))
        finally:
            await loaded(partial(_close, lists))
        return Cursor(reached)

    async def _taken(self, lists: Iterator[list[Record]]) -> list[Record]:
        """What is there for one drawing."""
        taken: list[Record] = []
        while self.is_on and len(taken) < TAKEN_MAX:
            some = await loaded(partial(next, lists))
            taken += some
            if len(some) < TAKEN_MAX // 10:
                break
        return taken

    def _keep(self, taken: list[Record]) -> None:
        if taken and self.is_on:
            self._came += len(taken)
            self.records.extendleft(sorted(taken, key=lambda each: each.timestamp_ms))
            self._tell(self)

    async def _jump(self, reached: dict[int, int]) -> Cursor:
        ends = await loaded(partial(self._ends, sorted(reached)))
        self._skipped += sum(max(0, end - reached[p]) for p, end in ends)
        return ends

    def _ends(self, partitions: list[int] | None) -> Cursor:
        return Cursor({p: end for p, (_, end) in self._log.ranges(self._topic, partitions).items()})


def _close(lists: Iterator[list[Record]]) -> None:
    close = getattr(lists, "close", None)  # of a generator
    if close is not None:
        close()
