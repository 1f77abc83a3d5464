"""The records of a topic: go to an offset or a time, page back and forth, follow, find, look at one.

Called by the page of a topic. This puts the parts together: the table is `rows`, one record
`panel`, what moves through the topic `walk`, the live tail `tail`, the search
`search`. Only one of page, tail and search has the table at a time; whoever comes ends the others.
"""

from __future__ import annotations

from collections.abc import Callable

from nicegui import background_tasks, ui

from headwater.browse.decoder import Decoder
from headwater.client.places import END, parse
from headwater.client.records import Record
from headwater.console import elements
from headwater.console.addresses import link
from headwater.console.context import Visit
from headwater.console.pages.topics.panel import Panel
from headwater.console.pages.topics.rows import Rows, place_of
from headwater.console.pages.topics.search import Search
from headwater.console.pages.topics.tail import Tail
from headwater.console.pages.topics.walk import Walk

ALL = "all"
_PLACES = "17, 2:17, 2026-11-15T15:00, -10m"


class Records:
    """One visit's browser of one topic."""

    def __init__(self, visit: Visit, topic: str) -> None:
        self._visit, self._topic = visit, topic
        self._decoder = Decoder(visit.context.log)
        self._newest_first = True
        self._build()
        self.walk = Walk(visit.context.log, topic, self._paged, visit.context.history.checked)
        self.tail = Tail(visit.context.log, topic, self._tailed, self._is_seen)
        self.search = Search(visit.context.log, topic, self._decoder, self._searched)
        with self._find_row:
            self.search.build(begin=self._end_others, partitions=lambda: self._partitions)
        background_tasks.create(self._first(), name="first page of a topic", context=self._said)

    # ---- elements -------------------------------------------------------------------------------

    def _build(self) -> None:
        with elements.card() as card:
            card.props["aria-label"] = "Records"
            with ui.element("div").classes("hw-tools"):
                self._build_places()
                self._build_steps()
            self._find_row = ui.element("div").classes("hw-tools")
            self._trouble = ui.element("div").classes("full-width")
            with ui.element("div").classes("hw-said-row"):
                self._said = ui.label("Loading …").classes("hw-soft hw-small hw-said")
                self._said.props('role="status"')
                ui.space()
                self._order = ui.button("Newest first", icon="swap_vert", on_click=self._turn_order)
                self._order.props("flat no-caps dense size=sm")
            with ui.element("div").classes("hw-split"):
                with ui.element("div").classes("hw-split-main"):
                    self._rows = Rows(self._decoder, self.open)
                self._panel = Panel(self._decoder, closed=lambda: self._rows.mark(""))

    def _build_places(self) -> None:
        self._place = ui.input("Go to", placeholder=_PLACES).props("dense outlined clearable")
        self._place.classes("hw-goto").on("keydown.enter", self._go)
        ui.button("Go", on_click=self._go).props("outline no-caps")
        self._choice = ui.select({ALL: "All partitions"}, value=ALL)
        # The browser's event, not the value's: choosing by program must not go anywhere.
        self._choice.on("update:model-value", self._chose)
        self._choice.props('dense outlined options-dense aria-label="Partition"')
        self._choice.classes("hw-choice")

    def _build_steps(self) -> None:
        with ui.button_group().props("outline"):
            self._oldest = _move("first_page", "Oldest", self._to_oldest)
            self._older = _move("chevron_left", "Older", lambda: self.walk.older())
            self._newer = _move("chevron_right", "Newer", lambda: self.walk.newer())
            self._newest = _move("last_page", "Newest", self._to_newest)
        self._follow = ui.button("Follow", icon="play_arrow", on_click=self._toggle_tail)
        self._follow.props("outline no-caps")

    # ---- what people do -------------------------------------------------------------------------

    async def _first(self) -> None:
        at = self._visit.query.get("at")
        if at:
            self._place.value = at
            await self._go()
            if self._is_seen() and self._rows.records and self._visit.query.get("open"):
                self.open(self._rows.records[0])
        else:
            await self._to_newest()

    async def _go(self) -> None:
        words = (self._place.value or "").strip()
        if not words:
            return
        try:
            place = parse(words)
        except Exception as error:
            self._paged(error)
            return
        if place == END:
            await self._to_newest()
            return
        self._end_others()
        if place.partition is not None:
            self._choose(place.partition)
        self._set_order(newest_first=False)
        self._remember(words)
        await self.walk.go(place, self._partitions, back=False)

    async def _to_oldest(self) -> None:
        self._end_others()
        self._set_order(newest_first=False)
        self._remember("beginning")
        await self.walk.go(None, self._partitions, back=False)

    async def _to_newest(self) -> None:
        self._end_others()
        self._set_order(newest_first=True)
        self._remember(None)
        await self.walk.go(None, self._partitions, back=True)

    async def _chose(self) -> None:
        if not self.tail.is_on and not self.search.is_on:
            await self._to_newest()

    def _turn_order(self) -> None:
        self._set_order(newest_first=not self._newest_first)
        self._rows.show(list(reversed(self._rows.records)))

    async def _toggle_tail(self) -> None:
        if self.tail.is_on:
            self.tail.stop()
            return
        self.search.stop()
        self._set_order(newest_first=True)
        self._follow.set_text("Stop following")
        self._follow.set_icon("stop")
        await self.tail.run(self._partitions)
        if not self._is_seen():
            return
        self._follow.set_text("Follow")
        self._follow.set_icon("play_arrow")

    def open(self, record: Record) -> None:
        """Show one record in full."""
        self._rows.mark(place_of(record))

        def step(by: int) -> None:
            if (found := self._rows.neighbour(place_of(record), by)) is not None:
                self.open(found)

        self._panel.show(record, step)

    # ---- what came ------------------------------------------------------------------------------

    def _paged(self, outcome: Walk | Exception) -> None:
        if self._trouble_said(outcome):
            return
        walk = self.walk
        if walk.is_new:
            self._know_partitions(sorted(walk.ranges))
            shown = list(reversed(walk.records)) if self._newest_first else walk.records
            self._rows.show(shown)
        self._older.set_enabled(walk.has_older)
        self._oldest.set_enabled(walk.has_older)
        self._said.set_text(walk.sentence())

    def _tailed(self, outcome: Tail | Exception) -> None:
        if not self._trouble_said(outcome):
            self._rows.show(list(self.tail.records))
            self._said.set_text(self.tail.sentence())

    def _searched(self, outcome: Search | Exception) -> None:
        if not self._trouble_said(outcome):
            self._rows.show(list(self.search.records))
            self._said.set_text("")

    def _trouble_said(self, outcome: object) -> bool:
        if self._trouble.is_deleted:
            return True
        self._trouble.clear()
        if isinstance(outcome, Exception):
            self._said.set_text("")
            with self._trouble:
                elements.trouble(outcome)
        return isinstance(outcome, Exception)

    def _is_seen(self) -> bool:
        """Whether the page is still there: whoever works for it asks now and then."""
        return not self._trouble.is_deleted

    # ---- small things ---------------------------------------------------------------------------

    @property
    def _partitions(self) -> list[int] | None:
        return None if self._choice.value == ALL else [int(self._choice.value)]

    def _end_others(self) -> None:
        self.tail.stop()
        self.search.stop()

    def _know_partitions(self, numbers: list[int]) -> None:
        """What there is to choose: known only when everything was asked for."""
        if self._partitions is None:
            self._choice.set_options(_options(numbers), value=ALL)

    def _choose(self, partition: int) -> None:
        if partition not in self._choice.options:
            self._choice.set_options(_options([partition]))
        self._choice.value = partition

    def _set_order(self, *, newest_first: bool) -> None:
        self._newest_first = newest_first
        self._order.set_text("Newest first" if newest_first else "Oldest first")

    def _remember(self, at: str | None) -> None:
        """The address leads here again; the page stays as it is."""
        ui.navigate.history.replace(link(f"/topics/{self._topic}", at=at))


def _options(numbers: list[int]) -> dict[str | int, str]:
    return {ALL: "All partitions", **{number: f"Partition {number}" for number in numbers}}


def _move(icon: str, words: str, do: Callable[[], object]) -> ui.button:
    return ui.button(words, icon=icon, on_click=do).props("outline no-caps dense padding=xs")
