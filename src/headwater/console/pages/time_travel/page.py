"""Time travel: one key of a topic at a moment that a slider chooses, and every change that led there.

The key's changes are read once, in a thread, with progress; moving the slider asks nobody. What is shown of a
change is made by `markup`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from nicegui import background_tasks, ui

from headwater.browse import pages
from headwater.browse.decoder import Decoder
from headwater.browse.state import state_of
from headwater.client import topics
from headwater.client.log import Log
from headwater.client.topics import Topic
from headwater.console import elements
from headwater.console.addresses import link
from headwater.console.context import Visit
from headwater.console.live import loaded
from headwater.console.pages import Page
from headwater.console.pages.time_travel.slider import Journey
from headwater.console.values import one_line
from headwater.errors import HeadwaterError
from headwater.views.folding.state import State

DRAW_EVERY_S = 0.2
KEYS_SHOWN = 8
LOOKED_AT = 200


class Stopped(HeadwaterError):
    """Somebody pressed Stop."""


def show(visit: Visit) -> None:
    elements.heading(
        "Time travel", "What a key was at any moment of its history, and what changed it."
    )
    topic, key = visit.topic(), _key(visit)
    with elements.card() as card:
        card.props["aria-label"] = "Which key"
        _Form(visit, topic, visit.query.get("key", ""))
    if topic and key is not None:
        _Search(visit, topic, key)
    elif topic:
        elements.absent(f"Choose a key of {topic}.", "The keys that were written last are above.")
    else:
        elements.absent(
            "Choose a topic and a key.",
            "Topics of changes (captured tables) and compacted topics tell the most.",
            icon="history",
        )


def _key(visit: Visit) -> str | bytes | None:
    """`hex` is for keys that are no text."""
    if "hex" in visit.query:
        try:
            return bytes.fromhex(visit.query["hex"])
        except ValueError:
            return None
    return visit.query.get("key") or None


class _Form:
    """Topic and key; going there is an address, so that the back button comes back."""

    def __init__(self, visit: Visit, topic: str, key: str) -> None:
        self._visit, self._asked = visit, topic
        with ui.element("div").classes("hw-tools"):
            self._topic = ui.select(
                [topic] if topic else [], value=topic or None, label="Topic", with_input=True
            )
            self._topic.props("dense outlined options-dense").classes("hw-goto")
            self._topic.on("update:model-value", self._chose)
            self._key = ui.input("Key", value=key, placeholder="17").props("dense outlined")
            self._key.classes("hw-goto").on("keydown.enter", self._go)
            ui.button("Travel", icon="history", on_click=self._go).props("outline no-caps")
        self._keys = ui.element("div").classes("hw-tools hw-keys")
        background_tasks.create(self._fill(), name="topics and keys", context=self._keys)

    def _go(self) -> None:
        if self._topic.value and (self._key.value or "").strip():
            where = {"topic": self._topic.value, "key": self._key.value.strip()}
            ui.navigate.to(link("/time-travel", **where))

    def _chose(self) -> None:
        if self._topic.value and self._topic.value != self._asked:
            ui.navigate.to(link("/time-travel", topic=self._topic.value))

    async def _fill(self) -> None:
        try:
            found = await loaded(partial(_topics, self._visit.context.log))
            if not self._keys.is_deleted:
                self._topic.set_options(found, value=self._asked or None)
            if not self._asked:
                return
            keys = await loaded(partial(some_keys, self._visit.context.log, self._asked))
        except Exception as error:
            if not self._keys.is_deleted:
                elements.trouble(error)
            return
        if self._keys.is_deleted:
            return
        with self._keys:
            if keys:
                ui.label("Written last:").classes("hw-soft hw-small")
            for key in keys:
                target = link("/time-travel", topic=self._asked, key=key)
                ui.link(one_line(key, 40), target).classes("hw-chip hw-mono")


def _topics(log: Log) -> list[str]:
    """Those that tell of keys first: compacted ones, and captured tables."""

    def rank(topic: Topic) -> tuple[bool, str]:
        return not (topic.is_compacted or "." in topic.name), topic.name

    return [each.name for each in sorted(topics.listed(log), key=rank)]


def some_keys(log: Log, topic: str) -> list[str]:
    """Keys of the newest records, without those that are no text."""
    decoder = Decoder(log)
    found: dict[str, None] = {}
    for record in pages.page(log, topic, back=True, limit=LOOKED_AT).records:
        shown = decoder.decode(record.key, topic)
        if record.key is not None and shown.kind != "hex":
            found.setdefault(shown.text)
        if len(found) == KEYS_SHOWN:
            break
    return list(found)


class _Search:
    """The key's changes are looked for; then the journey takes the place."""

    def __init__(self, visit: Visit, topic: str, key: str | bytes) -> None:
        self._visit, self._topic, self._key = visit, topic, key
        self._stop = threading.Event()
        self._done = (0, 0)
        self._place = ui.element("div").classes("hw-stack")
        with self._place, elements.card() as card:
            card.props["aria-label"] = "Looking for the key"
            with ui.element("div").classes("hw-tools"):
                self._said = ui.label("Looking for the key's records …").props('role="status"')
                self._bar = ui.linear_progress(0.0, show_value=False).classes("hw-progress")
                self._bar.props('aria-label="How much was looked at"')
                ui.button("Stop", icon="stop", on_click=self._stop.set).props("flat no-caps")
        self._timer = ui.timer(DRAW_EVERY_S, self._draw)
        background_tasks.create(self._run(), name="a key's history", context=self._place)

    async def _run(self) -> None:
        try:
            found = await loaded(self._visit.context.history.checked(self._find))
        except Exception as error:
            self._end(partial(elements.trouble, error))
            return
        self._end(lambda: Journey(self._visit, found))

    def _find(self) -> State:
        return state_of(self._visit.context.log, self._topic, self._key, tell=self._told)

    def _told(self, looked: int, total: int) -> None:
        """In the thread of the search."""
        self._done = (looked, total)
        if self._stop.is_set() or self._place.is_deleted:
            raise Stopped("stopped before the key's records were all found")

    def _draw(self) -> None:
        looked, total = self._done
        self._bar.set_value(looked / total if total else 0.0)
        if total:
            self._said.set_text(f"Looked at {looked:,} of {total:,} offsets …")

    def _end(self, then: Callable[[], object]) -> None:
        """Give the place to what came of it, if anybody still looks."""
        if self._place.is_deleted:
            return
        self._timer.deactivate()
        self._place.clear()
        with self._place:
            then()


PAGES = [Page("/time-travel", "Time travel", show, icon="history", order=60)]
