"""The guard: every request and every websocket passes here before NiceGUI sees it.

Wrapped around the application by `app`. In this order:

    host     on the loopback, only names of the loopback
    origin   what says that a page has sent it (`Origin`) must come from our own, also where it only asks:
             the library below would tell the other page that it may read the answer
    health   /healthz, for the supervisor
    login    a cookie, or else the form (`login`)

Who it is goes on with the request (`VISITOR`, `SESSION` and `STANDS` in its scope): pages ask there. The
cookie of a websocket is asked again for each of its messages and every few seconds: it is closed when its
session ends, by time, by logging out, or because its token is another now. Every answer leaves with headers
that keep other pages from framing us and our page from loading anything from elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

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
from headwater.console.sessions import NOBODY, WHO, Session, Visitor

VISITOR = "headwater.visitor"
SESSION = "headwater.session"
"""Its id, or None."""
STANDS = "headwater.session.stands"
"""Asks whether it still does."""
LOOK_S = 2.0
"""Between two looks at whether the session of an open websocket still stands."""
PATH_MAX = 4_096
"""Characters; what lies behind looks through its path again and again, and logs it."""
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
        on_end: Callable[[str], None] = lambda session: None,
        clock: Callable[[], float] = time.time,
        look_s: float = LOOK_S,
    ) -> None:
        self.app = app
        self._login = login
        self._open: dict[str, set[asyncio.Event]] = {}
        """By session: what ends its websockets."""
        self._loopback_only = loopback_only
        self._on_end = on_end
        self._clock = clock
        self._look_s = look_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_headers(send))
        else:
            await self.app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        cookie = Request({**scope, "type": "http"}).cookies.get(COOKIE)
        session = self._session(cookie)
        WHO.set(_visitor(session).name)
        is_in = self._login is None or session is not None
        if self._is_foreign(Headers(scope=scope)) or not is_in:
            await receive()
            await send({"type": "websocket.close", "code": _REFUSED, "reason": "not from here"})
        elif session is None:
            await self.app(scope, receive, send)
        else:
            stands = partial(self._stands, cookie)
            await self._while_it_lasts(session, stands, scope, receive, send)

    async def _while_it_lasts(
        self,
        session: Session,
        stands: Callable[[], bool],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """The application hears that the visitor has gone when his session ends."""
        over = asyncio.Event()
        opened = self._open.setdefault(session.id, set())
        opened.add(over)
        looking = asyncio.create_task(self._look(stands, over))
        try:
            await self.app(scope, _until(over, stands, receive, send), send)
        finally:
            looking.cancel()
            opened.discard(over)
            if not opened:
                self._open.pop(session.id, None)
            if over.is_set():
                self._on_end(session.id)

    async def _look(self, stands: Callable[[], bool], over: asyncio.Event) -> None:
        while stands():
            await asyncio.sleep(self._look_s)
        over.set()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        cookie = request.cookies.get(COOKIE)
        session = self._session(cookie)
        answer: Response | None = None
        if self._is_foreign(request.headers):
            answer = PlainTextResponse(
                "Refused: this request does not come from the console.\n", 403
            )
        elif len(scope["path"]) > PATH_MAX:
            answer = PlainTextResponse("No page has an address of that length.\n", 414)
        elif scope["path"] == "/healthz":
            answer = JSONResponse({"ok": True})
        elif self._login is not None and self._login.is_mine(scope["path"]):
            answer = await self._login.answer(request, self._clock())
        elif scope["path"] == "/logout" and scope["method"] == "POST":
            answer = self._logout(session)
        elif self._login is not None and session is None:
            answer = self._stranger(scope)
        scope[VISITOR] = _visitor(session)
        WHO.set(scope[VISITOR].name)
        scope[SESSION] = None if session is None else session.id
        scope[STANDS] = partial(self._stands, cookie)
        await (answer or self.app)(scope, receive, send)

    def _session(self, cookie: str | None) -> Session | None:
        return None if self._login is None else self._login.sessions.find(cookie, self._clock())

    def _stands(self, cookie: str | None) -> bool:
        """Whether who came with it would be let in now."""
        return self._login is None or self._session(cookie) is not None

    def _is_foreign(self, headers: Headers) -> bool:
        host = headers.get("host", "")
        if self._loopback_only and not is_loopback(host_of(host)):
            return True
        origin = headers.get("origin")
        return origin is not None and not same_origin(origin, host)

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
            self._on_end(session.id)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer


def _visitor(session: Session | None) -> Visitor:
    return NOBODY if session is None else session.visitor


def _until(
    over: asyncio.Event, stands: Callable[[], bool], receive: Receive, send: Send
) -> Receive:
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
            message = came.result()
            if message["type"] == "websocket.disconnect" or stands():
                return message
            over.set()
        await send({"type": "websocket.close", "code": _REFUSED, "reason": "logged out"})
        return {"type": "websocket.disconnect", "code": _REFUSED}

    return receiving


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            # After a log-out neither a cache nor the browser's way back shows a page.
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending
