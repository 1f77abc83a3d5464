"""The demo's tour: the idea in five steps, each with the button that does it. Only in the demo's console.

A step can be taken once the one before it has been, and says what came of it. Steps wait for what they show,
with an end to it: a view is late, a broker is away, and the story goes on when it is there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from nicegui import ui

from headwater.client.errors import ClientError
from headwater.client.records import Record
from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.addresses import link
from headwater.console.administration import tour as administration
from headwater.console.context import Context, Visit
from headwater.console.live import loaded
from headwater.console.pages import Page
from headwater.console.steps import WORDS, Step, change_of
from headwater.project.demo.shop.tour import CENTS, ITEM, TOPIC, Order, TourOver, tour_of
from headwater.project.record import Entry

PATIENCE_S = 120.0
LOOK_S = 0.3
T = TypeVar("T")
_LATER = {
    "sessions": "a session is over after five quiet seconds, and ten more are given to stragglers"
}
"""Views that cannot have it at once, and why."""


def show(visit: Visit) -> None:
    elements.heading(
        "Tour",
        "One write to a database, and everything that follows from it. Five steps, about a minute.",
    )
    with ui.element("ol").classes("hw-tour"):
        _Story(visit).make()


class _Story:
    """How far one visitor has come."""

    def __init__(self, visit: Visit) -> None:
        self._visit, self._tour = visit, administration.of(visit.context)
        self._order: Order | None = None
        self._written = 0.0
        self._record: Record | None = None
        self._before: Entry | None = None
        self._killed = 0.0

    def make(self) -> None:
        self._steps = [Step(number, *words) for number, words in enumerate(WORDS, 1)]
        self._buttons = [
            self._changing(0, Action.WRITE_DEMO_ORDER, "Write an order", self._write, "edit"),
            self._looking(1, "Find it in the log", self._find, "search"),
            self._looking(2, "Look into the views", self._look, "visibility"),
            self._changing(3, Action.KILL_DEMO_BROKER, "Kill the broker", self._kill, "bolt"),
            self._looking(4, "Watch it come back", self._return, "replay"),
        ]
        for button in self._buttons[1:]:
            button.disable()

    def _changing(
        self, at: int, action: Action, text: str, do: Callable[[], Awaitable[None]], icon: str
    ) -> ui.button:
        step = self._steps[at]
        with step.place:
            made = elements.action(
                self._visit, action, text, self._alone(at, do), icon=icon, props=elements.PRIMARY
            )
            if not self._visit.may(action):
                ui.label(f"To {action.sentence} takes the role of {action.role.word}.")
        return made

    def _looking(
        self, at: int, text: str, do: Callable[[], Awaitable[None]], icon: str
    ) -> ui.button:
        with self._steps[at].place:
            made = ui.button(text, on_click=elements.shown(self._alone(at, do)), icon=icon)
            return made.props(f"no-caps {elements.PRIMARY}")

    def _alone(self, at: int, do: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """The step, one at a time; then the next one may be taken."""

        async def taken() -> None:
            self._visit.must_stand()
            was = [button.enabled for button in self._buttons]
            for button in self._buttons:
                button.disable()
            self._steps[at].clear()
            try:
                await do()
                self._steps[at].done()
                if at + 1 < len(was):
                    was[at + 1] = True
            finally:
                for button, enabled in zip(self._buttons, was, strict=True):
                    button.set_enabled(enabled)

        return taken

    async def _write(self) -> None:
        for step in self._steps[1:]:
            step.clear()
        self._order = await loaded(partial(administration.write_order, self._visit))
        self._written = time.monotonic()
        self._steps[0].say(
            f"Order {self._order.number} is committed: a {ITEM} for {self._order.name} of "
            f"{self._order.city}, {CENTS / 100:.2f}."
        )

    async def _find(self) -> None:
        self._record = await self._found_in_log(self._ordered)
        step, place = self._steps[1], f"partition {self._record.partition}"
        step.say(f"{TOPIC}, {place}, offset {self._record.offset}: there it stays.")
        with step.outcome:
            change_of(self._record)
            at = f"{self._record.partition}={self._record.offset}"
            ui.link("Open it in its topic", link(f"/topics/{TOPIC}", at=at, open=1))

    async def _look(self) -> None:
        step, views = self._steps[2], list(self._tour.views)
        await asyncio.gather(*(self._look_into(step, name) for name in views))

    async def _look_into(self, step: Step, name: str) -> None:
        with step.outcome:
            line = ui.element("div").classes("hw-step-said hw-calm")
        late = f": {_LATER[name]}" if name in _LATER else ""
        self._line(line, "hourglass_empty", f"{name} does not have it yet{late}")
        row = await self._until(
            partial(self._tour.in_view, name, self._ordered), f"the view {name}"
        )
        line.classes(remove="hw-calm", add="hw-good")
        shown = ", ".join(f"{field} {_words(field, value)}" for field, value in row.items())
        self._line(line, "check_circle", f"{name} shows it: {shown}.")

    def _line(self, line: ui.element, icon: str, sentence: str) -> None:
        line.clear()
        with line:
            ui.icon(icon).props('aria-hidden="true"')
            ui.label(sentence).classes("hw-wrap")

    async def _kill(self) -> None:
        self._before = await loaded(self._tour.broker)
        process = await loaded(partial(administration.kill_broker, self._visit))
        self._killed = time.monotonic()
        self._steps[4].clear()
        self._steps[3].say(f"Process {process} is gone: no goodbye, no last flush.")

    async def _return(self) -> None:
        step = self._steps[4]
        entry = await self._until(self._running_again, "the broker")
        step.say(
            f"headwater up has started it again, as process {entry.pid}; it answers "
            f"{time.monotonic() - self._killed:.1f} s after the kill."
        )
        found = await self._found_in_log(self._ordered)
        before = self._record
        assert before is not None, "the buttons go one after the other"
        if (found.partition, found.offset, found.value) != (
            before.partition,
            before.offset,
            before.value,
        ):
            raise TourOver(f"the record was at offset {before.offset} and is at {found.offset}")
        step.say(f"Your order is where it was: offset {found.offset}, byte for byte.")
        if not self._visit.may(Action.WRITE_DEMO_ORDER):
            return
        order = await loaded(partial(administration.write_order, self._visit))
        after = await self._found_in_log(order)
        step.say(f"Another order, {order.number}, came to offset {after.offset}.")
        name = next(iter(self._tour.views))
        await self._until(partial(self._tour.in_view, name, order), f"the view {name}")
        step.say(f"And {name} shows it. Nothing was lost, nothing came twice.")

    def _running_again(self) -> Entry | None:
        now, before = self._tour.broker(), self._before
        if now is None or before is None or now.state != "running" or now.pid == before.pid:
            return None
        self._visit.context.log.ranges(TOPIC)  # it answers
        return now

    async def _found_in_log(self, order: Order) -> Record:
        log = self._visit.context.log
        return await self._until(partial(self._tour.in_log, log, order), "the capture")

    @property
    def _ordered(self) -> Order:
        assert self._order is not None, "the buttons go one after the other"
        return self._order

    async def _until(self, look: Callable[[], T | None], what: str) -> T:
        """What `look` finds; while the broker is away it finds nothing."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if (found := await loaded(look)) is not None:
                    return found
            except ClientError:
                pass
            await asyncio.sleep(LOOK_S)
        raise TourOver(f"waited {PATIENCE_S:.0f} s in vain for {what}", hint="see the page Parts")


def _words(field: str, value: object) -> str:
    """Times as a clock shows them."""
    if field not in ("minute", "started", "ended"):
        return str(value)
    return time.strftime("%H:%M:%S", time.localtime(int(str(value)) / 1000))


def is_there(context: Context) -> bool:
    return tour_of(context.project) is not None


PAGES = [Page("/tour", "Tour", show, icon="directions_walk", order=-10, is_there=is_there)]
