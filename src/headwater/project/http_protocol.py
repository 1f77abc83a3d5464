"""HTTP connections with bounds: what is not a body may take neither for ever nor without end.

Given to uvicorn by the servers of edges and console; uvicorn by itself waits for a head, and for the rest of
a request that it has answered, as long as it takes. Bodies have their bounds in the edges' `request_body`,
large answers in their `answer_body` and in the changefeeds.

    connected ─▶ head ──────────▶ body and answer ─▶ rest of the body ─▶ kept alive ─▶ head …
                 slow_seconds,    body's bounds      DRAIN_S             uvicorn's
                 64 KiB                                                  own time

Trailers are read and dropped, as they come after what has been decided by the headers; together with the
framing of chunks they count as a head does.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 64 * 1024
FRAMING_BYTES = 16
"""Allowed for each byte of a body, as somebody may send it in chunks of one."""
DRAIN_S = 5.0


def protocol(slow_seconds: float) -> type[asyncio.Protocol]:
    """For `uvicorn.Config(http=…)`."""

    class Protocol(_Bounded):
        slow_s = slow_seconds

    return Protocol


class _Bounded(HttpToolsProtocol):
    slow_s: float
    _timer: asyncio.TimerHandle | None = None
    _is_head = False
    _is_whole = True
    """All of the request has come."""
    _spent = 0
    """Bytes of this request that are no body, and what its body allows for them."""
    _allowed = HEAD_BYTES_MAX

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._expect_head()  # an empty line, too, ends the time that uvicorn gives
        self._spent += len(data)
        super().data_received(data)
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
        self._is_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._spent -= len(body)
        self._allowed += FRAMING_BYTES * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_whole = True
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self._stop_timer()
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
