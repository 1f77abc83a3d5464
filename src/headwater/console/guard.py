"""The door: every request and every websocket passes here before NiceGUI sees it.

Wrapped around the application by `app`. In this order:

    host     on the loopback, only names of the loopback
    origin   a websocket or a request that may change something must come from our own page
    health   /healthz, for the supervisor
    login    with a token: a cookie, or else the login form

Every answer leaves with headers that keep other pages from framing us and our page from loading anything
from elsewhere. The login form is one plain page, without scripts, that works before anything else does.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.console.addresses import host_of, is_loopback, same_origin
from headwater.console.sessions import SESSION_S, Sessions

COOKIE = "headwater_console"
FORM_BYTES_MAX = 4096
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
        sessions: Sessions | None,
        loopback_only: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.app = app
        self._sessions = sessions
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
        headers = Headers(scope=scope)
        if self._is_foreign(headers, changes=True) or not self._is_in(
            Request({**scope, "type": "http"})
        ):
            await receive()
            await send({"type": "websocket.close", "code": _REFUSED, "reason": "not from here"})
            return
        await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer: Response | None = None
        if self._is_foreign(request.headers, changes=scope["method"] not in _SAFE):
            answer = PlainTextResponse(
                "Refused: this request does not come from the console.\n", 403
            )
        elif scope["path"] == "/healthz":
            answer = JSONResponse({"ok": True})
        elif scope["path"] == "/login" and self._sessions is not None:
            answer = await self._login(request, self._sessions)
        elif scope["path"] == "/logout" and scope["method"] == "POST":
            answer = RedirectResponse("/login", 303)
            answer.delete_cookie(COOKIE)
        elif not self._is_in(request):
            answer = self._stranger(scope)
        await (answer or self.app)(scope, receive, send)

    def _is_foreign(self, headers: Headers, *, changes: bool) -> bool:
        host = headers.get("host", "")
        if self._loopback_only and not is_loopback(host_of(host)):
            return True
        origin = headers.get("origin")
        return changes and origin is not None and not same_origin(origin, host)

    def _is_in(self, request: Request) -> bool:
        if self._sessions is None:
            return True
        return self._sessions.holds(request.cookies.get(COOKIE), self._clock())

    def _stranger(self, scope: Scope) -> Response:
        wants_page = "text/html" in Headers(scope=scope).get("accept", "")
        if wants_page and scope["method"] in ("GET", "HEAD"):
            return RedirectResponse("/login", 303)
        return PlainTextResponse("Not logged in: open the console in a browser.\n", 401)

    async def _login(self, request: Request, sessions: Sessions) -> Response:
        if request.method in ("GET", "HEAD"):
            return HTMLResponse(page())
        if request.method != "POST":
            return PlainTextResponse("Only GET and POST.\n", 405)
        now = self._clock()
        address = request.client.host if request.client else ""
        cookie = sessions.cookie_for(await _token_in(request), now, address)
        if cookie is None:
            closed = sessions.is_closed(now, address)
            return HTMLResponse(page(CLOSED if closed else WRONG), 403)
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            COOKIE, cookie, SESSION_S, httponly=True, samesite="strict", secure=secure
        )
        return answer


async def _token_in(request: Request) -> str:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            return ""
    return parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
        await send(message)

    return sending


WRONG = "That is not the token."
CLOSED = "Too many wrong tokens: wait a minute, then try again."

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · headwater</title>
<style>
:root { color-scheme: light dark; --back: #f4f7f9; --card: #fff; --line: #d5dee5; --text: #10222f;
  --soft: #52687a; --brand: #0b6e8a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --back: #0d161d; --card: #15212b; --line: #2b3b48;
  --text: #e6eef4; --soft: #9db0bf; --brand: #2aa3c4; --bad: #ff8a80; } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
form { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 2rem;
  width: min(22rem, 84vw); }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; }
p { margin: 0 0 1.25rem; color: var(--soft); }
label { display: block; font-weight: 600; margin-bottom: .35rem; }
input { box-sizing: border-box; width: 100%; padding: .6rem .7rem; font: inherit; color: inherit;
  background: transparent; border: 1px solid var(--line); border-radius: 8px; }
button { margin-top: 1rem; width: 100%; padding: .6rem; font: inherit; font-weight: 600; border: 0;
  border-radius: 8px; background: var(--brand); color: #fff; cursor: pointer; }
:focus-visible { outline: 3px solid var(--brand); outline-offset: 2px; }
.wrong { color: var(--bad); font-weight: 600; }
</style>
</head>
<body>
<main>
<form method="post" action="/login">
<h1>headwater</h1>
<p>The console asks for its token. Whoever started it has it in HEADWATER_CONSOLE_TOKEN.</p>
<!--said-->
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Log in</button>
</form>
</main>
</body>
</html>
"""


def page(complaint: str | None = None) -> str:
    """The form, with what was wrong with the last try."""
    said = f'<p class="wrong" role="alert">{html.escape(complaint)}</p>' if complaint else ""
    return _PAGE.replace("<!--said-->", said)
