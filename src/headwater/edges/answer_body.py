"""Bodies on their way out, with bounds: the bytes of all that wait to be taken, the time that a piece takes.

For routes whose answers may be large. A server takes a body as a whole, and keeps it until its client has
taken it. So it is handed over in pieces: `send` waits while the client has not taken those before.
"""

from __future__ import annotations

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from headwater.edges import counts, request_body
from headwater.edges.memory_share import MemoryShare

PIECE_BYTES = 64 * 1024
_log = logging.getLogger("headwater.edges")


class Pieces(Response):
    """A body that goes out piece by piece, each within `slow_s`."""

    def __init__(self, body: bytes, media_type: str, slow_s: float) -> None:
        super().__init__(body, media_type=media_type)
        self._slow_s = slow_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._sent(send)
        except TimeoutError:
            # The server closes the connection of an answer that was not ended.
            counts.refused("http", "slow")
            _log.warning("an answer was ended: its client took nothing for %g s", self._slow_s)

    async def _sent(self, send: Send) -> None:
        head: Message = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        await send(head)
        body = memoryview(self.body)
        for start in range(0, len(body), PIECE_BYTES):
            await self._piece(send, bytes(body[start : start + PIECE_BYTES]), is_last=False)
        await self._piece(send, b"", is_last=True)

    async def _piece(self, send: Send, piece: bytes, *, is_last: bool) -> None:
        async with asyncio.timeout(self._slow_s):
            await send({"type": "http.response.body", "body": piece, "more_body": not is_last})


class Outgoing(Pieces):
    """`held` has its bytes already; they are given back when it has been taken, or is ended."""

    def __init__(self, body: bytes, media_type: str, held: MemoryShare, slow_s: float) -> None:
        super().__init__(body, media_type, slow_s)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._held.give(len(self.body))


def counted(request: Request, body: bytes, media_type: str) -> Response:
    """A list of whatever there is; a long one is among its sender's bytes until taken. Raises Overloaded."""
    if len(body) <= PIECE_BYTES:
        return Response(body, media_type=media_type)
    incoming = request_body.of(request.scope)
    incoming.take(len(body))  # given back by the guard, once it was sent
    return Pieces(body, media_type, incoming.slow_s)
