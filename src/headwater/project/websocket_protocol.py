"""WebSocket connections with bounds: what a client sends may not keep the process from everybody else.

Given to uvicorn by `http_server`; uvicorn by itself unpacks and queues whatever comes, all that one read of
the socket brought in one turn: a kilobyte of packed zeros is a megabyte, and a ping costs six bytes.

    bytes as they come ─▶ a bucket of `burst_bytes`, filled by `bytes_per_second` ─▶ frames, and messages
                          empty: the connection is cut off, nothing of it is parsed   of `message_bytes`

Packed messages count by what was sent, so whoever takes large ones must not take packed ones (`is_packed`).

A head of which no WebSocket can come (with a body, with more or longer lines than `websockets` reads) is
answered here: uvicorn by itself says nothing to it and waits for ever, before it is asked who is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


@dataclass(frozen=True)
class Bounds:
    """Of what one client may send over one connection."""

    message_bytes: int
    """Unpacked."""
    burst_bytes: int
    bytes_per_second: float
    is_packed: bool
    """Whether messages may be compressed, in both directions (RFC 7692)."""


LISTENERS = Bounds(4 * 1024, 64 * 1024, 1024.0, is_packed=True)
"""Of clients that have nothing to say but that they are there."""
PAGES = Bounds(1024**2, 2 * 1024**2, 256 * 1024.0, is_packed=False)
"""Of pages that people type into."""


_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def protocol(bounds: Bounds) -> type[asyncio.Protocol]:
    """For `uvicorn.Config(ws=…)`."""

    class Protocol(Bounded):
        burst_bytes = bounds.burst_bytes
        bytes_per_second = bounds.bytes_per_second

    return Protocol


class Bounded(WebSocketsSansIOProtocol):
    """One connection."""

    left: Callable[[], None] = staticmethod(lambda: None)
    """Called when it is over."""
    burst_bytes: int
    bytes_per_second: float
    _granted = 0.0
    _since: float | None = None

    def data_received(self, data: bytes) -> None:
        # The first is the head of the request, which had the bounds of one.
        if self.handshake_initiated and not self._is_granted(len(data)):
            self.transport.abort()
            return
        super().data_received(data)
        if not self.handshake_initiated:
            self._refuse()

    def _refuse(self) -> None:
        """The whole head was handed over at once, and is none of a WebSocket."""
        self.transport.write(b"".join(self.conn.data_to_send()) or _BAD_REQUEST)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.left()

    def _is_granted(self, size: int) -> bool:
        now = self.loop.time()
        if self._since is None:
            self._granted, self._since = self.burst_bytes, now
        filled = self._granted + (now - self._since) * self.bytes_per_second
        self._granted, self._since = min(self.burst_bytes, filled) - size, now
        return self._granted >= 0
