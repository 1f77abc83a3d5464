"""One timer for all groups: a heap of wake-ups instead of a task for every member.

`Core` says `wake(key, at)`; when the time has come, `due(key)` is called. A key has at most one
wake-up in force, the earliest that was asked for. Entries that were overtaken are skipped when they
come up, and swept out when they outnumber the others, so the heap is bounded by the groups.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from headwater.broker.clock import Clock
from headwater.broker.supervisor import Supervisor
from headwater.broker.turns import Pace

SWEEP_ABOVE = 64


class Deadlines:
    def __init__(self, clock: Clock, due: Callable[[str], None], supervisor: Supervisor) -> None:
        self._clock = clock
        self._supervisor = supervisor
        self._due = due
        self._heap: list[tuple[int, str]] = []
        self._at: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._running = False

    def now(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def wake(self, key: str, at: int) -> None:
        """A time that has passed is now: whoever asks for it again and again is behind all that are due."""
        at, current = max(at, self.now()), self._at.get(key)
        if current is None or at < current:
            self._at[key] = at
            heapq.heappush(self._heap, (at, key))
            if len(self._heap) > 2 * len(self._at) + SWEEP_ABOVE:
                self._heap = [(at, key) for key, at in self._at.items()]
                heapq.heapify(self._heap)
            self._arm()

    def forget(self, key: str) -> None:
        self._at.pop(key, None)

    def start(self) -> None:
        self._running = True
        self._arm()

    def stop(self) -> None:
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def fire(self) -> None:
        """Call `due` for what has come to its time, each key once: one that asks for a time in the past has
        its turn after all others of the event loop, and so have those for which this one is too short."""
        now, pace = self.now(), Pace(self._supervisor.monotonic)
        called: set[str] = set()
        again: list[tuple[int, str]] = []
        while self._heap and self._heap[0][0] <= now and not pace.is_due:
            at, key = heapq.heappop(self._heap)
            if self._at.get(key) != at:
                continue
            if key in called:
                again.append((at, key))
                continue
            called.add(key)
            del self._at[key]
            self._call(key)
        for each in again:
            heapq.heappush(self._heap, each)
        self._arm()

    def _call(self, key: str) -> None:
        try:
            self._due(key)
        except Exception as error:  # one group's trouble must not stop the clock of all others
            self._supervisor.failed("deadlines", error, key)

    def _arm(self) -> None:
        if not self._running or not self._heap:
            return
        at = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        delay = max(at - self.now(), 0) / 1000
        self._timer = self._supervisor.later(delay, "deadlines", self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.fire()
