"""The journey through a key's changes: a slider by change or by time, the state there, and all changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import events, ui

from headwater.console import elements
from headwater.console.addresses import link
from headwater.console.context import Visit
from headwater.console.pages.time_travel.markup import change_line, op_of, state_html
from headwater.console.values import moment
from headwater.views.folding.state import Change, State

LISTED_MAX = 300
"""Changes in the list at once: those around the chosen one."""
TIME_STEPS = 1000
_COLUMNS: list[dict[str, Any]] = [
    {"name": "time", "label": "Time (UTC)", "field": "time", "align": "left"},
    {"name": "op", "label": "What", "field": "op", "align": "left"},
    {"name": "change", "label": "Change", "field": "change", "align": "left"},
]
_TIME = """
<q-td :props="props">
  <button type="button" class="hw-open" :aria-label="'Go to change ' + props.row.n + ', ' + props.value"
    @click.stop="() => $parent.$emit('open', props.row.n)">{{ props.value }}</button>
</q-td>
"""
_CHANGE = '<q-td :props="props" class="hw-mono hw-clip hw-clip-value">{{ props.value }}</q-td>'


class Journey:
    """One key's history; the newest moment first."""

    def __init__(self, visit: Visit, found: State) -> None:
        self._visit, self._found = visit, found
        self._changes = found.changes
        self._at = self._first()
        with elements.card() as card:
            card.props["aria-label"] = "The moment"
            self._build_slider()
        with ui.element("div").classes("hw-split hw-split-even"):
            with elements.card(f"The key {found.key}"):
                self._state = ui.html("", sanitize=False).classes("hw-scroll-x")
                self._place = ui.element("div").classes("hw-small")
            with elements.card(_count(len(self._changes))):
                self._table = ui.table(columns=_COLUMNS, rows=[], row_key="n")
                self._table.classes("hw-records hw-changes").props("flat dense")
                self._table.add_slot("body-cell-time", _TIME)
                self._table.add_slot("body-cell-change", _CHANGE)
                self._table.on("open", lambda event: self._go(int(event.args) - 1))
                self._table.on("row-click", self._clicked, [[], ["n"], None])
        if found.note:
            ui.label(found.note).classes("hw-soft hw-small")
        self._draw()

    def _build_slider(self) -> None:
        with ui.element("div").classes("hw-panel-bar"):
            self._when = ui.label("").classes("hw-figure-value hw-said").props('role="status"')
            ui.space()
            self._mode = ui.toggle({"change": "by change", "time": "by time"}, value="change")
            self._mode.props('no-caps unelevated padding="4px 12px" aria-label="The slider goes"')
            self._mode.on_value_change(self._set_slider)
        with ui.element("div").classes("hw-slide"):
            self._back = self._button("chevron_left", "The change before", -1)
            self._slider = ui.slider(min=0, max=1, value=0)
            self._slider.props('label aria-label="Moment"')
            self._slider.on("update:model-value", self._slid, throttle=0.05)
            self._on = self._button("chevron_right", "The change after", 1)
        with ui.element("div").classes("hw-slide-ends hw-soft hw-small"):
            ui.label(moment(self._changes[0].timestamp_ms))
            ui.space()
            ui.label(moment(self._changes[-1].timestamp_ms))
        self._set_slider()

    def _button(self, icon: str, words: str, by: int) -> ui.button:
        made = ui.button(icon=icon, on_click=lambda: self._go(self._at + by))
        made.props["aria-label"] = words
        return made.props("flat round")

    # ---- moving ---------------------------------------------------------------------------------

    def _first(self) -> int:
        """The change that the address names, else the last."""
        wanted = self._visit.query.get("at")
        for number, each in enumerate(self._changes):
            if f"{each.partition}:{each.offset}" == wanted:
                return number
        return len(self._changes) - 1

    def _set_slider(self) -> None:
        """Bounds and place for the chosen way to move."""
        props = self._slider.props
        if self._mode.value == "time":
            first, last = self._changes[0].timestamp_ms, self._changes[-1].timestamp_ms
            props["min"], props["max"] = 0, max(1, last - first)
            props["step"] = max(1, (last - first) // TIME_STEPS)
        else:
            props["min"], props["max"], props["step"] = 1, max(2, len(self._changes)), 1
        self._slider.set_enabled(len(self._changes) > 1)
        self._put_slider()

    def _put_slider(self) -> None:
        here = self._changes[self._at]
        first = self._changes[0].timestamp_ms
        by_time = self._mode.value == "time"
        self._slider.value = here.timestamp_ms - first if by_time else self._at + 1
        self._label(here.timestamp_ms)

    def _slid(self) -> None:
        value = self._slider.value or 0
        if self._mode.value == "time":
            time_ms = self._changes[0].timestamp_ms + int(value)
            self._at = at_time(self._changes, time_ms)
            self._draw(time_ms)
        else:
            self._at = min(max(int(value), 1), len(self._changes)) - 1
            self._draw()

    def _clicked(self, event: events.GenericEventArguments) -> None:
        self._go(int(event.args[1]["n"]) - 1)

    def _go(self, at: int) -> None:
        if 0 <= at < len(self._changes):
            self._at = at
            self._put_slider()
            self._draw()

    # ---- showing --------------------------------------------------------------------------------

    def _label(self, time_ms: int) -> None:
        self._slider.props["label-value"] = moment(time_ms)
        self._slider.props["aria-valuetext"] = moment(time_ms)

    def _draw(self, time_ms: int | None = None) -> None:
        here = self._changes[self._at]
        shown = here.timestamp_ms if time_ms is None else time_ms
        self._label(shown)
        self._when.set_text(
            f"{moment(shown)} UTC: {op_of(here)}" if time_ms is None else f"At {moment(shown)} UTC"
        )
        self._back.set_enabled(self._at > 0)
        self._on.set_enabled(self._at < len(self._changes) - 1)
        self._state.set_content(state_html(here))
        self._say_place(here)
        self._list()

    def _say_place(self, here: Change) -> None:
        place = f"{here.partition}:{here.offset}"
        self._place.clear()
        with self._place:
            ui.label(f"Change {self._at + 1:,} of {len(self._changes):,}, by record").classes(
                "hw-soft hw-inline"
            )
            target = link(f"/topics/{self._found.topic}", at=place, open=1)
            ui.link(place, target).classes("hw-mono")

    def _list(self) -> None:
        begin, end = window(len(self._changes), self._at)
        rows = [_row(n + 1, self._changes[n]) for n in range(begin, end)]
        if self._table.rows != rows:
            self._table.rows = rows
        self._table.props[":table-row-class-fn"] = (
            f"row => row.n === {self._at + 1} ? 'hw-chosen' : ''"
        )


def at_time(changes: Sequence[Change], time_ms: int) -> int:
    """The change that held at a time: the one before the first that is later. The first, if all are."""
    for number, each in enumerate(changes):
        if each.timestamp_ms > time_ms:
            return max(0, number - 1)
    return len(changes) - 1


def window(count: int, at: int) -> tuple[int, int]:
    """Which changes to list: it moves in steps, so that most moves change no list."""
    if count <= LISTED_MAX:
        return 0, count
    half = LISTED_MAX // 2
    begin = min(max(0, at // half * half - half // 2), count - LISTED_MAX)
    return begin, begin + LISTED_MAX


def _row(number: int, change: Change) -> dict[str, Any]:
    return {
        "n": number,
        "time": moment(change.timestamp_ms),
        "op": op_of(change),
        "change": change_line(change),
    }


def _count(changes: int) -> str:
    return "1 change" if changes == 1 else f"{changes:,} changes"
