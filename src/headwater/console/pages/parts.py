"""The parts of the project: the processes that the supervisor keeps running, what each printed, and how
the broker says it is.

How the broker is, as a card: in trouble or well, and why. Shown with the parts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from nicegui import ui

from headwater.browse.health import BrokerHealth
from headwater.console import elements
from headwater.console.addresses import link
from headwater.console.cards import Cards, Said, StateWord
from headwater.console.context import Visit
from headwater.console.forms.parts import PartButtons
from headwater.console.live import keep
from headwater.console.pages import Page
from headwater.console.sentences import duration
from headwater.console.watching.parts import last_lines
from headwater.project.record import Entry

LINES = 400
TONES: dict[str, elements.Tone] = {
    "running": "good",
    "starting": "warn",
    "restarting": "warn",
    "waiting": "bad",
    "failing": "bad",
    "pausing": "warn",
    "paused": "warn",
}
Found = tuple[bool, Sequence[Entry], list[str]]


def show(visit: Visit) -> None:
    elements.heading("Parts", "The processes of this project, kept running by headwater up.")
    keep(visit.context.watch.broker.look, BrokerCard().draw, 2.0)
    if visit.context.project is None:
        elements.absent(
            "This console shows a log, and no project.",
            "Start it in a project's folder, or with --project DIR, to see the project's parts.",
        )
        return
    name = visit.query.get("name")
    shown = _Shown(visit, name)
    keep(lambda: _look(visit, name), shown.draw, 1.0)


def _look(visit: Visit, name: str | None) -> Found:
    is_up, entries = visit.context.watch.parts.all()
    chosen = next((each for each in entries if each.name == name), None)
    return is_up, entries if is_up else [], last_lines(Path(chosen.log), LINES) if chosen else []


class _Shown:
    """The page: cards, and the log of the one that was chosen."""

    def __init__(self, visit: Visit, name: str | None) -> None:
        self._name = name
        self._cards = Cards[Entry](
            lambda e: e.name, lambda e: _Card(visit, e, chosen=e.name == name)
        )
        self._lines: list[str] = []
        self._made = False

    def draw(self, found: Found) -> None:
        is_up, entries, lines = found
        self._cards.draw(entries)
        if not self._made:
            self._make()
        self._absent.set_visibility(not is_up)
        if self._name is not None and lines != self._lines:
            self._lines = lines
            self._log.set_content(elements.escaped("\n".join(lines)))
            ui.run_javascript(_TO_THE_END)

    def _make(self) -> None:
        self._made = True
        self._absent = elements.absent(
            "The project is not up.", "Start it with: headwater up", icon="power_off"
        )
        if self._name is None:
            ui.label("Choose a part to see what it printed.").classes("hw-soft")
            return
        elements.section(f"What {self._name} printed")
        self._log = ui.html("", sanitize=False, tag="pre").classes("hw-lines full-width")
        self._log.props('tabindex="0" id="part-log"')
        self._log.props["aria-label"] = f"Log of {self._name}"


class _Card:
    def __init__(self, visit: Visit, entry: Entry, *, chosen: bool) -> None:
        self.element = ui.element("div").classes("hw-card hw-part" + " hw-chosen" * chosen)
        with self.element:
            around = ui.link(target=link("/parts", name=entry.name)).classes("hw-plain")
            if chosen:
                around.props('aria-current="true"')
            with around:
                with ui.element("div").classes("hw-row"):
                    ui.label(entry.name).classes("hw-title")
                    self._state = StateWord()
                self._since = ui.label().classes("hw-soft hw-small")
                self._restarts = Said("hw-small hw-wrap")
            can_ask = visit.context.watch.parts.can_ask(entry.name)
            self._buttons = PartButtons(visit, entry.name) if can_ask else None

    def update(self, now: Entry) -> None:
        self._state.set(now.state, TONES.get(now.state, "calm"))
        if self._buttons is not None:
            self._buttons.update(now)
        since = duration(max(0.0, time.time() - now.since)) if now.since else ""
        by = f" by {now.asked_by}" if now.asked_by else f", process {now.pid}" if now.pid else ""
        self._since.set_text(f"for {since}{by}" if since else "")
        times = "once" if now.restarts == 1 else f"{now.restarts} times"
        said = f"Started again {times}; last: {now.reason or 'no reason given'}"
        self._restarts.set(now.reason if now.state == "failing" else said if now.restarts else None)


_TO_THE_END = """
const log = document.getElementById('part-log');
if (log && (!log.dataset.seen || log.scrollHeight - log.scrollTop - log.clientHeight < 200)) {
  log.scrollTop = log.scrollHeight; log.dataset.seen = '1';
}
"""

PAGES = [Page("/parts", "Parts", show, icon="widgets", order=80)]


class BrokerCard:
    """Drawn anew when what the broker tells of itself has changed."""

    def __init__(self) -> None:
        self._shown: tuple[list[str], list[str]] | None = None
        self._place: ui.element | None = None

    def draw(self, health: BrokerHealth | None) -> None:
        if self._place is None:
            self._place = ui.element("div").classes("full-width")
        if health is None:  # Apache Kafka tells nothing of itself
            self._place.clear()
            self._shown = None
            return
        told = (health.troubles, health.notes)
        if told != self._shown:
            self._shown = told
            self._place.clear()
            with self._place, elements.card() as made:
                made.props["aria-label"] = "The broker"
                self._fill(*told)

    def _fill(self, troubles: list[str], notes: list[str]) -> None:
        with ui.element("div").classes("hw-row"):
            ui.label("The broker").classes("hw-title")
            elements.state("in trouble" if troubles else "well", "bad" if troubles else "good")
        for sentence in troubles:
            ui.label(_sentence(sentence)).classes("hw-wrap")
        for sentence in notes:
            ui.label(_sentence(sentence)).classes("hw-soft hw-small hw-wrap")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
