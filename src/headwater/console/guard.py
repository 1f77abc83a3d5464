"""The door: every request and every websocket passes here before NiceGUI sees it.

Wrapped around the application by `app`. In this order:

    host     on the loopback, only names of the loopback
    origin   a websocket or a request that may change something must come from our own page
    health   /healthz, for the supervisor
    login    a cookie, or else the form (`login`)

Who it is goes on with the request (`VISITOR` in its scope): pages ask there. A websocket is closed when its
session ends, by time or by logging out. Every answer leaves with headers that keep other pages from framing
us and our page from loading anything from elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.console.addresses import host_of, is_loopback, same_origin
from headwater.console.login import COOKIE, Login
from headwater.console.sessions import NOBODY, Session

VISITOR = "headwater.visitor"
_SAFE = ("GET", "HEAD", "OPTIONS")
_REFUSED = 4403  # of a websocket: the range for applications
_HEADERS = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    # NiceGUI's page has scripts inside it, and Vue compiles templates; nothing comes from elsewhere.
    "content-security-policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        "connect-src 'self'; worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'self'; "
        "form-action 'self'"
    ),
}


class Guard:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        login: Login | None,
        loopback_only: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.app = app
        self._login = login
        self._open: dict[str, set[asyncio.Event]] = {}
        """By session: what ends its websockets."""
        self._loopback_only = loopback_only
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_headers(send))
        else:
            await self.app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._session(Request({**scope, "type": "http"}))
        is_in = self._login is None or session is not None
        if self._is_foreign(Headers(scope=scope), changes=True) or not is_in:
            await receive()
            await send({"type": "websocket.close", "code": _REFUSED, "reason": "not from here"})
        elif session is None:
            await self.app(scope, receive, send)
        else:
            await self._while_it_lasts(session, scope, receive, send)

    async def _while_it_lasts(
        self, session: Session, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """The application hears that the visitor has gone when his session ends."""
        over = asyncio.Event()
        opened = self._open.setdefault(session.id, set())
        opened.add(over)
        timer = asyncio.get_running_loop().call_later(
            max(0.0, session.until - self._clock()), over.set
        )
        try:
            await self.app(scope, _until(over, receive, send), send)
        finally:
            timer.cancel()
            opened.discard(over)
            if not opened:
                self._open.pop(session.id, None)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        session = self._session(request)
        answer: Response | None = None
        if self._is_foreign(request.headers, changes=scope["method"] not in _SAFE):
            answer = PlainTextResponse(
                "Refused: this request does not come from the console.\n", 403
            )
        elif scope["path"] == "/healthz":
            answer = JSONResponse({"ok": True})
        elif scope["path"] == "/login" and self._login is not None:
            answer = await self._login.answer(request, self._clock())
        elif scope["path"] == "/logout" and scope["method"] == "POST":
            answer = self._logout(session)
        elif self._login is not None and session is None:
            answer = self._stranger(scope)
        scope[VISITOR] = NOBODY if session is None else session.visitor
        await (answer or self.app)(scope, receive, send)

    def _session(self, request: Request) -> Session | None:
        if self._login is None:
            return None
        return self._login.sessions.find(request.cookies.get(COOKIE), self._clock())

    def _is_foreign(self, headers: Headers, *, changes: bool) -> bool:
        host = headers.get("host", "")
        if self._loopback_only and not is_loopback(host_of(host)):
            return True
        origin = headers.get("origin")
        return changes and origin is not None and not same_origin(origin, host)

    def _stranger(self, scope: Scope) -> Response:
        wants_page = "text/html" in Headers(scope=scope).get("accept", "")
        if wants_page and scope["method"] in ("GET", "HEAD"):
            return RedirectResponse("/login", 303)
        return PlainTextResponse("Not logged in: open the console in a browser.\n", 401)

    def _logout(self, session: Session | None) -> Response:
        if session is not None and self._login is not None:
            self._login.sessions.end(session, self._clock())
            for each in self._open.get(session.id, ()):
                each.set()
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer


def _until(over: asyncio.Event, receive: Receive, send: Send) -> Receive:
    """What comes from the visitor, and after his session's end that he has gone."""

    async def receiving() -> Message:
        came = asyncio.ensure_future(receive())
        ended = asyncio.ensure_future(over.wait())
        try:
            await asyncio.wait({came, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            if not came.done():
                came.cancel()
        if came.done() and not came.cancelled() and not over.is_set():
            return came.result()
        await send({"type": "websocket.close", "code": _REFUSED, "reason": "logged out"})
        return {"type": "websocket.disconnect", "code": _REFUSED}

    return receiving


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
        await send(message)

    return sending
