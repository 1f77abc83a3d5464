"""The one way to run something beside the traffic: nothing in the broker fails unseen, or for good.

    run     a task that is there as long as the broker is: started again after a failure
    every   the same work again and again, at an interval that may change meanwhile
    duty    a piece of such a task: its failure is its own, and the task goes on
    spawn   work that is done once: its failure is logged and counted
    whole   the same, awaited; a stop waits for its end
    call    somebody else's callback: its failure is its own, and those behind it are called
    later   the same, after a while
    soon    the same, in the next turn of the event loop

Whatever fails is logged with its cause and traceback, counted, and shown (`health`). The wait before a
task is started again grows from `FIRST_WAIT_S` to `LONGEST_WAIT_S`. A cancelled task ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from headwater.broker.clock import Clock
from headwater.broker.health import Health

logger = logging.getLogger("headwater.broker")

TICK_S = 1.0
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 30.0
CALM_S = 60.0
"""One that has run for so long has recovered: its next failure counts as its first."""
REPEATED_S = 60.0
"""A failure that is the same as the one before is logged no more often than this."""

CALLBACKS = "callbacks"

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, None]]


class Supervisor:
    """Owns every task of the broker that is no request."""

    def __init__(self, health: Health, clock: Clock) -> None:
        self.health = health
        self.monotonic = clock.monotonic
        self._tasks: set[asyncio.Task[Any]] = set()
        self._logged: dict[str, tuple[str | None, float]] = {}

    # ---- running -------------------------------------------------------------------------------

    def run(self, name: str, work: Work) -> asyncio.Task[None]:
        """Until it is cancelled, or ends by itself."""
        return self._keep(asyncio.create_task(self._keep_running(name, work), name=name))

    def every(
        self,
        name: str,
        seconds: Callable[[], float],
        work: Work,
        *,
        at_once: bool = False,
        now: Callable[[], float] | None = None,
    ) -> asyncio.Task[None]:
        """`work` as a duty, again and again; `now` is another clock than the event loop's. The interval is
        asked for at every tick of `TICK_S`: it may be changed while the broker runs."""
        now = now or asyncio.get_running_loop().time
        return self.run(name, lambda: self._repeat(name, seconds, work, now, at_once=at_once))

    async def _repeat(
        self,
        name: str,
        seconds: Callable[[], float],
        work: Work,
        now: Callable[[], float],
        *,
        at_once: bool,
    ) -> None:
        while True:
            began = now()
            while not at_once:
                await asyncio.sleep(min(seconds(), TICK_S))
                if seconds() <= TICK_S or now() - began >= seconds():
                    break
            at_once = False
            with self.duty(name):
                await work()

    def spawn(
        self,
        name: str,
        work: Awaitable[T],
        done: Callable[[asyncio.Task[T]], None] | None = None,
    ) -> asyncio.Task[T]:
        """Once. `name` is that of its kind, so that there are few; its failure is seen even if
        nobody awaits it. `done` is called at its end, however it ends."""
        coroutine = work if isinstance(work, Coroutine) else _awaited(work)
        task = self._keep(asyncio.create_task(coroutine, name=name))
        task.add_done_callback(lambda ended: self._observe(name, ended))
        if done is not None:
            task.add_done_callback(lambda ended: self.call(name, done, ended))
        return task

    def call(self, name: str, callback: Callable[..., object], *arguments: object) -> None:
        """Now."""
        try:
            callback(*arguments)
        except Exception as error:
            self.failed(name, error)

    def later(
        self, seconds: float, name: str, callback: Callable[..., object], *arguments: object
    ) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(seconds, self.call, name, callback, *arguments)

    def soon(self, name: str, callback: Callable[..., object], *arguments: object) -> None:
        asyncio.get_running_loop().call_soon(self.call, name, callback, *arguments)

    def from_thread(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        callback: Callable[..., object],
        *arguments: object,
    ) -> None:
        """The same for a thread: in the event loop, soon."""
        loop.call_soon_threadsafe(self.call, name, callback, *arguments)

    @contextmanager
    def duty(
        self, name: str, what: str = "", is_gone: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """A failure inside ends the block and nothing else. With `what` it is a part of a duty: one
        partition of many, whose success says nothing of the others. What `is_gone` by then, deleted
        while it was worked on, has not failed."""
        failures = self.health.task(name).failures
        try:
            yield
        except Exception as error:
            if not is_gone():
                self.failed(name, error, what)
        else:
            if not what and self.health.task(name).failures == failures:
                self.health.succeeded(name)

    async def whole(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        """Do it to its end, and only then be cancelled: for what must not be left half done. Its failure is
        the caller's, or, where that has gone, seen here."""
        task = self._keep(asyncio.create_task(work, name=name))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            self._observe(name, task)
            raise

    async def end(self, task: asyncio.Task[Any] | None) -> None:
        """Stop one task and wait until it has ended."""
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def settle(self, names: Container[str], seconds: float) -> None:
        """Wait, no longer than this, for the end of work of these names."""
        tasks = [task for task in self._tasks if task.get_name() in names]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def stop(self) -> None:
        """Stop whatever still runs."""
        while tasks := [task for task in self._tasks if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    # ---- failures ------------------------------------------------------------------------------

    def failed(self, name: str, error: BaseException, what: str = "") -> None:
        """Log it with its cause, count it, show it."""
        told = self.health.failed(name, error, what)
        before, when = self._logged.get(name, (None, 0.0))
        now = self.monotonic()
        if before == told.last_failure and now - when < REPEATED_S:
            return
        self._logged[name] = (told.last_failure, now)
        sentence = "%s failed (%d times): %s"
        logger.error(sentence, name, told.failures, told.last_failure, exc_info=error)

    def stray(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """For the loop itself: what failed in a callback, or in a task that nobody looks at."""
        error = context.get("exception")
        message = str(context.get("message", ""))
        if isinstance(error, Exception):
            self.failed(CALLBACKS, error, message)
        else:
            logger.error("event loop: %s", message)

    # ---- inside --------------------------------------------------------------------------------

    def _keep(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _observe(self, name: str, done: asyncio.Task[Any]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self.health.succeeded(name)
        else:
            self.failed(name, error)

    async def _keep_running(self, name: str, work: Work) -> None:
        task = self.health.task(name)
        try:
            while True:
                began = self.monotonic()
                self.health.began(name)
                try:
                    await work()
                    return
                except Exception as error:
                    if self.monotonic() - began > CALM_S:
                        task.failures_in_a_row = 0
                    self.failed(name, error)
                task.doing = "waiting"
                await asyncio.sleep(wait_s(task.failures_in_a_row))
        finally:
            task.doing = "ended"


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def wait_s(failures: int) -> float:
    """Before the next try, after so many failures in a row."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures - 1, 16))
