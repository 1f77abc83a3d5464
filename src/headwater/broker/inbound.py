"""Reading from one connection: as much as there is room and time for; each `Connection` has one.

A complete frame is decoded at once, so that the buffer is free again, and put into the `Exchange`. Reading
stops while the broker has no memory for what comes, while too many requests wait, while a quota keeps
the client silent, and until the next turn of the event loop if this one has no time left.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headwater.broker.exchange import gone
from headwater.broker.frame_buffer import FrameBuffer
from headwater.broker.outbound import TASK
from headwater.broker.registry import Api, never
from headwater.broker.security.sasl_tokens import TOKEN, token_header
from headwater.broker.turns import HALF_S, Had
from headwater.fair_queue import network
from headwater.wire import messages
from headwater.wire.errors import BeyondBound, WireError

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.connection import Connection

INBOX_MAX = 16


class Inbound:
    """The reading side of a socket."""

    def __init__(self, broker: Broker, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection
        self.frames = FrameBuffer(broker.memory)
        self.last_active = broker.clock.monotonic()
        self.is_paused = self.has_spoken = False
        self._paused_at = self.last_active
        self._muted: asyncio.TimerHandle | None = None
        """Set while a quota keeps this connection silent."""
        self._goes_on = False
        """What this turn had no time for is done in the next."""
        self.turns = Had(HALF_S)
        """Of the event loop, that this client had."""
        self.network = network(connection.client_host)

    @property
    def is_muted(self) -> bool:
        return self._muted is not None

    def lost(self) -> None:
        """The socket is gone, and what came on it."""
        if self._muted is not None:
            self._muted.cancel()
        self.frames.clear()
        self._connection = gone()

    def filled(self, count: int) -> None:
        """So many bytes have come."""
        self.last_active = self._broker.clock.monotonic()
        self.frames.filled(count, self.last_active)
        if self._goes_on:
            return
        if self._broker.turns.has_time():
            self.read_on()
        else:
            self.go_on_soon()

    def read_on(self) -> None:
        began = self._broker.supervisor.monotonic()
        self._read_all()
        self._broker.turns.took(self, began)

    def _read_all(self) -> None:
        try:
            # Before a login is complete one frame is taken at a time: look again after each.
            while self._take_frames() and self._connection.login is not None:
                pass
        except WireError as error:
            self._connection.fail(str(error))
        except Exception as error:
            self._connection.fault(TASK, error)

    def _take_frames(self) -> bool:
        """Take what is complete, and start it; whether there was any."""
        frames, connection, took = self.frames, self._connection, False
        login = connection.login
        while frames.has_size and not connection.is_closing:
            low, high, setting = 8, self._broker.request_bytes_max, "socket.request.max.bytes"
            if login is not None and connection.is_stranger:
                if connection.busy:
                    break
                low = 0 if login.bare else 8
                setting = "sasl.server.max.receive.size"
                high = min(high, self._broker.settings.get(setting))
            frame = frames.take(low, high, setting)
            if frame is None:
                break
            self._receive(frame)
            took = True
            if not self._broker.turns.has_time():
                self.go_on_soon()
                break
        if took:
            frames.since = self.last_active
        frames.shrink_if_empty()
        connection.pump()
        return took

    def _receive(self, frame: memoryview) -> None:
        login, exchange = self._connection.login, self._connection.exchange
        if login is not None and login.bare:
            exchange.put(TOKEN, token_header(), bytes(frame), len(frame))
            return
        header = messages.read_header(frame)
        self.has_spoken = True
        if login is not None:
            reason = login.admits(header.api_key)
            if reason is not None:
                raise WireError(reason)
        api = self._broker.apis.get(header.api_key)
        if api is None:
            raise WireError(f"API {header.api_key} is not known (version {header.api_version})")
        size = len(frame)
        if not api.supports(header.api_version):
            if header.api_key != messages.API_VERSIONS:
                raise WireError(f"{api.name} version {header.api_version} is not supported")
            header = header._replace(api_version=-1)  # answered in version 0: KIP-511
            request = None
        else:
            try:
                request, size = messages.weighed(frame, header)
            except BeyondBound as error:
                if not messages.has_error_code(header.api_key, header.api_version):
                    raise
                api, request = _refusing(api, str(error)), None
            if login is not None and header.api_key == messages.API_VERSIONS:
                login.asked_versions()
        exchange.put(api, header, request, size)

    def go_on_soon(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            self._broker.turns.wait(self)
            self.balance()

    def go_on(self) -> None:
        """It is this client's turn again."""
        self._goes_on = False
        if not self._connection.is_closing and not self._broker.stopping:
            self.read_on()

    def balance(self) -> None:
        """Read on only while there is room for what comes: here and in the broker as a whole."""
        connection, outbound = self._connection, self._connection.outbound
        if outbound is None or connection.is_closing:
            return
        full = (
            self._broker.stopping
            or self._goes_on
            or not self._has_room()
            or self._muted is not None
            or len(connection.exchange) >= INBOX_MAX
            or (connection.is_stranger and connection.busy)
        )
        if full and not self.is_paused:
            self.is_paused, self._paused_at = True, self._broker.clock.monotonic()
            outbound.transport.pause_reading()
        elif not full and self.is_paused:
            self.is_paused = False
            self._excuse(self._broker.clock.monotonic())
            outbound.transport.resume_reading()

    def _excuse(self, now: float) -> None:
        """While nothing was read the client could not move: that time is not held against it."""
        self.frames.since += now - self._paused_at
        self.last_active = now

    def _has_room(self) -> bool:
        """Whether the broker has memory for what comes next, as far as that is known."""
        connection = self._connection
        if not self.frames.reserve(connection, stranger=connection.is_stranger):
            return False
        return not connection.exchange.held_bytes or self._broker.memory.may_read(connection)

    def mute(self, seconds: float) -> None:
        """Start and read nothing for so long (KIP-219)."""
        if self._muted is not None:
            self._muted.cancel()
        self._muted = self._broker.supervisor.later(seconds, TASK, self._unmute)
        self.balance()

    def _unmute(self) -> None:
        self._muted = None
        if not self._connection.is_closing:
            self._connection.pump()


def _refusing(api: Api, sentence: str) -> Api:
    """An API that answers with this error."""
    code = ErrorCode.invalid_request
    told = {"error_code": code, "error_message": sentence}
    return replace(api, handle=lambda broker, request, context: told, lists=never)
