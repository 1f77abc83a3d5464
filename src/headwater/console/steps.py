"""The steps of the demo's tour as cards: what each is about, and what came of it."""

from __future__ import annotations

import json

from nicegui import ui

from headwater.client.records import Record
from headwater.console import elements

WORDS = (
    (
        "Write a row",
        "An order goes into the shop's own database, as its application would write it. Nobody writes to "
        "the log, to a cache or to an index.",
    ),
    (
        "See it in the log",
        "The capture reads the database's changes and appends each of them to a topic, in their order. "
        "From here on the order has an offset.",
    ),
    (
        "See it in each view",
        "A list, a search index, sessions and the revenue per minute follow the log: four functions in "
        "PySpark, kept up to date.",
    ),
    (
        "Kill the broker",
        "kill -9, in the middle of the shop's traffic. What was acknowledged is on disk.",
    ),
    (
        "Watch it come back",
        "headwater up starts it again; capture and views go on from where they were.",
    ),
)


class Step:
    """One card: what it is about, its button, and what came of it."""

    def __init__(self, number: int, title: str, sentence: str) -> None:
        with ui.element("li").classes("hw-card hw-step") as self.element:
            self.element.props["aria-label"] = f"Step {number}: {title}"
            ui.label(str(number)).classes("hw-step-number").props('aria-hidden="true"')
            with ui.element("div").classes("hw-step-body"):
                ui.html(title, sanitize=elements.escaped, tag="h2")
                ui.label(sentence).classes("hw-soft")
                self.place = ui.element("div").classes("hw-row")
                self.outcome = ui.element("div").classes("hw-step-outcome")
                self.outcome.props('aria-live="polite"')

    def clear(self) -> None:
        self.outcome.clear()
        self.element.classes(remove="hw-step-done")

    def say(self, sentence: str, tone: elements.Tone = "good") -> None:
        with self.outcome, ui.element("div").classes(f"hw-step-said hw-{tone}"):
            ui.icon({"good": "check_circle"}.get(tone, "hourglass_empty")).props(
                'aria-hidden="true"'
            )
            ui.label(sentence).classes("hw-wrap")

    def done(self) -> None:
        self.element.classes("hw-step-done")


def change_of(found: Record) -> None:
    """What the capture wrote: the row before and after, as Debezium's envelope has it."""
    said = json.loads(found.value or b"{}")
    shown = {name: said.get(name) for name in ("op", "before", "after")}
    ui.html(elements.escaped(json.dumps(shown)), sanitize=False, tag="pre").classes("hw-lines")
