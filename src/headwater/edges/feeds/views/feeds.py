"""Views that somebody follows: their changes are looked for while anybody does, and for a while after.

    a client comes ──▶ open, look ──▶ look again whenever the view has moved ──▶ nobody left: stop

A look reads all rows of the view, so it is made when the view's position has moved, and never for more than a
fifth of the time. Where the store or the log is away, it is tried again; clients stay. A second process that
feeds the same view fences this one, which then waits for a while: what is told stays exact in any case.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from headwater.client.errors import InstanceFenced, RequestRefused
from headwater.client.log import Log
from headwater.client.position import Position
from headwater.edges.feeds.views.changes import ViewChanges
from headwater.edges.rows.positions import Positions
from headwater.errors import HeadwaterError
from headwater.pipelines.view_rows import rows_of
from headwater.views.targets.contract import Unavailable

if TYPE_CHECKING:
    from headwater.pipelines.declarations import View

LOOK_S = 0.1
"""How often a view is asked how far it is."""
WHOLE_S = 60.0
"""A repair changes rows and not the position: so often, all rows are looked at in any case."""
SHARE = 4.0
"""After a look, so many times what it took is waited."""
AWAY_S, AWAY_MOST_S = 0.5, 30.0
FENCED_S = 30.0
LINGER_S = 30.0
PATIENCE_S = 15.0
WRITERS = 4
_log = logging.getLogger("headwater.edges")


class ViewFeeds:
    """All of the process. For one event loop."""

    def __init__(self, log: Log) -> None:
        self._client = log
        self._positions = Positions()
        self._threads = ThreadPoolExecutor(WRITERS, thread_name_prefix="view feed")
        self._fed: dict[str, _Fed] = {}

    @asynccontextmanager
    async def fed(self, view: View) -> AsyncIterator[str]:
        """The topic of the view's changes, which tells its rows as they are now, or newer ones."""
        found = self._fed.get(view.name)
        if found is None or found.view != view:
            if found is not None:
                found.stop()
            changes = ViewChanges(self._client, view.name, rows_of(view))
            found = self._fed[view.name] = _Fed(view, changes, self._positions, self._threads)
        found.users += 1
        try:
            await found.current()
            yield found.changes.topic
        finally:
            found.users -= 1
            if not found.users:
                loop = asyncio.get_running_loop()
                loop.call_later(LINGER_S, self._let_go, found)

    def _let_go(self, found: _Fed) -> None:
        if not found.users:
            found.stop()
            if self._fed.get(found.view.name) is found:
                del self._fed[found.view.name]

    def facts(self) -> Mapping[str, Any]:
        return {name: fed.facts() for name, fed in self._fed.items()}

    def close(self) -> None:
        for found in self._fed.values():
            found.stop()
        self._fed.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Fed:
    """One view."""

    def __init__(
        self, view: View, changes: ViewChanges, positions: Positions, threads: ThreadPoolExecutor
    ) -> None:
        self.view, self.changes = view, changes
        self._positions, self._threads = positions, threads
        self.users = 0
        self.told = 0
        self.position: Position | None = None
        self.trouble: HeadwaterError | None = None
        self._looks = 0
        self._looked = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"view {view.name}")

    def stop(self) -> None:
        self._task.cancel()

    def facts(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"clients": self.users, "changes": self.told}
        shown["position"] = str(self.position) if self.position is not None else None
        return shown | ({"trouble": str(self.trouble)} if self.trouble is not None else {})

    async def current(self) -> None:
        """Wait for the first look; raises why there can be none."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not self._looks:
                    if isinstance(self.trouble, RequestRefused):
                        raise self.trouble
                    await self._looked.wait()
        except TimeoutError:
            why = f": {self.trouble}" if self.trouble is not None else ""
            raise Unavailable(
                f"the view {self.view.name!r} was not read within {PATIENCE_S:g} s{why}"
            ) from None

    async def _run(self) -> None:
        wait_s = AWAY_S
        while True:
            try:
                await self._thread(self.changes.open)
                wait_s = AWAY_S
                await self._feed()
            except InstanceFenced as error:
                self._in_trouble(error)
                wait_s = FENCED_S
            except HeadwaterError as error:
                self._in_trouble(error)
            except Exception as error:
                _log.exception("feeding the view %s failed", self.view.name)
                self._in_trouble(Unavailable(f"{type(error).__name__}: {error}"))
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, AWAY_MOST_S)

    async def _feed(self) -> None:
        """Until something goes wrong."""
        whole = 0.0
        while True:
            began = time.monotonic()
            at = await self._positions.now(self.view)
            if self._looks and at == self.position and began - whole < WHOLE_S:
                await asyncio.sleep(LOOK_S)
                continue
            whole = began
            self.position, count = await self._thread(self.changes.look)
            self.told += count
            self._looks += 1
            self.trouble = None
            self._tell()
            await asyncio.sleep(max(LOOK_S, SHARE * (time.monotonic() - began)))

    async def _thread(self, function: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def _in_trouble(self, error: HeadwaterError) -> None:
        if str(error) != str(self.trouble):
            _log.warning("the view %s cannot be fed: %s", self.view.name, error)
        self.trouble = error
        self._tell()

    def _tell(self) -> None:
        self._looked.set()
        self._looked = asyncio.Event()
