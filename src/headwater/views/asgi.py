"""Read your own writes over HTTP: ASGI middleware that waits for the position a request names.

    app = ReadYourWrites(app, headwater.views.View("order_search", to="sqlite:shop.db"))

A request with `Headwater-Position: orders:0=17` (or `?position=…`) reaches the application once the view
has it; after `timeout` seconds it is answered with 503 and how far the view is, a position that is none
with 400. Every answer says in the same header how far the view was when it came in.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import cast
from urllib.parse import parse_qsl

from headwater.client.position import NotAPosition, Position
from headwater.errors import HeadwaterError
from headwater.views.operate.wait import HEADER, NotYet, Unrelated, View, asked_position
from headwater.views.targets.contract import Unavailable

Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class ReadYourWrites:
    """Wraps an application whose answers come from one view."""

    def __init__(self, app: App, view: View, timeout: float = 5.0) -> None:
        self._app, self._view, self._timeout = app, view, timeout

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in _headers(scope)}
        query = cast(bytes, scope.get("query_string", b""))
        parameters = dict(parse_qsl(query.decode("latin-1")))
        try:
            reached = await self._reached(asked_position(headers, parameters))
        except (NotAPosition, Unrelated) as error:
            await _answer(send, 400, error, None)
        except NotYet as error:
            await _answer(send, 503, error, error.reached)
        except Unavailable as error:
            await _answer(send, 503, error, None)
        else:
            await self._app(scope, receive, _with_position(send, reached))

    async def _reached(self, wanted: Position | None) -> Position | None:
        if wanted is None:
            return await asyncio.to_thread(self._view.position)
        return await asyncio.to_thread(self._view.wait, wanted, self._timeout)


def _with_position(send: Send, reached: Position | None) -> Send:
    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start" and reached is not None:
            message["headers"] = [*_headers(message), _header(reached)]
        await send(message)

    return forward


async def _answer(send: Send, status: int, error: HeadwaterError, reached: Position | None) -> None:
    body = json.dumps({"error": str(error), "position": str(reached or "")}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    if reached is not None:
        headers.append(_header(reached))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(message: Message) -> Iterable[tuple[bytes, bytes]]:
    return cast("Iterable[tuple[bytes, bytes]]", message.get("headers", ()))


def _header(reached: Position) -> tuple[bytes, bytes]:
    return HEADER.lower().encode(), str(reached).encode()
