"""The owners' line to a broker: record batches out, offsets back, on the event loop.

`Owner` hands batches over and is called back; all that is handed over in one turn of the loop goes out as
one Produce request (`produce`). The broker answers requests in order.

A login that ends is renewed on the line when 80 % of its time is over (KIP-368). Nothing may come between the
steps of a login, so batches wait for it here. While the issuer of tokens is away the line goes on, until the
broker closes it.

Invariant: batches of one partition must arrive in the order in which they were sent; so a line that
breaks is thrown away with all that was on it, and owners claim anew before they send again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections import deque
from collections.abc import Callable, Mapping

from headwater.client import security
from headwater.client.connection import Disconnected
from headwater.client.errors import LoginRefused
from headwater.events import produce
from headwater.events.produce import LOST, Batch, Callback
from headwater.oidc.errors import IssuerUnreachable

_PRODUCE, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 0, 17, 36
_FRAME_BYTES_MAX = 64 << 20
_CLIENT = b"headwater-events"
_RENEW_AGAIN_S = 1.0
_log = logging.getLogger("headwater.events")


class Line(asyncio.Protocol):
    """One connection. Made by `connect`; after `closed` it is of no more use."""

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._correlation = 0
        self._waiting: deque[tuple[float, Callable[[bytes | None], None]]] = deque()
        self._batches: list[Batch] = []
        self._timeout_s = timeout_s
        self._watch: asyncio.TimerHandle | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        """Set while a login is renewed: done when all that was sent before is answered."""
        self.closed = False

    # ---- for owners -----------------------------------------------------------------------------

    def produce(self, topic: str, partition: int, data: bytes, done: Callback) -> None:
        """Send with whatever else is handed over in this turn of the loop."""
        if self.closed:
            self._loop.call_soon(done, LOST)
            return
        if not self._batches:
            self._loop.call_soon(self._flush)
        self._batches.append(Batch(topic, partition, data, done))

    def close(self) -> None:
        """Whoever waits is told that no answer came."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    def _flush(self) -> None:
        if self._idle is not None:
            return  # until the login is renewed
        batches, self._batches = self._batches, []
        while batches:
            taken: dict[tuple[str, int], Batch] = {}
            left = []
            for each in batches:
                place = (each.topic, each.partition)
                if place in taken:
                    left.append(each)
                else:
                    taken[place] = each
            self._send_produce(taken)
            batches = left

    def _send_produce(self, taken: dict[tuple[str, int], Batch]) -> None:
        def answered(frame: bytes | None) -> None:
            for place, stored in produce.stored(frame, taken).items():
                taken[place].done(stored)

        self._send(_PRODUCE, 7, produce.body(taken), answered)

    # ---- frames ---------------------------------------------------------------------------------

    def _send(
        self, api: int, version: int, parts: list[bytes], answered: Callable[[bytes | None], None]
    ) -> None:
        if self.closed or self._transport is None:
            self._loop.call_soon(answered, None)
            return
        self._correlation += 1
        head = struct.pack(">hhih", api, version, self._correlation, len(_CLIENT)) + _CLIENT
        size = len(head) + sum(map(len, parts))
        self._waiting.append((self._loop.time() + self._timeout_s, answered))
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._overdue)
        self._transport.write(b"".join((struct.pack(">i", size), head, *parts)))

    def _overdue(self) -> None:
        """A broker that says nothing for so long is as good as gone."""
        self._watch = None
        if not self._waiting:
            return
        left = self._waiting[0][0] - self._loop.time()
        if left <= 0:
            self.close()
        else:
            self._watch = self._loop.call_later(left, self._overdue)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface, and another ancestor.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[:4], "big")
            if not 4 <= size <= _FRAME_BYTES_MAX:
                self.close()
                return
            if len(self._buffer) < 4 + size:
                return
            frame = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            if not self._waiting:
                self.close()
                return
            _, answered = self._waiting.popleft()
            answered(frame[4:])
            self._tell_idle()

    def connection_lost(self, error: Exception | None) -> None:
        if self.closed:
            return
        self.closed = True
        if self._watch is not None:
            self._watch.cancel()
        waiting, self._waiting = self._waiting, deque()
        for _, answered in waiting:
            answered(None)
        if self._renewal is not None:
            self._renewal.cancel()
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._idle is not None and not self._waiting and not self._idle.done():
            self._idle.set_result(None)

    # ---- getting acquainted ---------------------------------------------------------------------

    async def log_in(self, settings: Mapping[str, str]) -> None:
        mechanism = settings["sasl.mechanism"].upper()
        answer = await self._ask(_SASL_HANDSHAKE, 1, [produce.string(mechanism)])
        if answer[:2] != b"\0\0":
            raise LoginRefused(f"The broker does not offer {mechanism}.")
        loop = self._loop

        def exchange(token: bytes) -> bytes:
            asking = self._ask(_SASL_AUTHENTICATE, 1, [struct.pack(">i", len(token)), token])
            said = asyncio.run_coroutine_threadsafe(asking, loop).result()
            if said[:2] != b"\0\0":
                user = security.user(settings)
                raise LoginRefused(f"The broker refused user {user!r}.", hint="Check its password.")
            start = 4 + max(int.from_bytes(said[2:4], "big", signed=True), 0)
            size = max(int.from_bytes(said[start : start + 4], "big", signed=True), 0)
            end = start + 4 + size
            (lifetime_ms,) = struct.unpack_from(">q", said, end)
            if lifetime_ms:
                at = loop.time() + security.renewal(lifetime_ms / 1000)
                loop.call_soon_threadsafe(self._renew_at, at, settings)
            return said[start + 4 : end]

        # The steps of SCRAM are written for a thread that waits.
        try:
            await asyncio.to_thread(security.log_in, settings, exchange)
        except IssuerUnreachable as error:
            raise Disconnected(error.sentence) from error

    async def renew(self, settings: Mapping[str, str]) -> None:
        """Log in again, as the same user, between two requests; the line is closed where that fails."""
        try:
            if not await asyncio.to_thread(security.has_token, settings):
                self._renew_at(self._loop.time() + _RENEW_AGAIN_S, settings)
                return
            self._idle = self._loop.create_future()
            self._tell_idle()
            await self._idle
            await self.log_in(settings)
        except (Disconnected, LoginRefused) as error:
            _log.warning("the login of the line to the broker could not be renewed: %s", error)
            self.close()  # owners make another, and are told by that what is wrong
        finally:
            self._idle = None
            self._flush()

    def _renew_at(self, at: float, settings: Mapping[str, str]) -> None:
        def renew() -> None:
            self._renewing = self._loop.create_task(self.renew(settings))

        if self._renewal is not None:
            self._renewal.cancel()
        if not self.closed:
            self._renewal = self._loop.call_at(at, renew)

    async def _ask(self, api: int, version: int, parts: list[bytes]) -> bytes:
        waiting: asyncio.Future[bytes | None] = self._loop.create_future()

        def answered(frame: bytes | None) -> None:
            if not waiting.done():
                waiting.set_result(frame)

        self._send(api, version, parts, answered)
        frame = await waiting
        if frame is None:
            raise Disconnected("the broker closed the connection")
        return frame


async def connect(
    address: tuple[str, int], settings: Mapping[str, str], timeout_s: float = 30.0
) -> Line:
    """Raises Disconnected or LoginRefused."""
    context = security.tls_context(settings)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, line = await loop.create_connection(
                lambda: Line(timeout_s),
                *address,
                ssl=context,
                server_hostname=address[0] if context is not None else None,
            )
            with contextlib.ExitStack() as undo:
                undo.callback(line.close)
                if settings.get("security.protocol", "").upper().startswith("SASL"):
                    await line.log_in(settings)
                undo.pop_all()
    except OSError as error:
        raise Disconnected(f"{address[0]}:{address[1]}: {error}") from error
    return line
