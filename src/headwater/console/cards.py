"""A grid of cards that is kept up to date: each card is made once and then changed in place.

Called by pages. To make cards anew at every look would close what somebody opened, and take the keyboard's
focus.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from nicegui import ui

from headwater.console import elements

T = TypeVar("T", contravariant=True)


class Card(Protocol[T]):
    """One card: made inside the grid, then told how its thing is now."""

    element: ui.element

    def update(self, now: T) -> None: ...


class Cards(Generic[T]):
    """`key` names a thing; `make` builds its card from its first sight."""

    def __init__(
        self, key: Callable[[T], str], make: Callable[[T], Card[T]], classes: str = ""
    ) -> None:
        self._key, self._make, self._classes = key, make, classes
        self._grid: ui.element | None = None
        self._cards: dict[str, Card[T]] = {}

    def draw(self, found: Sequence[T]) -> None:
        if self._grid is None:
            self._grid = ui.element("div").classes(f"hw-grid {self._classes}")
        with self._grid:
            for now in found:
                name = self._key(now)
                if name not in self._cards:
                    self._cards[name] = self._make(now)
                self._cards[name].update(now)
        for gone in set(self._cards) - {self._key(now) for now in found}:
            self._cards.pop(gone).element.delete()


class StateWord:
    """A state that changes."""

    def __init__(self) -> None:
        self._place = ui.element("span")
        self._shown: tuple[str, elements.Tone] | None = None

    def set(self, word: str, tone: elements.Tone) -> None:
        if self._shown != (word, tone):
            self._shown = (word, tone)
            self._place.clear()
            with self._place:
                if word:
                    elements.state(word, tone)


class Said:
    """A line that is there only while there is something to say."""

    def __init__(self, classes: str = "", role: str | None = None) -> None:
        self._label = ui.label().classes(classes)
        if role:
            self._label.props(f'role="{role}"')
        self._label.set_visibility(False)

    def set(self, text: str | None) -> None:
        self._label.set_text(text or "")
        self._label.set_visibility(bool(text))
