"""A session over HTTP: an answer of Server-Sent Events, or a WebSocket. Called by the routes.

The server's own flow control is what makes a slow client slow here: `send` waits, its box fills, it is
dropped. A client that goes away is noticed by the task that listens to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from headwater.edges.caller import STANDS
from headwater.edges.feeds.session import Session
from headwater.edges.feeds.wires import SSE, WS
from headwater.edges.guard import left_s
from headwater.errors import HeadwaterError

DROPPED, REFUSED = 1013, 1008
"""WebSocket close codes: try again later; not as you ask."""
LOOK_S = 5.0
"""Between two looks at whether what opened a feed still counts."""
ANOTHER = "the token is another now: come again with the new one"
EXPIRED = "the token has expired: come again with a new one"
REASON_BYTES = 120
"""A close frame takes 123."""
HEAD = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # nginx would keep events until it has a page of them
)

Opened = AbstractAsyncContextManager[Session]


class EventStream(Response):
    """Of a session that has begun; `opened` is left when the answer ends, however it ends."""

    media_type = "text/event-stream"

    def __init__(self, opened: Opened, session: Session) -> None:
        super().__init__()
        self._opened, self._session = opened, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        listening = asyncio.create_task(_listen(receive, self._session))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(HEAD)})
            await _send(send, SSE.greeting())
            with _while_good(scope, self._session):
                async with aclosing(self._session.chunks()) as chunks:
                    async for chunk in chunks:
                        assert isinstance(chunk, bytes)
                        await _send(send, chunk)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            listening.cancel()
            await self._opened.__aexit__(None, None, None)


@contextmanager
def _while_good(scope: Scope, session: Session) -> Iterator[None]:
    """No feed goes on for longer than what its client has shown is good."""
    left, loop = left_s(scope), asyncio.get_running_loop()
    ending = None if left is None else loop.call_later(left, session.box.drop, EXPIRED)
    stands = scope.get(STANDS)
    looking = None if stands is None else asyncio.create_task(_look(stands, session))
    try:
        yield
    finally:
        for each in (ending, looking):
            if each is not None:
                each.cancel()


async def _look(stands: Callable[[], bool], session: Session) -> None:
    while stands():
        await asyncio.sleep(LOOK_S)
    session.box.drop(ANOTHER)


async def _send(send: Send, chunk: bytes) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _listen(receive: Receive, session: Session) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    session.box.close()


async def event_stream(opened: Opened) -> EventStream:
    """Raises what is wrong with the request; then it can still be answered with a problem."""
    return EventStream(opened, await opened.__aenter__())


async def web_socket(socket: WebSocket, opening: Callable[[], Opened]) -> None:
    """A client that is connected gets whatever is written from then on: the feed is joined before it is told.

    What is wrong is said in an event and in the reason of the close: browsers show no HTTP status here.
    """
    try:
        async with opening() as session:
            if await _accepted(socket):
                await _talk(socket, session)
    except HeadwaterError as error:
        said = f"{error.sentence} ({error.hint})" if error.hint else str(error)
        if await _accepted(socket):
            await _end(socket, "refused", said, REFUSED)


async def _accepted(socket: WebSocket) -> bool:
    """False: it has gone meanwhile."""
    if socket.application_state is WebSocketState.CONNECTING:
        try:
            await socket.accept()
        except (WebSocketDisconnect, RuntimeError):
            return False
    return True


async def _talk(socket: WebSocket, session: Session) -> None:
    hearing = asyncio.create_task(_hear(socket, session))
    try:
        with _while_good(socket.scope, session):
            async with aclosing(session.chunks()) as chunks:
                async for chunk in chunks:
                    assert isinstance(chunk, tuple)
                    for text in chunk:
                        await socket.send_text(text)
        if session.box.dropped is not None:
            await _close(socket, session.box.dropped, DROPPED)
    except (WebSocketDisconnect, RuntimeError):
        pass  # it went away in the middle; starlette says it in either way
    finally:
        hearing.cancel()


async def _hear(socket: WebSocket, session: Session) -> None:
    """What a client says means nothing here, but that it is there."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
    session.box.close()


async def _end(socket: WebSocket, event: str, reason: str, code: int) -> None:
    try:
        (text,), _ = WS.event(event, {"reason": reason})
        await socket.send_text(str(text))
    except (WebSocketDisconnect, RuntimeError):
        return
    await _close(socket, reason, code)


async def _close(socket: WebSocket, reason: str, code: int) -> None:
    short = reason.encode()[:REASON_BYTES].decode("utf-8", "ignore")
    try:
        await socket.close(code, short)
    except (WebSocketDisconnect, RuntimeError):
        pass
