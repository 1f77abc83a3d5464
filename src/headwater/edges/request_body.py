"""Bodies on their way in, with bounds: the bytes of one, the bytes of all, the time that one may take.

`guard` puts it between the server and the application, so that it holds for every route. What is too large is
read on for a moment and thrown away: a client that is still sending would else see a broken connection and
never the answer.
"""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from headwater.edges.errors import Overloaded

DRAIN_S = 5.0
DRAIN_BYTES_MAX = 64 * 1024**2
RETRY_AFTER_S = 1.0
_CLOSE = {"Connection": "close"}


class Held:
    """Bytes of all bodies that are in memory."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0

    def take(self, size: int) -> None:
        if self.bytes and self.bytes + size > self.most:
            raise Overloaded("too much is being sent at once", RETRY_AFTER_S)
        self.bytes += size


class Incoming:
    """The body of one request. Its `receive` takes the place of the server's; `release` it at the end."""

    def __init__(
        self, receive: Receive, held: Held, body_bytes: int, slow_seconds: float, *, expects: bool
    ) -> None:
        self._receive, self._held = receive, held
        self._most, self._slow_s = body_bytes, slow_seconds
        self._expects = expects
        """The client waits for a word before it sends its body."""
        self._deadline: float | None = None
        self._is_whole = False
        self.bytes = 0

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()  # nothing more comes but that the client has gone
        now = asyncio.get_running_loop().time()
        self._deadline = self._deadline or now + self._slow_s
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(
                408, f"the body did not arrive within {self._slow_s:g} s", _CLOSE
            ) from None
        size = len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        if self.bytes + size > self._most:
            await self.drain()
            raise too_large(self._most)
        self._held.take(size)
        self.bytes += size
        return message

    async def drain(self) -> None:
        """What the client sends though it will not be taken."""
        if self._expects and not self.bytes:
            return
        seen = 0
        try:
            async with asyncio.timeout(DRAIN_S):
                while not self._is_whole and seen < DRAIN_BYTES_MAX:
                    message = await self._receive()
                    seen += len(message.get("body", b""))
                    self._is_whole = not message.get("more_body", False)
        except TimeoutError:
            pass

    def release(self) -> None:
        self._held.bytes -= self.bytes
        self.bytes = 0


def too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body has more than {most} bytes", _CLOSE)
