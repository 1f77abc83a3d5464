"""TLS over a connection that has been accepted: the handshake a step at a time, then bytes both ways.

`acceptor` makes a `TlsSession` as the protocol of a socket; `handshakes` says when it may take a step. When
the handshake is done, it is the transport of the protocol behind it: the broker's `Connection`, or HTTP.

    accepted ─▶ first bytes ─▶ its turn: step ─▶ the client's answer ─▶ its turn … ─▶ connection_made, data
                no OpenSSL object until here     HANDSHAKE_SECONDS for all of it

The event loop's own TLS takes each step as soon as bytes have come, however many do so in one turn, and
cannot be told otherwise. What must hold: nothing is kept of a client but what OpenSSL itself keeps and one
read of the socket; while the protocol behind has stopped reading, or the client takes nothing, the socket is
not read either.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, cast

from headwater.broker.security.tls_records import Reader
from headwater.fair_queue import network

if TYPE_CHECKING:
    from headwater.broker.security.handshakes import Handshakes
    from headwater.record.varint import Buffer

WRITE_BYTES = 64 * 1024
"""Encrypted at a time: OpenSSL keeps a buffer of this size for as long as the connection is there."""


class TlsSession(asyncio.BufferedProtocol, asyncio.Transport):
    """The protocol of a socket, and the transport of what is said inside."""

    def __init__(
        self,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.BaseProtocol],
        place: tuple[Hashable, str],
        handshakes: Handshakes,
        left: Callable[[], None],
    ) -> None:
        """`make` makes the protocol behind when the handshake is done; `left` is called if it ends before."""
        self.listener, self.host = place
        self.network = network(self.host)
        self.raw: asyncio.Transport | None = None
        """The socket's own transport, from when it is there."""
        self._behind: asyncio.BaseProtocol | None = None
        self._context = context
        self._make, self._left = make, left
        self._handshakes = handshakes
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object: ssl.SSLObject | None = None
        self._reader: Reader | None = None
        """From when the handshake is done."""
        self.is_waiting = False
        """For its turn, as `turns` says: a step of the handshake, or records."""
        self._is_closing = self._is_paused = self._is_stuck = self._is_ended = False
        """Paused: the protocol behind does not read. Stuck: the client does not. Ended: we have said that
        nothing more comes, and look at nothing more."""
        handshakes.begin(self)

    # ---- the socket's protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.raw = cast(asyncio.Transport, transport)  # uvloop's are no subclass
        if self._is_closing:  # it has taken too long, or the server stops
            self.raw.abort()
        else:
            self._handshakes.attached(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self._handshakes.reading.forget(self)
        if self._behind is not None:
            self._behind.connection_lost(error)
        else:
            self._handshakes.end(self)
            self._left()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._handshakes.buffer

    def buffer_updated(self, count: int) -> None:
        if self._is_ended or self._is_closing:
            return
        assert not self.is_waiting, "what came would be kept without bound"
        data = self._handshakes.buffer[:count]
        if self._behind is not None:
            self._read(data)
        else:
            self._incoming.write(data)
            self._handshakes.ready(self)

    def eof_received(self) -> None:  # its answer does not matter: TLS half closed is closed
        if self._behind is not None:
            cast(asyncio.Protocol, self._behind).eof_received()

    def pause_writing(self) -> None:
        """What comes from it may be answered by OpenSSL itself: it has to wait as well."""
        self._is_stuck = True
        if self.raw is not None:
            self.raw.pause_reading()
        if self._behind is not None:
            self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._is_stuck = False
        if self._behind is not None:
            self._behind.resume_writing()
        asyncio.get_running_loop().call_soon(self.resume)

    # ---- the handshake ---------------------------------------------------------------------------

    def step(self) -> str | None:
        """Answer what has come; why it cannot go on, if so. Costs up to a millisecond."""
        if self._object is None:
            self._object = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLError as error:
            return error.reason or "it ended in the middle"
        finally:
            self._flush()  # where it fails, the alert that says so to the client
        self._handshakes.end(self)
        self._behind = self._make()
        self._behind.connection_made(self)
        if self._is_stuck:
            self._behind.pause_writing()
        self._reader = Reader(self, self._object, self._incoming, self._handshakes.reading)
        self._read(memoryview(self._incoming.read()))  # what came with its last message
        return None

    # ---- reading ---------------------------------------------------------------------------------

    def _read(self, data: memoryview) -> None:
        """Hand on what has come, as far as it is wanted, and this turn has time."""
        if self._reader is not None:
            try:
                self._reader.take(data)
            except ssl.SSLError:
                self._flush()  # the alert
                self._drop()
            self._flush()  # new keys were asked for

    def is_wanted(self) -> bool:  # what the client sends
        return self.is_reading() and not self._is_ended

    def is_reading(self) -> bool:
        return not (self._is_paused or self._is_stuck or self._is_closing)

    def pause_reading(self) -> None:
        if not (self._is_paused or self._is_closing) and self.raw is not None:
            self._is_paused = True
            self.raw.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            asyncio.get_running_loop().call_soon(self.resume)

    def resume(self) -> None:
        """The socket is read again, if nothing is against it; what had come already goes first."""
        if not self.is_waiting:
            self.go_on()

    def go_on(self) -> None:
        """Its turn has come."""
        self._read(memoryview(b""))
        if self.is_reading() and self.raw is not None and not self.is_waiting:
            self.raw.resume_reading()

    # ---- writing ---------------------------------------------------------------------------------

    def write(self, data: Buffer) -> None:
        if self._is_closing or self._is_ended:
            return
        view, inner = memoryview(data).cast("B"), cast(ssl.SSLObject, self._object)
        try:
            while view:
                view = view[inner.write(view[:WRITE_BYTES]) :]
                self._flush()
        except ssl.SSLError:
            self.abort()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Small ones together: each write is a record of its own, with a header and a tag."""
        few: list[Buffer] = []
        size = 0
        for data in list_of_data:
            if few and size + len(data) > WRITE_BYTES:
                self.write(b"".join(few))
                few, size = [], 0
            few.append(data)
            size += len(data)
        if few:
            self.write(few[0] if len(few) == 1 else b"".join(few))

    def _flush(self) -> None:
        if self._outgoing.pending and self.raw is not None:
            self.raw.write(self._outgoing.read())

    def get_write_buffer_size(self) -> int:
        return 0 if self.raw is None else self.raw.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """What the client still sends is thrown away; its end is noticed."""
        if not (self._is_closing or self._is_ended) and self.raw is not None:
            self._say_end()
            self._is_ended = True
            self.raw.write_eof()

    # ---- the end ---------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Once what was written has gone out. The client's own farewell is not waited for (RFC 8446, 6.1)."""
        if not self._is_closing:
            if self._behind is not None and not self._is_ended:
                self._say_end()
            self._drop()

    def _say_end(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # it would like to read the client's
            cast(ssl.SSLObject, self._object).unwrap()
        self._flush()

    def _drop(self) -> None:
        self._is_closing = True
        if self.raw is not None:
            self.raw.close()

    def abort(self) -> None:
        self._is_closing = True
        if self.raw is not None:
            self.raw.abort()

    def get_extra_info(self, name: str, default: object = None) -> object:
        inner = self._object
        if inner is None or self.raw is None:
            return default
        if name == "peercert":
            return inner.getpeercert()
        own = {"ssl_object": inner, "sslcontext": self._context, "cipher": inner.cipher()}
        return own.get(name) or self.raw.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._behind = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._behind or self
