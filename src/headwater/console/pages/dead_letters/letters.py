"""The letters of one dead-letter topic: by reason, one in full, corrected and sent back, or all of them.

What waits and what is done is the account that `headwater deadletters` keeps, too (`browse.dead_letters`).

Send everything that waits in a dead-letter topic back, with progress; a stop is between batches.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from nicegui import background_tasks, events, ui

from headwater.browse.dead_letters import replay
from headwater.browse.dead_letters.letter import Letter
from headwater.browse.dead_letters.survey import Survey, open_letters
from headwater.browse.decoder import Decoder
from headwater.client.errors import told
from headwater.client.log import Log
from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.context import Visit
from headwater.console.live import loaded
from headwater.console.pages.dead_letters.letter_form import LetterForm
from headwater.console.values import moment, one_line

SHOWN_MAX = 500
LOOKED_AT_MAX = 20_000
ALL = "\0all"
_COLUMNS: list[dict[str, Any]] = [
    {"name": "place", "label": "Letter", "field": "place", "align": "left"},
    {"name": "time", "label": "Since (UTC)", "field": "time", "align": "left"},
    {"name": "reason", "label": "Reason", "field": "reason", "align": "left"},
    {"name": "source", "label": "From", "field": "source", "align": "left"},
    {"name": "key", "label": "Key", "field": "key", "align": "left"},
    {"name": "value", "label": "Value", "field": "value", "align": "left"},
]
_PLACE = """
<q-td :props="props">
  <button type="button" class="hw-open" :aria-label="'Open letter ' + props.value"
    @click.stop="() => $parent.$emit('open', props.row.place)">{{ props.value }}</button>
</q-td>
"""
_CLIP = """
<q-td :props="props" class="hw-clip" :class="'hw-clip-' + props.col.name">{{ props.value }}</q-td>
"""


def read(log: Log, topic: str) -> Survey:
    """What waits, and the oldest letters of it."""
    with told(f"reading {topic}", log.bootstrap), open_letters(log.settings, topic) as letters:
        return letters.survey(LOOKED_AT_MAX, SHOWN_MAX)


def show_one(visit: Visit, topic: str) -> None:
    with ui.element("div").classes("hw-head"):
        elements.heading(topic, "Dead letters that wait")
        with ui.element("div").classes("hw-actions"):
            ui.link("All dead letters", "/dead-letters").classes("hw-button-link")
            again = ui.button("Reload", icon="refresh").props("outline no-caps")
            everything = elements.action(
                visit,
                Action.SEND_BACK,
                "Send all back",
                lambda: send_all(visit, topic, page.load),
                icon="outbox",
            )
    page = _Letters(visit, topic, everything)
    again.on_click(page.load)


class _Letters:
    """The table with its reasons, and the letter that was chosen."""

    def __init__(self, visit: Visit, topic: str, everything: ui.button) -> None:
        self._visit, self._topic, self._everything = visit, topic, everything
        self._decoder = Decoder(visit.context.log)
        self._found: Survey | None = None
        self._reason = ALL
        self._trouble = ui.element("div").classes("full-width")
        with elements.card() as card:
            card.props["aria-label"] = "Letters"
            self._reasons = ui.element("div").classes("hw-tools")
            self._said = ui.label("Loading …").classes("hw-soft hw-small hw-said")
            self._said.props('role="status"')
            with ui.element("div").classes("hw-split"):
                with ui.element("div").classes("hw-split-main"):
                    self._table = ui.table(columns=_COLUMNS, rows=[], row_key="place")
                    self._table.classes("hw-records").props("flat dense")
                    self._table.props["no-data-label"] = "No letter waits here."
                    self._table.add_slot("body-cell-place", _PLACE)
                    for name in ("reason", "source", "key", "value"):
                        self._table.add_slot(f"body-cell-{name}", _CLIP)
                    self._table.on("open", lambda event: self._open(str(event.args)))
                    self._table.on("row-click", self._clicked, [[], ["place"], None])
                self._form = LetterForm(visit, topic, self._decoder, done=self.load)
        background_tasks.create(self.load(), name="dead letters", context=self._said)

    async def load(self) -> None:
        """Read the topic again, and show what waits."""
        self._form.close()
        self._trouble.clear()
        try:
            context = self._visit.context
            ask = context.history.checked(partial(read, context.log, self._topic))
            self._found = await loaded(ask)
        except Exception as error:
            if not self._said.is_deleted:
                self._said.set_text("")
                with self._trouble:
                    elements.trouble(error)
            return
        if self._said.is_deleted:
            return
        if self._reason not in self._found.reasons:
            self._reason = ALL
        self._draw()

    def _draw(self) -> None:
        assert self._found is not None
        found = self._found
        self._reasons.clear()
        with self._reasons:
            self._chip(ALL, "All", found.waiting)
            for reason, count in islice(found.reasons.items(), 12):
                self._chip(reason, one_line(reason, 70) or "no reason given", count)
        chosen = [each for each in found.first if self._reason in (ALL, each.reason)]
        self._table.rows = [_row(each, self._decoder) for each in chosen]
        self._said.set_text(sentence(found, chosen))
        self._everything.set_enabled(found.waiting > 0)

    def _chip(self, reason: str, words: str, count: int) -> None:
        is_chosen = reason == self._reason
        look = "unelevated color=primary" if is_chosen else "outline"
        button = ui.button(f"{words}: {count:,}", on_click=lambda: self._choose(reason))
        button.props(f"no-caps dense padding='xs sm' rounded {look}")
        button.props["aria-pressed"] = "true" if is_chosen else "false"

    def _choose(self, reason: str) -> None:
        self._reason = reason
        self._draw()

    def _clicked(self, event: events.GenericEventArguments) -> None:
        self._open(str(event.args[1]["place"]))

    def _open(self, place: str) -> None:
        for letter in self._found.first if self._found else ():
            if _place(letter) == place:
                self._table.props[":table-row-class-fn"] = (
                    f"row => row.place === '{place}' ? 'hw-chosen' : ''"
                )
                self._form.show(letter)


def sentence(found: Survey, chosen: Sequence[Letter]) -> str:
    """How many are shown, of how many."""
    if not found.waiting:
        return "Nothing waits: all letters were sent back or dismissed."
    shown = f"{len(chosen):,} shown, " if len(chosen) != found.waiting else ""
    verb = "waits" if found.waiting == 1 else "wait"
    return f"{shown}{found.waiting:,}{'' if found.is_whole else ' or more'} {verb}."


def _place(letter: Letter) -> str:
    return f"{letter.partition}:{letter.offset}"


def _row(letter: Letter, decoder: Decoder) -> dict[str, Any]:
    source = f"{letter.source} {letter.source_partition}:{letter.source_offset}"
    return {
        "place": _place(letter),
        "time": moment(letter.timestamp_ms),
        "reason": one_line(letter.reason) or "no reason given",
        "source": source if letter.has_source else "a computed row",
        "key": "no key" if letter.key is None else one_line(decoder.decode(letter.key).text, 40),
        "value": one_line(decoder.decode(letter.value, letter.source).text),
    }


DRAW_EVERY_S = 0.2


async def send_all(visit: Visit, topic: str, done: Callable[[], Awaitable[None]]) -> None:
    """Ask, send, and reload; what was sent before a stop stays sent."""
    question = f"Send all letters that wait in {topic} back to the topics they came from?"
    if not await elements.confirmed(visit, Action.SEND_BACK, question, "Send all"):
        return
    stop = threading.Event()
    sent = [0]
    log = visit.context.log

    def run() -> int:
        with told(f"sending back {topic}", log.bootstrap):
            return replay.replay(
                log.settings,
                topic,
                tell=partial(sent.__setitem__, 0),
                is_stopped=lambda: stop.is_set() or dialog.is_deleted,
            )

    with ui.dialog(value=True).props("persistent") as dialog, ui.card().classes("hw-dialog"):
        said = ui.label("Sending …").props('role="status"')
        ui.linear_progress(show_value=False).props("indeterminate").classes("full-width")
        ui.button("Stop", on_click=stop.set).props("flat no-caps")
        timer = ui.timer(DRAW_EVERY_S, lambda: said.set_text(f"{sent[0]:,} sent"))
    try:
        count = await loaded(run)
    finally:
        is_left = dialog.is_deleted  # whoever asked is gone, and the dialog with the page
        if not is_left:
            timer.deactivate()
            dialog.delete()
    if is_left:
        return
    elements.notify(f"{count:,} letter{'' if count == 1 else 's'} sent back")
    await done()
