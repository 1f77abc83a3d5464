"""Search in a topic: in keys, values and headers, or for one key; with progress, and it can be stopped.

Owned by the browser of a topic. It goes on in short steps from the newest record to the oldest, shows what it
has found after each, and ends after `FOUND_MAX`; "Search on" goes on from exactly there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from nicegui import ui

from headwater.browse import search
from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.browse.pages import Bounds, Page
from headwater.client.log import Log
from headwater.client.places import Place
from headwater.client.records import Cursor, Record
from headwater.console import sentences
from headwater.console.live import loaded

FOUND_MAX = 200
STEP_S, LONG_STEP_S = 0.5, 2.0
"""What is found is shown after each step: soon at first, then less often, because each begins small."""
OFFSETS_MAX = 1 << 62
DRAW_EVERY_S = 0.3
WHERE = {
    "anywhere": "anywhere",
    "key": "in keys",
    "value": "in values",
    "headers": "in headers",
    "exact": "the key is",
    "field": "a field is",
}
_HINTS = {"exact": "17", "field": "after.total=12"}


class Search:
    """One visit's search in one topic."""

    def __init__(
        self,
        log: Log,
        topic: str,
        decoder: Decoder,
        tell: Callable[[Search | Exception], None],
    ) -> None:
        self._log, self._topic, self._decoder, self._tell = log, topic, decoder, tell
        self.records: list[Record] = []
        self.is_on = False
        self._turn = 0
        self._looked = self._total = self._looked_now = self._steps = 0
        self._took_s = 0.0
        self._next: Cursor | None = None
        self._is_whole = False
        self._wanted = Filter()

    def build(
        self, *, begin: Callable[[], None], partitions: Callable[[], list[int] | None]
    ) -> None:
        """The row of controls. `begin` is called before the search takes the table."""
        self._begin, self._partitions = begin, partitions
        self._words = ui.input("Find").props("dense outlined clearable").classes("hw-goto")
        self._words.on("keydown.enter", self.start)
        self._where = ui.select(WHERE, value="anywhere", on_change=self._hint)
        self._where.props('dense outlined options-dense aria-label="Where to look"')
        self._where.classes("hw-choice")
        self._button = ui.button("Search", icon="search", on_click=self._pressed)
        self._button.props("outline no-caps")
        self._on = ui.button("Search on", on_click=self._go_on).props("flat no-caps")
        self._on.set_visibility(False)
        self._bar = ui.linear_progress(0.0, show_value=False).classes("hw-progress")
        self._bar.props('aria-label="How much was looked at"')
        self._bar.set_visibility(False)
        self._said = ui.label("").classes("hw-soft hw-small").props('role="status"')
        self._timer = ui.timer(DRAW_EVERY_S, self._draw, active=False)

    def stop(self) -> None:
        """End it; what was found stays until somebody else takes the table."""
        self._turn += 1
        if self.is_on:
            self.is_on = False
            self._draw()

    def sentence(self) -> str:
        looked = f"{min(self._total, self._looked + self._looked_now):,} of {self._total:,} offsets"
        count = f"{len(self.records):,} found"
        if self.is_on:
            return f"{count}; looking: {looked}"
        if self._is_whole:
            return f"{count} in all of it ({looked}, {sentences.duration(self._took_s)})"
        return f"{count} so far; stopped after {looked} ({sentences.duration(self._took_s)})"

    async def start(self) -> None:
        words = (self._words.value or "").strip()
        if not words:
            return
        self._begin()
        self.records, self._looked, self._total, self._took_s = [], 0, 0, 0.0
        self._next, self._is_whole = None, False
        self._wanted = wanted(words, str(self._where.value))
        await self._run(None)

    async def _pressed(self) -> None:
        if self.is_on:
            self.stop()
        else:
            await self.start()

    async def _go_on(self) -> None:
        self.records = []
        await self._run(self._next)

    async def _run(self, cursor: Cursor | None) -> None:
        self._turn += 1
        turn = self._turn
        self.is_on = True
        self._steps = self._looked_now = 0
        self._draw()
        try:
            while turn == self._turn:
                self._steps += 1
                began = time.monotonic()
                page = await loaded(partial(self._step, cursor))
                if turn != self._turn or self._said.is_deleted:
                    return
                self._took_s += time.monotonic() - began
                self._take(page)
                cursor = page.next
                if cursor is None or len(self.records) >= FOUND_MAX:
                    break
        except Exception as error:
            self.is_on = False
            self._draw()
            self._tell(error)
            return
        if turn == self._turn:
            self.is_on = False
            self._draw()

    def _step(self, cursor: Cursor | None) -> Page:
        partitions = self._partitions() if cursor is None else sorted(cursor.offsets)
        place = None if cursor is None else Place(cursor=cursor)
        return search.search(
            self._log,
            self._topic,
            self._wanted,
            self._decoder,
            place,
            limit=FOUND_MAX - len(self.records),
            partitions=partitions,
            bounds=Bounds(OFFSETS_MAX, min(LONG_STEP_S, STEP_S * self._steps)),
            progress=self._progressed,
        )

    def _progressed(self, looked: int, total: int) -> None:
        """In the thread of the step."""
        self._looked_now = looked
        self._total = self._total or total

    def _take(self, page: Page) -> None:
        self._total = self._total or sum(end - start for start, end in page.ranges.values())
        self._looked_now = 0
        self._looked = min(self._total, self._looked + page.scanned)
        self._next, self._is_whole = page.next, page.next is None
        self.records += page.records
        self._tell(self)
        self._draw()

    def _draw(self) -> None:
        if self._said.is_deleted:
            return
        self._button.set_text("Stop" if self.is_on else "Search")
        self._button.set_icon("stop" if self.is_on else "search")
        self._bar.set_visibility(self.is_on)
        looked = self._looked + self._looked_now
        self._bar.set_value(min(1.0, looked / self._total) if self._total else 0.0)
        self._timer.active = self.is_on
        self._on.set_visibility(not self.is_on and self._next is not None and self._looked > 0)
        self._said.set_text(self.sentence() if self.is_on or self._looked else "")

    def _hint(self) -> None:
        self._words.props["placeholder"] = _HINTS.get(str(self._where.value), "")


def wanted(words: str, where: str) -> Filter:
    """What was typed, as a filter."""
    if where == "exact":
        return Filter(key=words)
    if where == "field":
        return Filter(where=(words,))
    if where == "anywhere":
        return Filter(grep=words, ignore_case=True)
    return Filter(grep=words, parts=(where,), ignore_case=True)
