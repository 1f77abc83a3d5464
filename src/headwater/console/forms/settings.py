"""Settings of a topic or a broker: what each is, means and would be otherwise; and a form to change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from nicegui import events, ui

from headwater.client import setting_details
from headwater.client.setting_details import Change, Detail, Place
from headwater.console import live
from headwater.console.actions import Action
from headwater.console.context import Visit
from headwater.console.forms.trial import Plan, Row, Trial, form, shown
from headwater.console.live import loaded

EVERY_S = 10.0
_COLUMNS: list[dict[str, object]] = [
    {"name": "name", "label": "Setting", "field": "name", "align": "left", "sortable": True},
    {"name": "value", "label": "Value", "field": "value", "align": "left"},
    {"name": "fallback", "label": "Default", "field": "fallback", "align": "left"},
    {
        "name": "given_by",
        "label": "Given by",
        "field": "given_by",
        "align": "left",
        "sortable": True,
    },
    {"name": "edit", "label": "", "field": "edit", "align": "right"},
]
_NAME = """
<q-td :props="props" class="hw-setting"><div class="hw-mono">{{ props.value }}</div>
  <div class="hw-soft hw-small hw-meaning">{{ props.row.meaning }}</div></q-td>
"""
_VALUE = """
<q-td :props="props" :class="['hw-mono hw-wrap hw-setting-value', props.row.is_own && 'hw-own']">
  {{ props.value }}</q-td>
"""
_EDIT = """
<q-td :props="props"><q-btn v-if="props.row.editable" flat dense round icon="edit" size="sm"
  :aria-label="'Change ' + props.row.name" @click="() => $parent.$emit('edit', props.row.name)"></q-btn>
  <span v-else-if="props.row.read_only" class="hw-soft hw-small">at start only</span></q-td>
"""
Alter = Callable[[Sequence[Change], bool], None]
"""Changes, and whether only to try them; blocks."""


class SettingsTable:
    """The table, and its form."""

    def __init__(self, visit: Visit, place: Place, action: Action, alter: Alter) -> None:
        self._visit, self._place = visit, place
        self._may = visit.may(action)
        self._found: list[Detail] = []
        with ui.element("div").classes("hw-tools"):
            words = ui.input("Filter").props("dense outlined clearable").classes("hw-goto")
            self._own = ui.switch(
                "Only those of its own", on_change=lambda: self._draw(self._found)
            )
        self._table = ui.table(columns=_COLUMNS, rows=[], row_key="name", pagination=0)
        self._table.classes("hw-list hw-settings").props("flat dense hide-bottom wrap-cells")
        for name, slot in (
            ("name", _NAME),
            ("value", _VALUE),
            ("fallback", _VALUE.replace("props.row.is_own", "false")),
            ("edit", _EDIT),
        ):
            self._table.add_slot(f"body-cell-{name}", slot)
        self._table.bind_filter_from(words, "value", lambda value: value or "")
        self._form = SettingsForm(visit, place, action, alter, self._again)
        self._table.on("edit", self._edit)
        self._kept = live.keep(
            partial(setting_details.described, visit.context.log, place), self._draw, EVERY_S
        )

    def _again(self) -> None:
        self._kept.soon()

    def _edit(self, event: events.GenericEventArguments) -> None:
        self._form.open(self._found, str(event.args))

    def _draw(self, found: list[Detail]) -> None:
        self._found = found
        chosen = [each for each in found if each.is_own or not self._own.value]
        chosen.sort(key=lambda each: (not each.is_own, each.is_read_only, each.name))
        self._table.rows = [
            {
                "name": each.name,
                "meaning": each.meaning,
                "value": "hidden" if each.is_secret else shown(each.value),
                "fallback": "hidden" if each.is_secret else shown(each.fallback),
                "given_by": each.given_by,
                "is_own": each.is_own,
                "read_only": each.is_read_only,
                "editable": self._may and not each.is_read_only,
            }
            for each in chosen
        ]


class SettingsForm:
    """One dialog for any number of settings: choose one, say what it shall be, go on with the next."""

    def __init__(
        self,
        visit: Visit,
        place: Place,
        action: Action,
        alter: Alter,
        after: Callable[[], object],
    ) -> None:
        self._alter, self._place = alter, place
        self._known: dict[str, Detail] = {}
        self._wanted: dict[str, str | None] = {}
        with form(
            f"Settings of {place}", "Nothing changes before you have seen what would."
        ) as box:
            self._dialog = box
            self._name = ui.select([], label="Setting", with_input=True, on_change=self._choose)
            self._name.props("outlined dense").classes("full-width")
            self._meaning = ui.label("").classes("hw-soft hw-small hw-wrap")
            self._facts = ui.label("").classes("hw-small hw-wrap")
            self._value = ui.input("Value", on_change=self._typed)
            self._value.props("outlined dense input-class=hw-mono").classes("full-width")
            self._back = ui.checkbox("Without a value of its own", on_change=self._typed)
            self._also = ui.label("").classes("hw-small hw-soft")
            self._trial = Trial(visit, action, box, self._plan, apply="Apply changes", after=after)

    def open(self, known: Sequence[Detail], name: str) -> None:
        self._known = {each.name: each for each in known if not each.is_read_only}
        self._wanted = {}
        self._name.set_options(list(self._known), value=name if name in self._known else None)
        self._choose()
        self._dialog.open()

    def _choose(self) -> None:
        detail = self._known.get(str(self._name.value or ""))
        if detail is None:
            return
        self._meaning.set_text(detail.meaning)
        now = "hidden" if detail.is_secret else shown(detail.value)
        other = "hidden" if detail.is_secret else shown(detail.fallback)
        form = f"; {detail.form}" if detail.form else ""
        self._facts.set_text(f"Now {now}, given by {detail.given_by}; by default {other}{form}.")
        wanted = self._wanted.get(detail.name, detail.value)
        self._back.set_value(detail.name in self._wanted and wanted is None)
        self._value.set_value((detail.fallback if self._back.value else wanted) or "")
        self._value.set_enabled(not self._back.value)

    def _typed(self) -> None:
        detail = self._known.get(str(self._name.value or ""))
        if detail is None:
            return
        self._value.set_enabled(not self._back.value)
        said = None if self._back.value else str(self._value.value or "")
        same = not self._back.value and said == (detail.value or "")
        if same:
            self._wanted.pop(detail.name, None)
        else:
            self._wanted[detail.name] = said
        others = [each for each in self._wanted if each != detail.name]
        self._also.set_text(f"Also changed: {', '.join(others)}" if others else "")
        self._trial.forget()

    async def _plan(self) -> Plan:
        given = {name: value for name, value in self._wanted.items() if value is not None}
        removed = [name for name, value in self._wanted.items() if value is None]
        found = setting_details.changes(self._known.values(), given, removed)
        if not found:
            return Plan("Nothing would change: it is already so.")
        await loaded(partial(self._alter, found, True))
        rows = [Row(each.name, shown(each.before), _afterwards(each)) for each in found]
        return Plan(
            f"The broker would accept {'this change' if len(rows) == 1 else 'these changes'}:",
            rows,
            partial(self._alter, found, False),
            f"Changed {', '.join(each.name for each in found)} of {self._place}",
        )


def _afterwards(change: Change) -> str:
    return (
        f"{shown(change.result)} (its own value goes)"
        if change.after is None
        else shown(change.after)
    )
