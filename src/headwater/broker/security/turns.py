"""How much of what TLS costs is done in one turn of the event loop; the rest waits, addresses in turn.

`handshakes` has two: for the steps of handshakes, which cost up to a millisecond, and for records, of which
64 KB may hold thousands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic  # uvloop's clock stands still within a turn
from typing import TYPE_CHECKING

from headwater.fair_queue import Circle

if TYPE_CHECKING:
    from headwater.broker.security.tls_session import TlsSession

TURN_S = 0.005


class Turns:
    """Of one event loop."""

    def __init__(self, act: Callable[[TlsSession], None]) -> None:
        """`act` does something for one that has waited; more may be left."""
        self._act = act
        self._queue: Circle[TlsSession] = Circle()
        self._until = 0.0
        self._is_running = False

    def __len__(self) -> int:
        """How many wait."""
        return len(self._queue)

    def has_time(self) -> bool:
        """Whether this turn has some left."""
        if not self._is_running:
            self._begin()
        return monotonic() < self._until

    def wait(self, session: TlsSession) -> None:
        """For a later turn, in which it comes once; its socket is not read until then."""
        session.is_waiting = True
        self._queue.add(session.network, session)
        if session.raw is not None:
            session.raw.pause_reading()

    def forget(self, session: TlsSession) -> None:
        self._queue.discard(session.network, session)

    def _begin(self) -> None:
        self._is_running, self._until = True, monotonic() + TURN_S
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_running = False
        if not self._queue:
            return
        self._begin()
        for _ in range(len(self._queue)):
            session = self._queue.take()
            session.is_waiting = False
            self._act(session)
            if monotonic() >= self._until or not self._queue:
                return
