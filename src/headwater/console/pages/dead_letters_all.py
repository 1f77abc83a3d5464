"""Send everything that waits in a dead-letter topic back, with progress; a stop is between batches."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial

from nicegui import ui

from headwater.browse.dead_letters import sending
from headwater.browse.errors import told
from headwater.console import elements
from headwater.console.context import Visit
from headwater.console.live import loaded

DRAW_EVERY_S = 0.2


async def send_all(visit: Visit, topic: str, done: Callable[[], Awaitable[None]]) -> None:
    """Ask, send, and reload; what was sent before a stop stays sent."""
    question = f"Send all letters that wait in {topic} back to the topics they came from?"
    if not await elements.confirmed(question, "Send all"):
        return
    visit.context.must_write()
    stop = threading.Event()
    sent = [0]
    log = visit.context.log

    def run() -> int:
        with told(f"sending back {topic}", log.bootstrap):
            return sending.replay(
                log.settings,
                topic,
                tell=partial(sent.__setitem__, 0),
                is_stopped=lambda: stop.is_set() or dialog.is_deleted,
            )

    with ui.dialog(value=True).props("persistent") as dialog, ui.card().classes("hw-dialog"):
        said = ui.label("Sending …").props('role="status"')
        ui.linear_progress(show_value=False).props("indeterminate").classes("full-width")
        ui.button("Stop", on_click=stop.set).props("flat no-caps")
        timer = ui.timer(DRAW_EVERY_S, lambda: said.set_text(f"{sent[0]:,} sent"))
    try:
        count = await loaded(run)
    finally:
        is_left = dialog.is_deleted  # whoever asked is gone, and the dialog with the page
        if not is_left:
            timer.deactivate()
            dialog.delete()
    if is_left:
        return
    elements.notify(f"{count:,} letter{'' if count == 1 else 's'} sent back")
    await done()
