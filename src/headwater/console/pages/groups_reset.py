"""Put a group elsewhere: first what would change, then, once that was seen, the change.

Refused while the group has members, and by the server in a read-only console.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from nicegui import ui

from headwater.client import groups
from headwater.client.errors import BadRequest
from headwater.client.groups import Move, Reset, ResetPlan
from headwater.client.places import parse
from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.context import Visit
from headwater.console.live import loaded

_SHIFT = re.compile(r"([+-]\d+)")
_COLUMNS: list[dict[str, Any]] = [
    {"name": "place", "label": "Partition", "field": "place", "align": "left"},
    {"name": "before", "label": "Position now", "field": "before"},
    {"name": "after", "label": "Afterwards", "field": "after"},
    {"name": "change", "label": "Change", "field": "change", "align": "left"},
]


def reset_dialog(visit: Visit, group: str) -> Callable[[], None]:
    """Made with the page; what is returned opens it."""
    with ui.dialog() as dialog, ui.card().classes("hw-dialog hw-dialog-wide"):
        ui.label(f"Reset {group}").classes("hw-card-label").props('role="heading" aria-level="2"')
        ui.label(
            "Where shall it go on reading? Nothing changes before you have seen what would."
        ).classes("hw-soft")
        form = _Form(visit, group, dialog)

    def opened() -> None:
        form.forget()
        dialog.open()

    return opened


class _Form:
    """The words, the plan that was made of them, and the button that applies it."""

    def __init__(self, visit: Visit, group: str, dialog: ui.dialog) -> None:
        self._visit, self._group, self._dialog = visit, group, dialog
        self._plan: ResetPlan | None = None
        self._to = ui.input("To", value="beginning", on_change=self.forget)
        self._to.props("outlined dense").classes("full-width")
        ui.label(
            "beginning, end, an offset (17), a time (2026-11-15T15:00), so long ago (-10m), "
            "or a shift in records (+100, -100)"
        ).classes("hw-soft hw-small")
        self._topic = ui.input("Only this topic (all if empty)", on_change=self.forget)
        self._topic.props("outlined dense").classes("full-width")
        self._partitions = ui.input("Only these partitions (0,2; all if empty)")
        self._partitions.on_value_change(self.forget)
        self._partitions.props("outlined dense").classes("full-width")
        self._said = ui.label("").props('role="status"')
        self._table = ui.table(columns=_COLUMNS, rows=[], row_key="place")
        self._table.classes("hw-list hw-scroll").props("flat dense")
        with ui.row().classes("justify-end full-width"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            elements.action(visit, Action.RESET_GROUP, "Show what would change", self._show)
            self._apply = elements.action(
                visit,
                Action.RESET_GROUP,
                "Reset",
                self._do,
                props="unelevated color=negative",
            )
        self.forget()

    def forget(self) -> None:
        """Something else was typed: what was shown does not hold any more."""
        self._plan = None
        self._said.set_text("")
        self._table.rows = []
        self._table.set_visibility(False)
        self._apply.set_visibility(False)

    async def _show(self) -> None:
        self.forget()
        topic = (self._topic.value or "").strip()
        self._plan = await loaded(
            partial(
                groups.plan_reset,
                self._visit.context.log,
                self._group,
                reset_of(self._to.value or ""),
                [topic] if topic else (),
                _numbers(self._partitions.value or ""),
            )
        )
        changes = self._plan.changes
        self._table.rows = [_row(each) for each in self._plan.moves]
        self._table.set_visibility(True)
        self._apply.set_visibility(bool(changes))
        if not changes:
            self._said.set_text("Nothing would change: it is there already.")
        else:
            self._said.set_text(f"{_partitions(len(changes))} would change:")
            self._apply.set_text(f"Reset {_partitions(len(changes))}")

    async def _do(self) -> None:
        if self._plan is None:
            raise BadRequest("look first at what would change")
        planned, self._plan = self._plan, None
        # Members may have come since: the plan is refused then, and so is this.
        await loaded(partial(_apply, self._visit, planned))
        elements.notify(f"{self._group} was reset: {_partitions(len(planned.changes))} moved")
        self._dialog.close()


def _apply(visit: Visit, planned: ResetPlan) -> None:
    groups.apply_reset(visit.context.log, planned)


def reset_of(words: str) -> Reset:
    """A signed number is a shift; `-10m` and everything else is a place."""
    text = words.strip()
    if not text:
        raise BadRequest("say where to", hint="beginning, end, 17, 2026-11-15T15:00, +100")
    if found := _SHIFT.fullmatch(text):
        return Reset(shift=int(found[1]))
    return Reset(place=parse(text))


def _numbers(words: str) -> list[int] | None:
    parts = [part.strip() for part in words.split(",") if part.strip()]
    if not all(part.isdigit() for part in parts):
        raise BadRequest(f"{words!r} are no partitions", hint="write numbers, as in 0,2")
    return [int(part) for part in parts] or None


def _row(move: Move) -> dict[str, Any]:
    by = None if move.before is None else move.after - move.before
    if by is None:
        change = "first position"
    elif by == 0:
        change = "stays"
    else:
        change = f"{abs(by):,} {'skipped' if by > 0 else 'read again'}"
    return {
        "place": f"{move.topic}-{move.partition}",
        "before": "none yet" if move.before is None else f"{move.before:,}",
        "after": f"{move.after:,}",
        "change": change,
    }


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"
