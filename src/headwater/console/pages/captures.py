"""Captures: where each is in its database, what the database keeps for it, how far its snapshot is.

One capture: the same, with how far behind it was over time, and its tables.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from urllib.parse import quote

from nicegui import ui

from headwater.client import topics
from headwater.client.errors import NotThere
from headwater.client.topics import Topic
from headwater.console import elements, live
from headwater.console.addresses import link
from headwater.console.cards import Cards, Said, StateWord
from headwater.console.charts import Chart
from headwater.console.context import Visit
from headwater.console.forms.parts import PartButtons
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
    live.keep(visit.context.watch.captures.now, cards.draw, 2.0)


class _Card:
    """One capture."""

    def __init__(self, capture: CaptureNow, *, chosen: bool) -> None:
        self.element = ui.element("section").classes("hw-card" + (" hw-chosen" if chosen else ""))
        self.element.props["aria-label"] = f"Capture {capture.name}"
        with self.element:
            with ui.element("div").classes("hw-row"):
                with ui.element("span").classes("hw-title"):
                    ui.link(capture.name, f"/captures/{quote(capture.name, safe='')}")
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


EVERY_S = 2.0
_WIDE = {"classes": "hw-only-wide", "headerClasses": "hw-only-wide"}
_TABLES: list[dict[str, object]] = [
    {"name": "topic", "label": "Topic", "field": "topic", "align": "left"},
    {"name": "records", "label": "Changes kept", "field": "records"},
    {"name": "size", "label": "Size", "field": "size", **_WIDE},
    {"name": "partitions", "label": "Partitions", "field": "partitions", **_WIDE},
]


def show_one(visit: Visit) -> None:
    name = visit.params["capture"]
    with ui.element("div").classes("hw-head"):
        elements.heading(name, "Capture")
        with ui.element("div").classes("hw-actions"):
            buttons = PartButtons(visit, f"capture {name}")
            ui.link("All captures", "/captures").classes("hw-button-link")
    cards = Cards[CaptureNow](lambda c: c.name, lambda c: _Card(c, chosen=False), "hw-grid-one")

    def draw(now: CaptureNow) -> None:
        cards.draw([now])
        if now.part is not None:
            buttons.update(now.part)
        kept.draw(now)

    live.keep(partial(_named, visit, name), draw, EVERY_S)
    kept = _Kept(visit, name)
    with elements.card("Tables"):
        table = ui.table(columns=_TABLES, rows=[], row_key="topic")
        table.classes("hw-list").props("flat dense hide-bottom")
        table.props["no-data-label"] = "Nothing has been captured yet."
        table.add_slot("body-cell-topic", elements.TOPIC_CELL)
    live.keep(partial(_topics, visit, name), lambda found: _fill(table, found), EVERY_S * 2)


def _named(visit: Visit, name: str) -> CaptureNow:
    for each in visit.context.watch.captures.now():
        if each.name == name:
            return each
    raise NotThere(
        f"this project has no capture {name!r}", hint="the page of captures shows those that it has"
    )


def _topics(visit: Visit, name: str) -> list[Topic]:
    return [each for each in topics.listed(visit.context.log) if each.name.startswith(f"{name}.")]


def _fill(table: ui.table, found: Sequence[Topic]) -> None:
    table.rows = [
        {
            "topic": each.name,
            "records": number(each.offsets),
            "size": size(each.bytes),
            "partitions": len(each.partitions),
        }
        for each in found
    ]


class _Kept:
    """What the database keeps for it, and how far behind it was over the last minutes."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._watch, self._name = visit.context.watch.captures, name
        self._shown: tuple[tuple[str, str | int], ...] | None = None
        with elements.card("In the database") as self._card:
            self._facts = ui.element("dl").classes("hw-facts")
        with elements.card("Behind the database") as self._lag:
            self._bytes, self._seconds = Chart("bytes behind"), Chart("seconds behind")

    def draw(self, now: CaptureNow) -> None:
        facts = now.lag.facts if now.lag else ()
        self._card.set_visibility(bool(facts))
        if facts != self._shown:
            self._shown = facts
            self._facts.clear()
            with self._facts:
                for name, value in facts:
                    with ui.element("dt"):
                        ui.label(name)
                    with ui.element("dd").classes("hw-mono"):
                        ui.label(size(value) if isinstance(value, int) else value)
        past = self._watch.past(self._name)
        self._line(self._bytes, [(at, lag) for at, lag, _ in past if lag is not None])
        self._line(self._seconds, [(at, lag) for at, _, lag in past if lag is not None])
        self._lag.set_visibility(any(one is not None for each in past for one in each[1:]))

    @staticmethod
    def _line(chart: Chart, points: Sequence[tuple[float, float]]) -> None:
        chart.set_visibility(bool(points))
        if points:
            chart.set([at for at, _ in points], [lag for _, lag in points])


PAGES = [
    Page("/captures", "Captures", show, icon="storage", order=30),
    Page("/captures/{capture}", "Capture", show_one),
]
