"""What a page shows is loaded in a thread, drawn in the loop, and loaded again while somebody looks.

Called by pages. A broker that is away, a store that is locked: each becomes a sentence where the data would
be, and goes when the next load succeeds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from nicegui import background_tasks, ui

from headwater.console import elements
from headwater.console.sessions import WHO
from headwater.project.fair_threads import FairThreads

T = TypeVar("T")
THREADS, AT_ONCE, WAITING_MAX = 32, 16, 2_000
"""Of all visitors; and of one, whatever his pages look for."""
# Of our own: while the broker is away, loads wait for time-outs, and asyncio has only a few threads.
_THREADS = FairThreads(THREADS, AT_ONCE, "console load", WAITING_MAX)


async def loaded(load: Callable[[], T]) -> T:
    """The result of `load`, which may block, from a thread; nobody's loads wait for those of another."""
    return await _THREADS.run(WHO.get(), load)


class Keeping:
    """One thing on one page that is kept up to date."""

    def __init__(self, load: Callable[[], T], draw: Callable[[T], object], every_s: float) -> None:
        self._load, self._draw = load, draw
        self._busy = False
        self._trouble = ui.column().classes("full-width")
        self._place = ui.column().classes("full-width hw-kept")
        with self._place:
            self._wait: ui.element | None = elements.loading()
        # Not at once: the page goes out first, and the timer runs once a browser is there.
        self._timer = ui.timer(every_s, self.again, immediate=True)

    async def again(self) -> None:
        """Load and draw now; nothing happens while a load is under way."""
        if self._busy or self._gone():
            return
        self._busy = True
        try:
            result = await loaded(self._load)
            if self._gone():
                return
            if self._wait is not None:
                self._wait.delete()
                self._wait = None
            with self._place:
                outcome = self._draw(result)
                if isinstance(outcome, Awaitable):
                    await outcome
            self._say(None)
        except Exception as error:
            if not self._gone():
                self._say(error)
        finally:
            self._busy = False

    def soon(self) -> None:
        """Load and draw as soon as possible, from a handler that does not wait."""
        background_tasks.create(self.again(), name="console load")

    def _gone(self) -> bool:
        """Whether the visitor has left the page."""
        return self._place.is_deleted

    def _say(self, error: Exception | None) -> None:
        self._trouble.clear()
        if error is not None:
            with self._trouble:
                elements.trouble(error)


def keep(load: Callable[[], T], draw: Callable[[T], object], every_s: float = 2.0) -> Keeping:
    """Keep a part of the page up to date; see `pages` for the contract.

    `draw` is called in a container of its own, and changes what it made before: elements that it makes
    at every call would pile up. `ui.refreshable` functions, or a container that it clears, are ways.
    """
    return Keeping(load, draw, every_s)
