"""TLS handshakes under way: how many there are, how much of them is done in one turn of the event loop, and
when they have taken too long. The broker has one, and each of the web services.

    at once     HALF_MAX, silent ones included: each has a socket, most have OpenSSL's 30 to 50 KB. Listeners
                with TLS share them evenly: who floods one closes none of the others
    in a turn   as much as `turns` allows: who has no part of it any more waits for the next
    each        HANDSHAKE_SECONDS from when it was accepted. Where all places are taken, those that wait for
                their client for PRESSED_SECONDS go, those of the address with the most of them first and
                never those of one with less than its share; until then nobody is accepted
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Hashable
from math import inf
from time import monotonic  # uvloop's clock stands still within a turn

from headwater.broker.security.tls_records import READ_BYTES
from headwater.broker.security.tls_session import TlsSession
from headwater.broker.security.turns import Turns

logger = logging.getLogger("headwater.security")

HANDSHAKE_SECONDS = 10.0
"""A client that has not come through the handshake by then is dropped."""
PRESSED_SECONDS = 1.0
HALF_MAX = 1_000
GONE_AT_ONCE = 64
"""So many places are made where one is needed: to look for them costs a millisecond."""


class _Half:
    """One that is under way."""

    __slots__ = ("since", "timer")

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.since = inf
        """When it began to wait for its client."""
        self.timer = timer


class Handshakes:
    """Of one event loop."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(READ_BYTES))
        """What a socket is read into, for as long as it takes to hand it to OpenSSL: one for all."""
        self.failed = 0
        """Since the start."""
        self.reading = Turns(TlsSession.go_on)
        self._half: dict[TlsSession, _Half] = {}
        self._turns = Turns(self._go_on)
        self._listeners: dict[Hashable, int] = {}
        """Those with TLS, and how many are under way at each."""

    def __len__(self) -> int:
        return len(self._half)

    def listen(self, listener: Hashable) -> None:
        """There is one more that shares the places, once it is known to have TLS."""
        self._listeners.setdefault(listener, 0)

    def begin(self, session: TlsSession) -> None:
        """It has been accepted."""
        loop = asyncio.get_running_loop()
        reason = f"no TLS handshake after {HANDSHAKE_SECONDS:.0f} s"
        timer = loop.call_later(HANDSHAKE_SECONDS, self._drop, session, reason)
        self._half[session] = _Half(timer)
        self.listen(session.listener)
        self._listeners[session.listener] += 1

    def attached(self, session: TlsSession) -> None:
        """It can be read from."""
        self._half[session].since = monotonic()

    def end(self, session: TlsSession) -> None:
        """It is done, or gone."""
        half = self._half.pop(session, None)
        if half is not None:
            half.timer.cancel()
            self._listeners[session.listener] -= 1
            self._turns.forget(session)

    def close(self) -> None:
        """All that are under way end."""
        for session in tuple(self._half):
            session.abort()

    # ---- turns -----------------------------------------------------------------------------------

    def ready(self, session: TlsSession) -> None:
        """There is something to do for it: now, if this turn has time."""
        if self._turns.has_time() and not self._turns:
            self._step(session)
        else:
            self._turns.wait(session)

    def _go_on(self, session: TlsSession) -> None:
        self._step(session)
        session.resume()

    def _step(self, session: TlsSession) -> None:
        half, refusal = self._half[session], "an error of ours"
        half.since = inf
        try:
            refusal = session.step() or ""
        finally:  # an error of the protocol behind is the loop's to tell
            half.since = monotonic()
            if refusal:
                self._drop(session, f"the TLS handshake failed: {refusal}", is_told=True)

    # ---- room ------------------------------------------------------------------------------------

    def has_room(self, listener: Hashable) -> bool:
        """Whether one more can be taken there now; makes room where that is possible."""
        self.listen(listener)
        share = max(HALF_MAX // len(self._listeners), 1)
        return self._listeners[listener] < share or self.make_room(listener) > 0

    def make_room(self, listener: Hashable | None = None) -> int:
        """Drop those, of one listener or of all, that wait for their clients for long; how many."""
        half = {s: h for s, h in self._half.items() if listener in (None, s.listener)}
        now, of = monotonic(), Counter(session.network for session in half)
        share = len(half) / max(len(of), 1)
        found = [
            (-of[session.network], each.since, number, session)
            for number, (session, each) in enumerate(half.items())
            if of[session.network] >= share
            and not session.is_waiting
            and now - each.since >= PRESSED_SECONDS
        ]
        gone = [session for *_, session in sorted(found)[:GONE_AT_ONCE]]
        for session in gone:
            self._drop(session, "its TLS handshake does not go on, and others wait")
        return len(gone)

    def _drop(self, session: TlsSession, reason: str, *, is_told: bool = False) -> None:
        """`is_told`: the client gets what was written for it."""
        if session.is_closing():
            return
        self.failed += 1
        logger.info("closing the connection of %s: %s", session.host, reason)
        self.end(session)
        if is_told:
            session.close()
        else:
            session.abort()
