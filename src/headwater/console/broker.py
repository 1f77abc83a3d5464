"""How the broker is, as a card: in trouble or well, and why. Shown with the parts."""

from __future__ import annotations

from nicegui import ui

from headwater.browse.health import BrokerHealth
from headwater.console import elements


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
