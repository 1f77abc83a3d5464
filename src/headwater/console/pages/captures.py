"""Captures: where each is in its database, what the database keeps for it, how far its snapshot is."""

from __future__ import annotations

import json

from nicegui import ui

from headwater.console import elements
from headwater.console.addresses import link
from headwater.console.cards import Cards, Said, StateWord
from headwater.console.context import Visit
from headwater.console.live import keep
from headwater.console.pages import Page
from headwater.console.sentences import ago, duration, number, size
from headwater.console.watching.captures import CaptureNow

TONES: dict[str, elements.Tone] = {"streaming": "good", "snapshot": "warn", "unknown": "bad"}


def show(visit: Visit) -> None:
    elements.heading("Captures", "Databases whose changes go into the log, each change once.")
    project = visit.context.project
    if project is None or not project.captures:
        elements.absent(
            "This project captures no database." if project else "This console shows no project.",
            "A section [capture.NAME] of headwater.toml names a database.",
            icon="storage",
        )
        return
    chosen = visit.query.get("name")
    cards = Cards[CaptureNow](
        lambda c: c.name, lambda c: _Card(c, chosen=c.name == chosen), "hw-grid-wide"
    )
    keep(visit.context.watch.captures.now, cards.draw, 2.0)


class _Card:
    """One capture."""

    def __init__(self, capture: CaptureNow, *, chosen: bool) -> None:
        self.element = ui.element("section").classes("hw-card" + (" hw-chosen" if chosen else ""))
        self.element.props["aria-label"] = f"Capture {capture.name}"
        with self.element:
            with ui.element("div").classes("hw-row"):
                ui.label(capture.name).classes("hw-title")
                self._phase, self._process = StateWord(), StateWord()
            ui.label(capture.database).classes("hw-soft hw-mono hw-wrap")
            self._trouble = Said("hw-wrong hw-wrap", role="alert")
            self._make_snapshot()
            with ui.element("div").classes("hw-figures"):
                self._stored = elements.figure("Position stored", "–")
                self._behind = elements.figure("Behind the database", "–")
                self._restarts = elements.figure("Restarts", "–")
            self._detail = Said("hw-small")
            with ui.element("div").classes("hw-chips"):
                for table in capture.tables:
                    topic = f"{capture.name}.{table}"
                    ui.link(topic, f"/topics/{topic}").classes("hw-chip")
            with ui.expansion("Position in the database").classes("full-width hw-small"):
                self._position = ui.label().classes("hw-lines")
            if capture.part is not None:
                ui.link("What it printed", link("/parts", name=capture.part.name))

    def _make_snapshot(self) -> None:
        self._snapshot = ui.element("div").classes("full-width")
        with self._snapshot:
            self._rows = ui.label().classes("hw-small")
            self._bar = ui.linear_progress(0.0, show_value=False).props("rounded size=10px")

    def update(self, now: CaptureNow) -> None:
        self._phase.set(now.phase, TONES.get(now.phase, "calm"))
        running = now.part is None or now.part.state == "running"
        self._process.set("" if running or now.part is None else f"process {now.part.state}", "bad")
        self._trouble.set(now.trouble)
        self._update_snapshot(now)
        self._stored.set_text(ago(now.stored_ms))
        self._behind.set_text(_behind(now))
        self._restarts.set_text("–" if now.part is None else number(now.part.restarts))
        self._detail.set(now.lag.detail if now.lag else None)
        told = "It has none yet." if now.position is None else json.dumps(now.position, indent=2)
        self._position.set_text(told)

    def _update_snapshot(self, now: CaptureNow) -> None:
        progress = now.progress
        self._snapshot.set_visibility(progress is not None)
        if progress is None:
            return
        done = min(1.0, progress.rows / max(1, progress.rows_expected))
        self._rows.set_text(
            f"Snapshot of {progress.table}: {number(progress.rows)} of about "
            f"{number(progress.rows_expected)} rows, table {progress.tables_done + 1} of {progress.tables}"
        )
        self._bar.set_value(round(done, 3))
        self._bar.props["aria-label"] = f"Snapshot: {done:.0%}"


def _behind(now: CaptureNow) -> str:
    if now.lag is not None and now.lag.seconds is not None:
        return duration(now.lag.seconds)
    if now.lag is not None and now.lag.bytes is not None:
        return size(now.lag.bytes)
    return "–"


PAGES = [Page("/captures", "Captures", show, icon="storage", order=30)]
