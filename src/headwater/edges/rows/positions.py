"""How far views are, asked of their stores: for many requests at once, one question at a time for each view.

Read-your-writes over HTTP: a request names a position (`Headwater-Position`), and waits here until the view
has it. All that wait for a view share one question, so a thousand of them cost the store what one does.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from headwater.client.position import Position
from headwater.views.operate.wait import NotYet, check_topics
from headwater.views.targets.contract import Unavailable

if TYPE_CHECKING:
    from headwater.pipelines.declarations import View

FIRST_S, MOST_S = 0.01, 0.25
THREADS = 8


class Positions:
    """For one event loop."""

    def __init__(self) -> None:
        self._asking: dict[str, asyncio.Task[Position | None]] = {}
        # Not the loop's own threads: a store that hangs would take one for each of its views.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="view position")

    async def now(self, view: View) -> Position | None:
        """How far the version is that readers see; an answer that is under way is shared."""
        task = self._asking.get(view.name)
        if task is None or task.done():
            task = asyncio.create_task(self._ask(view))
            self._asking[view.name] = task
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _ask(self, view: View) -> Position | None:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _asked, view)

    async def wait(self, view: View, wanted: Position, timeout: float) -> Position:
        """Return once readers of the view see all that is before `wanted`; NotYet, Unrelated."""
        deadline = time.monotonic() + timeout
        pause, reached, trouble = FIRST_S, None, ""
        while True:
            try:
                reached, trouble = await self.now(view) or reached, ""
            except Unavailable as error:
                trouble = f", and does not answer: {error}"
            if reached is not None:
                check_topics(view.name, reached, wanted)
                if reached.covers(wanted):
                    return reached
            left = deadline - time.monotonic()
            if left <= 0:
                raise _not_yet(view.name, reached, wanted, timeout, trouble)
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, MOST_S)


def _asked(view: View) -> Position | None:
    from headwater.pipelines.handles import handle

    return handle(view).position()


def _not_yet(
    name: str, reached: Position | None, wanted: Position, timeout: float, trouble: str
) -> NotYet:
    if reached is None:
        return NotYet(f"{name} has not begun after {timeout:g} s{trouble}", None)
    behind = reached.behind(wanted)
    return NotYet(
        f"{name} has not come so far after {timeout:g} s: it is {behind:,} records behind{trouble}",
        reached,
    )
