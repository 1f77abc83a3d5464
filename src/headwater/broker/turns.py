"""Turns of the event loop: what takes long is done in pieces, and nobody waits for all others to be served.

What is done in turns gives way between them (`give_way`), and of all that wait then one goes on in each turn
of the event loop: two hundred long requests make a turn no longer than one does, and who has had few turns
comes before those who have had many.

The system reports every socket that has something at once, a thousand of them in one turn. Served one
after the other, they would keep timers, heartbeats and the disk's answers waiting for all of them. So a turn
has `TURN_S` for connections; those that come too late for it stop reading, wait in line and are served in
the next turns: whoever has taken least of them lately, or has waited longest. The broker owns one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from headwater.broker.supervisor import Supervisor
from headwater.fair_queue import Line

if TYPE_CHECKING:
    from headwater.broker.inbound import Inbound

TURN_S = 0.005
HALF_S = 1.0
NETWORKS_MAX = 10_000
LOOKS_AT_ONCE = 50
T = TypeVar("T")


class Had:
    """Seconds of something that somebody has had lately: half of them are forgotten in `half_s`."""

    __slots__ = ("_at", "_half_s", "_seconds")

    def __init__(self, half_s: float) -> None:
        self._half_s, self._seconds, self._at = half_s, 0.0, 0.0

    def until(self, now: float) -> float:
        self._seconds *= 0.5 ** ((now - self._at) / self._half_s)
        self._at = now
        return self._seconds

    def add(self, seconds: float, now: float) -> None:
        self._seconds = self.until(now) + seconds


class _Resting:
    """Those on one event loop who let others go on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: Line[asyncio.Future[None]] = Line()
        self._had: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()
        self._is_running = False

    def turn(self) -> asyncio.Future[None]:
        task = asyncio.current_task()
        assert task is not None, "only a task can rest"
        had = self._had[task] = self._had.get(task, 0) + 1
        mine = self._loop.create_future()
        self._line.add(mine, had)
        if not self._is_running:
            self._is_running = True
            self._loop.call_soon(self._next)
        return mine

    def _next(self) -> None:
        while self._line:
            turn = self._line.take()
            if not turn.done():  # else its task was stopped
                turn.set_result(None)
                self._loop.call_soon(self._next)
                return
        self._is_running = False


_resting: WeakKeyDictionary[asyncio.AbstractEventLoop, _Resting] = WeakKeyDictionary()


async def give_way() -> None:
    """Let others go on: between two pieces of work, each as long as a turn of the event loop may be."""
    loop = asyncio.get_running_loop()
    resting = _resting.get(loop)
    if resting is None:
        resting = _resting[loop] = _Resting(loop)
    await resting.turn()


class Few:
    """So many of a kind at a time, for each holds memory until it is done; next is who had least."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._line: Line[asyncio.Future[None]] = Line()

    @contextlib.asynccontextmanager
    async def place(self, had: float) -> AsyncIterator[None]:
        if self._free:
            self._free -= 1
        else:
            await self._wait(had)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, had: float) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._line.add(mine, had)
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():
                self._leave()  # it was ours already
            raise

    def _leave(self) -> None:
        while self._line:
            waiting = self._line.take()
            if not waiting.done():  # else its task was stopped
                waiting.set_result(None)
                return
        self._free += 1


class Pace:
    """For a handler whose work is of unknown length: leaves the event loop to others when it is due."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since = monotonic()

    @property
    def is_due(self) -> bool:
        """Whether this turn has been long enough."""
        return self._monotonic() - self._since > TURN_S

    async def rest(self) -> None:
        """To be called between two pieces of work."""
        if self.is_due:
            await give_way()
            self._since = self._monotonic()


async def in_turns(items: Iterable[T], monotonic: Callable[[], float]) -> AsyncIterator[T]:
    """Each of them, however many there are: others are served in between. What they are taken from may
    change then, so it must be theirs."""
    pace = Pace(monotonic)
    for number, item in enumerate(items):
        if not number % LOOKS_AT_ONCE:
            await pace.rest()
        yield item


class Turns:
    """Who is to be served now, and who in the next turn: by what it and its address had."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._waiting: Line[Inbound] = Line()
        self._networks: dict[str, Had] = {}
        self._until = 0.0
        self._is_running = False

    def has_time(self) -> bool:
        """Whether this turn has time for one more request."""
        now = self._supervisor.monotonic()
        if not self._is_running:
            self._begin(now)
        return now < self._until

    def wait(self, inbound: Inbound) -> None:
        """To be served (`go_on`) in the next turn, or the one after."""
        self._waiting.add(inbound, self.had(inbound))
        if not self._is_running:
            self._begin(self._supervisor.monotonic())

    def had(self, inbound: Inbound) -> float:
        now, network = self._supervisor.monotonic(), self._networks.get(inbound.network)
        return inbound.turns.until(now) + (network.until(now) if network is not None else 0.0)

    def had_by(self, connection: object) -> float:
        """The same; nothing by what is no real one."""
        inbound = getattr(connection, "inbound", None)
        return 0.0 if inbound is None else self.had(inbound)

    def took(self, inbound: Inbound, since: float) -> None:
        """This client has had the event loop since then."""
        now = self._supervisor.monotonic()
        network = self._networks.get(inbound.network)
        if network is None:
            if len(self._networks) >= NETWORKS_MAX:
                self._networks.clear()  # all begin again
            network = self._networks[inbound.network] = Had(HALF_S)
        for had in (inbound.turns, network):
            had.add(now - since, now)

    def _begin(self, now: float) -> None:
        self._is_running, self._until = True, now + TURN_S
        self._supervisor.soon("connections", self._next)

    def _next(self) -> None:
        self._is_running = False
        if not self._waiting:
            return
        self._begin(self._supervisor.monotonic())
        for _ in range(len(self._waiting)):  # those that come again meanwhile wait once more
            self._supervisor.call("connections", self._waiting.take().go_on)
            if self._supervisor.monotonic() > self._until:
                return
