"""Bodies on their way in, with bounds: the bytes of one, the bytes of all, the time that one may take.

`guard` puts it between the server and the application, so that it holds for every route. What is too large is
read on for a moment and thrown away: a client that is still sending would else see a broken connection and
never the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from headwater.edges.memory_share import MemoryShare
from headwater.edges.workers import Parsers

DRAIN_S = 5.0
DRAIN_BYTES_MAX = 64 * 1024**2
Result = TypeVar("Result")
_CLOSE = {"Connection": "close"}
_INCOMING = "headwater.incoming"
"""Where the guard leaves it for handlers, in a request's scope."""


class Incoming:
    """The body of one request. Its `receive` takes the place of the server's; `release` it at the end."""

    def __init__(
        self,
        receive: Receive,
        held: MemoryShare,
        body_bytes: int,
        slow_seconds: float,
        *,
        parsers: Parsers | None = None,
        expects: bool,
    ) -> None:
        """`parsers`: where handlers take it apart."""
        self._receive, self._held, self._parsers = receive, held, parsers
        self._most, self.slow_s = body_bytes, slow_seconds
        self._expects = expects
        """The client waits for a word before it sends its body."""
        self._deadline: float | None = None
        self._is_whole = False
        self.bytes = 0

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()  # nothing more comes but that the client has gone
        now = asyncio.get_running_loop().time()
        self._deadline = self._deadline or now + self.slow_s
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(
                408, f"the body did not arrive within {self.slow_s:g} s", _CLOSE
            ) from None
        size = len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        if self.bytes + size > self._most:
            await self.drain()
            raise too_large(self._most)
        self.take(size)
        return message

    def take(self, size: int) -> None:
        """Memory for what came, or for what it unpacks to. Raises Overloaded."""
        self._held.take(size)
        self.bytes += size

    async def while_there(self, work: Coroutine[object, object, Result]) -> Result:
        """What a request waits for after its body, ended when its client goes: nobody hears the answer."""
        task, gone = asyncio.create_task(work), asyncio.create_task(self._gone())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return await task
        finally:
            gone.cancel()
            task.cancel()
            await asyncio.wait((task, gone))
        raise HTTPException(400, "the client has gone")

    async def _gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

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

    @property
    def parsers(self) -> Parsers:
        assert self._parsers is not None, "it comes from the guard"
        return self._parsers

    def release(self) -> None:
        self._held.give(self.bytes)
        self.bytes = 0


def too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body has more than {most} bytes", _CLOSE)


def leave(incoming: Incoming, scope: Scope) -> None:
    """For the handler of this request."""
    scope[_INCOMING] = incoming


def of(scope: Scope) -> Incoming:
    found = scope[_INCOMING]
    assert isinstance(found, Incoming)
    return found
