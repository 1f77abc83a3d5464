"""Turns of the event loop, shared among the connections: none waits for all the others to be served.

The system reports every socket that has something at once, a thousand of them in one turn. Served one
after the other, they would keep timers, heartbeats and the disk's answers waiting for all of them. So a turn
has `TURN_S` for connections; those that come too late for it stop reading, wait in line and are served in
the next turns, first come, first served. The broker owns one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headwater.broker.supervisor import Supervisor

if TYPE_CHECKING:
    from headwater.broker.connection import Connection

TURN_S = 0.005


class Turns:
    """Who is to be served now, and who in the next turn."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._waiting: deque[Connection] = deque()
        self._until = 0.0
        self._is_running = False

    def has_time(self) -> bool:
        """Whether this turn has time for one more request."""
        now = self._supervisor.monotonic()
        if not self._is_running:
            self._begin(now)
        return now < self._until

    def wait(self, connection: Connection) -> None:
        """To be served (`go_on`) in the next turn, or the one after."""
        self._waiting.append(connection)
        if not self._is_running:
            self._begin(self._supervisor.monotonic())

    def _begin(self, now: float) -> None:
        self._is_running, self._until = True, now + TURN_S
        self._supervisor.soon("connections", self._next)

    def _next(self) -> None:
        self._is_running = False
        if not self._waiting:
            return
        self._begin(self._supervisor.monotonic())
        for _ in range(len(self._waiting)):  # those that come again meanwhile wait once more
            self._supervisor.call("connections", self._waiting.popleft().go_on)
            if self._supervisor.monotonic() > self._until:
                return
