"""Replay a range of a topic into another one, with progress; all of it or nothing, and it can be stopped."""

from __future__ import annotations

import threading
from functools import partial

from nicegui import ui

from headwater.browse import replay
from headwater.browse.replay import Plan, Replayed
from headwater.client.errors import BadRequest
from headwater.client.namespace import refuse_own
from headwater.client.places import BEGINNING, END, Place, parse
from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.context import Visit
from headwater.console.live import loaded
from headwater.errors import HeadwaterError

DRAW_EVERY_S = 0.2


class Stopped(HeadwaterError):
    """Somebody pressed Stop."""


def replay_dialog(visit: Visit, source: str) -> ui.dialog:
    """Made with the page, opened by its button."""
    with ui.dialog().props("persistent") as dialog, ui.card().classes("hw-dialog hw-dialog-wide"):
        ui.label(f"Replay {source}").classes("hw-card-label").props('role="heading" aria-level="2"')
        ui.label(
            "Copies records with key, value, headers and time. Readers of the other topic see all of "
            "them at once, or none; leaving the page stops it."
        ).classes("hw-soft")
        _Replay(visit, source, dialog)
    return dialog


class _Replay:
    """The form, and the run that it started."""

    def __init__(self, visit: Visit, source: str, dialog: ui.dialog) -> None:
        self._visit, self._source, self._dialog = visit, source, dialog
        self._stop = threading.Event()
        self._done = (0, 0, 0)
        props = "outlined dense"
        self._target = ui.input("Into topic").props(props).classes("full-width")
        self._from = ui.input("From", value="beginning").props(props).classes("full-width")
        self._to = ui.input("Up to, not including", value="end").props(props)
        self._to.classes("full-width")
        ui.label("beginning, end, 17, 2:17, 2026-11-15T15:00 or -10m").classes("hw-soft hw-small")
        self._bar = ui.linear_progress(0.0, show_value=False).classes("hw-progress full-width")
        self._bar.props('aria-label="Progress of the replay"')
        self._bar.set_visibility(False)
        self._said = ui.label("").props('role="status"')
        with ui.row().classes("justify-end full-width"):
            self._cancel = ui.button("Close", on_click=self._closed).props("flat no-caps")
            self._check = elements.action(visit, Action.REPLAY, "Check", self._checked)
            self._go = elements.action(
                visit,
                Action.REPLAY,
                "Replay records",
                self._run,
                props="unelevated color=primary",
            )
        self._timer = ui.timer(DRAW_EVERY_S, self._draw, active=False)

    async def _checked(self) -> None:
        planned = await self._plan()
        self._said.set_text(
            f"{planned.offsets:,} offsets of {len(planned.ranges)} "
            f"partition{'' if len(planned.ranges) == 1 else 's'} would go into {planned.target}."
        )

    async def _plan(self) -> Plan:
        target = (self._target.value or "").strip()
        if not target:
            raise BadRequest("say into which topic", hint="it must exist already")
        refuse_own(target)
        start, end = _place(self._from.value, BEGINNING), _place(self._to.value, END)
        log = self._visit.context.log
        return await loaded(partial(replay.plan, log, self._source, target, start, end))

    async def _run(self) -> None:
        planned = await self._plan()
        self._stop.clear()
        self._done = (0, planned.offsets, 0)
        self._busy(is_busy=True)
        try:
            outcome = await loaded(
                partial(replay.replay, self._visit.context.log, planned, progress=self._told)
            )
        except Stopped as stopped:
            self._said.set_text(str(stopped))
        except Exception:
            self._said.set_text("")
            raise
        else:
            if not self._said.is_deleted:
                self._said.set_text(_outcome(outcome, planned))
                elements.notify(_outcome(outcome, planned))
        finally:
            self._busy(is_busy=False)

    def _told(self, looked: int, total: int, sent: int) -> None:
        """In the thread of the replay."""
        self._done = (looked, total, sent)
        if self._stop.is_set() or self._said.is_deleted:
            raise Stopped("Stopped: nothing was replayed.")

    def _closed(self) -> None:
        if self._timer.active:
            self._stop.set()
        else:
            self._dialog.close()

    def _busy(self, *, is_busy: bool) -> None:
        if self._said.is_deleted:
            return
        self._timer.active = is_busy
        self._bar.set_visibility(is_busy)
        self._cancel.set_text("Stop" if is_busy else "Close")
        self._go.set_enabled(not is_busy)
        self._check.set_enabled(not is_busy)

    def _draw(self) -> None:
        looked, total, sent = self._done
        self._bar.set_value(looked / total if total else 1.0)
        self._said.set_text(f"{looked:,} of {total:,} offsets, {sent:,} records")


def _place(words: str | None, default: Place) -> Place:
    text = (words or "").strip()
    return parse(text) if text else default


def _outcome(outcome: Replayed, planned: Plan) -> str:
    records = f"{outcome.records:,} record{'' if outcome.records == 1 else 's'}"
    return f"Replayed {records} into {planned.target}."
