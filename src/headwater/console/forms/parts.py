"""Pause, resume and restart: three buttons, of which those are there that make sense now."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.administration import parts as administration
from headwater.console.context import Visit
from headwater.console.live import loaded
from headwater.project.control import NEVER_PAUSED, Verb
from headwater.project.record import Entry

_QUESTIONS: dict[Verb, str] = {
    "pause": "Pause {}? It ends the work at hand and stays paused until it is resumed, also when the project "
    "is started again. What comes meanwhile waits where it is.",
    "restart": "Restart {}? It ends the work at hand, and goes on where it was.",
}
_DONE: dict[Verb, str] = {"pause": "is pausing", "resume": "goes on", "restart": "is starting over"}


class PartButtons:
    """Of one part, view, bridge or webhook."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._visit, self._name = visit, name
        with ui.element("div").classes("hw-row"):
            self._pause = self._button("pause", "Pause", "pause")
            self._resume = self._button("resume", "Resume", "play_arrow")
            self._restart = self._button("restart", "Restart", "restart_alt")

    def update(self, now: Entry | None) -> None:
        """None: nobody runs it, so nobody can be asked."""
        is_held = now is not None and now.state in ("paused", "pausing")
        is_free = now is not None and not is_held
        self._pause.set_visibility(is_free and self._name not in NEVER_PAUSED)
        self._resume.set_visibility(is_held)
        self._restart.set_visibility(is_free)

    def _button(self, verb: Verb, text: str, icon: str) -> ui.button:
        async def do() -> None:
            question = _QUESTIONS.get(verb)
            action = Action.CONTROL_PART
            if question is not None and not await elements.confirmed(
                self._visit, action, question.format(self._name), text
            ):
                return
            await loaded(partial(administration.change, self._visit, self._name, verb))
            elements.notify(f"{self._name} {_DONE[verb]}")

        made = elements.action(
            self._visit,
            Action.CONTROL_PART,
            text,
            do,
            icon=icon,
            props="outline dense padding='2px 10px'",
        )
        made.props["aria-label"] = f"{text} {self._name}"
        return made
