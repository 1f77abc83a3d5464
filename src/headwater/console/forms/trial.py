"""The end of every form: first what would change, then, once that was seen, the change.

Inside a dialog. What is applied is what was shown: typing anything else takes the button away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from nicegui import ui

from headwater.client.errors import BadRequest
from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.administration.topics import must_match
from headwater.console.context import Visit
from headwater.console.live import loaded

_COLUMNS: list[dict[str, object]] = [
    {"name": "what", "label": "What", "field": "what", "align": "left"},
    {"name": "before", "label": "Now", "field": "before", "align": "left"},
    {"name": "after", "label": "Afterwards", "field": "after", "align": "left"},
]
_CELL = '<q-td :props="props" class="hw-mono hw-small hw-wrap">{{ props.value }}</q-td>'


class Row(NamedTuple):
    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Plan:
    """What would change, and what makes it so; `do` None: nothing would."""

    sentence: str
    rows: Sequence[Row] = ()
    do: Callable[[], object] | None = None
    """Called in a thread."""
    done: str = ""
    """What to say then."""
    apply: str = ""
    """On the button, where the form's own words say too little."""


class Trial:
    """Two buttons: show, and apply."""

    def __init__(
        self,
        visit: Visit,
        action: Action,
        dialog: ui.dialog,
        plan: Callable[[], Awaitable[Plan]],
        *,
        apply: str,
        after: Callable[[], object] = lambda: None,
        is_final: bool = False,
    ) -> None:
        """`apply`: the words on the button; `is_final`: it cannot be taken back; `after` follows success."""
        self._dialog, self._make, self._after = dialog, plan, after
        self._words = apply
        self._plan: Plan | None = None
        self._said = ui.label("").props('role="status"').classes("hw-wrap")
        self._table = ui.table(columns=_COLUMNS, rows=[], row_key="what", pagination=0)
        self._table.classes("hw-list hw-scroll").props("flat dense hide-bottom")
        for name in ("what", "before", "after"):
            self._table.add_slot(f"body-cell-{name}", _CELL)
        with ui.row().classes("justify-end full-width"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            elements.action(visit, action, "Show what would change", self._show)
            colour = "negative" if is_final else "primary"
            self._apply = elements.action(
                visit, action, apply, self._do, props=f"unelevated color={colour}"
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
        plan = self._plan = await self._make()
        self._said.set_text(plan.sentence)
        self._table.rows = [each._asdict() for each in plan.rows]
        self._table.set_visibility(bool(plan.rows))
        self._apply.set_visibility(plan.do is not None)
        self._apply.set_text(plan.apply or self._words)

    async def _do(self) -> None:
        plan, self._plan = self._plan, None
        if plan is None or plan.do is None:
            raise BadRequest("look first at what would change")
        self._apply.set_visibility(False)
        await loaded(plan.do)
        elements.notify(plan.done)
        self._dialog.close()
        self._after()


@contextmanager
def form(title: str, sentence: str = "") -> Iterator[ui.dialog]:
    """A dialog with a heading, for fields and a `Trial`."""
    with ui.dialog() as dialog, ui.card().classes("hw-dialog hw-dialog-wide"):
        ui.label(title).classes("hw-card-label hw-wrap").props('role="heading" aria-level="2"')
        if sentence:
            ui.label(sentence).classes("hw-soft")
        yield dialog


def deletion(
    visit: Visit,
    action: Action,
    name: str,
    sentence: str,
    lost: Callable[[], Awaitable[Sequence[Row]]],
    delete: Callable[[Visit, str, str], object],
) -> ui.dialog:
    """The dialog that deletes a topic or a group: its name is typed, and what goes is shown before."""
    kind = action.sentence.removeprefix("delete a ")
    with form(f"Delete {name}", sentence) as box:
        typed = ui.input(f"Type the {kind}'s name").props("outlined dense input-class=hw-mono")
        typed.classes("full-width")

        async def plan() -> Plan:
            said = typed.value or ""
            must_match(name, said)
            do = partial(delete, visit, name, said)
            return Plan(
                "This would be permanently deleted:", await lost(), do, f"Deleted {kind} {name}"
            )

        trial = Trial(
            visit,
            action,
            box,
            plan,
            apply=f"Delete {kind}",
            after=lambda: ui.navigate.to(f"/{kind}s"),
            is_final=True,
        )
        typed.on_value_change(trial.forget)
    return box


def shown(value: object) -> str:
    """A value in a table: what is not there, is said."""
    return "–" if value is None else '""' if value == "" else str(value)
