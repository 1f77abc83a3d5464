"""An event loop without time and threads of its own: the same seed gives the same run, and nobody waits.

For tests that run a whole broker on a `FaultyDisk`:

    clock = ManualClock()
    loop = VirtualLoop(clock, seed=7)
    loop.run(work())                # an hour of `asyncio.sleep` takes no time at all
    loop.close()

When nothing is left to do at this moment, the clock moves to the next timer. What is sent to a thread
runs in the loop itself, some turns or milliseconds later, as the seed says: so work that may overtake
other work does so in some runs. A loop with nothing left to wait for raises `Standstill` instead of
waiting for ever.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from headwater.broker.supervisor import Supervisor
from headwater.testing.clock import ManualClock

T = TypeVar("T")
DELAYS_SECONDS = (0.0, 0.0, 0.0, 0.001, 0.004, 0.02)
"""How long work in a thread may take; mostly no time at all."""


class Standstill(Exception):
    """Somebody waits, and there is nothing that could ever wake him."""


class _Selector(selectors.SelectSelector):
    """Instead of waiting for a socket, lets the time pass."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Standstill("nothing is left to do and nothing is due")
        if timeout > 0:
            # Not a millisecond too far because of how seconds are rounded: what is due at the same
            # moment must meet.
            self._clock.advance(max(1, math.ceil(timeout * 1000 - 1e-6)))
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio on a `ManualClock`; threads' work is done in the loop, in an order from the seed."""

    def __init__(self, clock: ManualClock, seed: int = 0) -> None:
        super().__init__(_Selector(clock))
        self.clock = clock
        self.random = Random(seed)
        self.failures: list[dict[str, Any]] = []
        """What went wrong in tasks and callbacks that nobody asked for the outcome."""
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def time(self) -> float:
        return self.clock.monotonic()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.run_until_complete(work)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except BaseException as error:
                self.call_soon(_refuse, future, error)
            else:
                self.call_soon(_resolve, future, result)

        self.soon(work)
        return future

    def soon(self, work: Callable[[], None]) -> None:
        """Do it in some later turn of the loop, perhaps some milliseconds from now."""
        delay = self.random.choice(DELAYS_SECONDS)
        if delay:
            self.call_later(delay, work)
        else:
            self.call_soon(work)

    def abandon(self) -> None:
        """Forget all that is under way, as the end of a process does, and close."""
        for _ in range(50):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.call_soon(self.stop)
            self.run_forever()
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.close()


class VirtualThreads:
    """Takes the place of the broker's `DiskThreads`, on a `VirtualLoop`."""

    def __init__(self, count: int, supervisor: Supervisor) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        self.supervisor = supervisor

    def submit(self, job: Callable[[], None], finished: Callable[[Any], None]) -> None:
        def work() -> None:
            try:
                job()
            except BaseException as error:
                self.supervisor.soon("disk", finished, error)
            else:
                self.supervisor.soon("disk", finished, None)

        self._loop.soon(work)

    def stop(self) -> None:
        """There is no thread to end."""


def _resolve(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _refuse(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
