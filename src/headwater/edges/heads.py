"""The heads of requests, with bounds: what comes before the body may take neither for ever nor without end.

Given to uvicorn by `serving`; uvicorn by itself waits for a head as long as it takes. Bodies have their
bounds in `incoming`, answers in the changefeeds.

    connected ──▶ waiting for a head ──▶ request, answer ──▶ kept alive ──▶ …
                  slow_seconds, 64 KiB                       uvicorn's own time
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 64 * 1024


def protocol(slow_seconds: float) -> type[asyncio.Protocol]:
    """For `uvicorn.Config(http=…)`."""

    class Protocol(_Bounded):
        slow_s = slow_seconds

    return Protocol


class _Bounded(HttpToolsProtocol):
    slow_s: float
    _timer: asyncio.TimerHandle | None = None
    _is_head = False
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._is_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("the head of the request is too large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin()

    def on_headers_complete(self) -> None:
        self._end()
        super().on_headers_complete()

    def _begin(self) -> None:
        if not self._is_head:
            self._is_head, self._head_bytes = True, 0
            self._timer = self.loop.call_later(self.slow_s, self._too_slow)

    def _end(self) -> None:
        self._is_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()
