"""HTTP connections with bounds: what is not a body may take neither for ever nor without end.

Given to uvicorn by the servers of edges and console; uvicorn by itself waits for a head, and for the rest of
a request that it has answered, as long as it takes. Bodies have their bounds in the edges' `request_body`,
large answers in their `answer_body` and in the changefeeds; whoever reads a body without a bound on its time,
as the console's form does, has the one here.

    connected ─▶ head ──────────▶ body and answer ─▶ rest of the body ─▶ kept alive ─▶ head …
                 slow_seconds,    body's bounds,     DRAIN_S             uvicorn's
                 64 KiB           twice slow_seconds                     own time

There are as many connections as three quarters of the process's files, less `OWN_FILES` (its log, its
clients, what it starts; the last quarter is for readers of topics that clients follow), those in the middle
of a TLS handshake among them, and no more than three quarters of them of one address, or
`connections_per_address`: `http_server` sends away who comes then, and what is open goes on.

Trailers are read and dropped, as they come after what has been decided by the headers; together with the
framing of chunks they count as a head does.

A request that would rather speak another protocol (`Upgrade: h2c`, which Java's own client says by default)
is answered in this one. httptools takes what is behind such a head for the other protocol, and uvicorn would
go on as if there were no body: the head is read once more, without the wish.

What says who asks, or what for, is said once (`_ONCE`): of two, a proxy may have looked at the other.
"""

from __future__ import annotations

import asyncio
import resource
from array import array
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headwater.project import websocket_protocol

HEAD_BYTES_MAX = 64 * 1024
FRAMING_BYTES = 16
"""Allowed for each byte of a body, as somebody may send it in chunks of one."""
DRAIN_S = 5.0
BODY_TIMES = 2
"""As often as `slow_seconds` a body may take: later than whoever has a sentence for it says so."""
_ONCE = (b"authorization", b"headwater-key", b"host", b"idempotency-key", b"origin")
_WISHES = (b"upgrade", b"connection", b"http2-settings")
CONNECTIONS_MAX, OWN_FILES, CONNECTIONS_MIN = 50_000, 128, 64


def protocol(slow_seconds: float) -> type[asyncio.Protocol]:
    """For `uvicorn.Config(http=…)`."""

    class Protocol(Bounded):
        slow_s = slow_seconds

    return Protocol


def most_connections() -> int:
    """Of this process at once."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    left = CONNECTIONS_MAX if files == resource.RLIM_INFINITY else files * 3 // 4 - OWN_FILES
    return max(CONNECTIONS_MIN, min(CONNECTIONS_MAX, left))


class _Parser(httptools.HttpRequestParser):
    """It remembers what lies behind a head that wishes for another protocol."""

    rest: memoryview | bytes = b""

    def feed_data(self, data: bytes | bytearray | memoryview | array[int]) -> None:
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as wish:
            self.rest = memoryview(data)[wish.args[0] :]
            raise


def _parser(protocol: HttpToolsProtocol) -> _Parser:
    made = _Parser(protocol)
    made.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
    return made


class Bounded(HttpToolsProtocol):
    """One connection."""

    slow_s: float
    left: Callable[[], None] = staticmethod(lambda: None)
    """Called when it is over."""
    parser: _Parser
    _timer: asyncio.TimerHandle | None = None
    _is_head = False
    _is_whole = True
    """All of the request has come."""
    _spent = 0
    """Bytes of this request that are no body, and what its body allows for them."""
    _allowed = HEAD_BYTES_MAX
    _is_wish = False
    """It is for another protocol, and is read once more."""
    _wrong = ""
    """What is wrong with its head."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.parser = _parser(self)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self.left()

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._expect_head()  # an empty line, too, ends the time that uvicorn gives
        self._spent += len(data)
        super().data_received(data)
        while self._is_wish:  # there may be as many behind each other as fit into what has come
            self._read_without_wish()
        if self._spent > self._allowed and not self.transport.is_closing():
            self._refuse()

    @property
    def _is_idle(self) -> bool:
        return self._is_whole and not self._is_head and self.cycle.response_complete

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_whole = False
        self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        names = [name for name, _ in self.headers]
        for each in _ONCE:
            if names.count(each) > 1:
                self._wrong = f"the header {each.decode()} stands there twice"
                raise httptools.HttpParserError(self._wrong)
        self._is_wish = self.parser.should_upgrade() and not self._should_upgrade()
        if self._is_wish:
            return
        self._is_head = False
        self._start_timer(BODY_TIMES * self.slow_s)
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(self._wrong or msg)

    def handle_websocket_upgrade(self) -> None:
        self._stop_timer()
        super().handle_websocket_upgrade()
        # From now on that one is told of the end.
        cast(websocket_protocol.Bounded, self.transport.get_protocol()).left = self.left

    def _unsupported_upgrade_warning(self) -> None:
        """It is answered, as any other."""

    def _read_without_wish(self) -> None:
        """Its head once more, and then what lies behind it."""
        version, method = self.parser.get_http_version(), self.parser.get_method()
        rest, self._is_wish = self.parser.rest, False
        if method == b"CONNECT":
            self.send_400_response("CONNECT is not served here")
            return
        kept = [each for each in self.headers if each[0] not in _WISHES]
        lines = [method + b" " + self.url + b" HTTP/" + version.encode()]
        lines += [name + b": " + value for name, value in kept]
        self.parser = _parser(self)
        super().data_received(b"\r\n".join([*lines, b"", b""]))
        if rest and not self.transport.is_closing():
            super().data_received(cast(bytes, rest))

    def on_body(self, body: bytes) -> None:
        self._spent -= len(body)
        self._allowed += FRAMING_BYTES * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._is_wish:
            return
        self._is_whole = True
        self._stop_timer()
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_whole and not self._is_head and not self.pipeline:
            self._start_timer(DRAIN_S)

    def _expect_head(self) -> None:
        if not self._is_head:
            self._is_head, self._spent, self._allowed = True, 0, HEAD_BYTES_MAX
            self._start_timer(self.slow_s)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _refuse(self) -> None:
        if self.cycle is None or self._is_head:
            self.send_400_response("the head of the request is too large")
        else:
            self.transport.abort()  # its answer may be half written, and nobody reads on
