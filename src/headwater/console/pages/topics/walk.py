"""Paging through a topic: which page is here, and where older and newer records are.

Owned by the browser of a topic (`records`), which hears of every outcome. A page is asked for in a
thread; if somebody asks for another meanwhile, the answer to the first is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from headwater.browse import pages
from headwater.browse.pages import Page
from headwater.client.log import Log
from headwater.client.places import Place
from headwater.client.records import Cursor, Range, Record
from headwater.console.live import loaded


class Walk:
    """`records` are the page's, the oldest first."""

    def __init__(
        self,
        log: Log,
        topic: str,
        tell: Callable[[Walk | Exception], None],
        checked: Callable[[Callable[[], Page]], Callable[[], Page]],
    ) -> None:
        self._log, self._topic, self._tell, self._checked = log, topic, tell, checked
        self.records: list[Record] = []
        self.ranges: Mapping[int, Range] = {}
        self.is_new = False
        """Whether the last outcome was a page; else there was nothing in that direction."""
        self._older: Cursor | None = None
        self._newer: Cursor | None = None
        self._turn = 0
        self._took_ms = 0.0
        self._is_cut = False

    @property
    def has_older(self) -> bool:
        return self._older is not None

    async def go(self, place: Place | None, partitions: list[int] | None, *, back: bool) -> None:
        """The page from `place` on, or back from it; without a place, from the beginning or the end."""
        page = await self._load(place, partitions, back=back)
        if page is not None:
            self._take(page, back=back)

    async def older(self) -> None:
        if self._older is not None:
            await self._turn_page(self._older, back=True)

    async def newer(self) -> None:
        """Goes on also behind the newest: something may have come since."""
        if self._newer is not None:
            await self._turn_page(self._newer, back=False)

    def sentence(self) -> str:
        """What is shown, of how much."""
        held = sum(end - start for start, end in self.ranges.values())
        if not held:
            return (
                "The topic is empty: nothing was written yet, or all of it has gone by retention."
            )
        if not self.is_new:
            return "Nothing newer has come yet."
        if not self.records:
            return (
                "No records here: what was at these offsets was compacted away, or never committed."
            )
        more = " Some offsets hold no record." if self._is_cut else ""
        shown = f"{len(self.records):,} of {held:,} records" if held > 1 else "1 record"
        return f"{shown} · {self._took_ms:.0f} ms{more}"

    async def _turn_page(self, cursor: Cursor, *, back: bool) -> None:
        partitions = sorted(cursor.offsets)
        page = await self._load(Place(cursor=cursor), partitions, back=back)
        if page is None:
            return
        if page.records:
            self._take(page, back=back)
        else:
            self.is_new = False
            if back:
                self._older = page.next
            self._tell(self)

    async def _load(
        self, place: Place | None, partitions: list[int] | None, *, back: bool
    ) -> Page | None:
        """None if it failed, or if somebody asked for another page meanwhile."""
        self._turn += 1
        turn, began = self._turn, time.perf_counter()
        ask = partial(pages.page, self._log, self._topic, place, back=back, partitions=partitions)
        try:
            page = await loaded(self._checked(ask))
        except Exception as error:
            if turn == self._turn:
                self._tell(error)
            return None
        self._took_ms = (time.perf_counter() - began) * 1000
        return page if turn == self._turn else None

    def _take(self, page: Page, *, back: bool) -> None:
        self.is_new, self._is_cut, self.ranges = True, page.is_cut, page.ranges
        self.records = list(reversed(page.records)) if back else page.records
        if back:
            self._older, self._newer = page.next, page.here
        else:
            # A cursor names the next offset going forward and the one after the next going back: the
            # same number, so one page's beginning is where the page before it ends.
            begins = {p: page.ranges[p][0] for p, _ in page.here}
            self._older = page.here if dict(page.here) != begins else None
            self._newer = page.next or Cursor({p: page.ranges[p][1] for p, _ in page.here})
        self._tell(self)
