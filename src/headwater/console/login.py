"""Signing in: the form, and what becomes of what was typed; a token, or a user of the broker.

Made by `server`, asked by `guard` for /login. Whichever way somebody comes in, it ends with a `Visitor` (a
name and a role) and `Sessions.begin`. The form is one plain page, without scripts, that works before anything
else does.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from headwater.console.broker_users import BrokerUsers
from headwater.console.sessions import Sessions
from headwater.errors import HeadwaterError

COOKIE = "headwater_console"
FORM_BYTES_MAX = 4096
_log = logging.getLogger("headwater.console")


class Login:
    """The ways in that this console has."""

    def __init__(self, sessions: Sessions, users: BrokerUsers | None = None) -> None:
        self.sessions = sessions
        self._users = users

    async def answer(self, request: Request, now: float) -> Response:
        """To /login: the form, or a cookie and the way to the front page."""
        if request.method in ("GET", "HEAD"):
            return self._form(200)
        if request.method != "POST":
            return PlainTextResponse("Only GET and POST.\n", 405)
        address = request.client.host if request.client else ""
        said = await _said_in(request)
        try:
            cookie = await self._cookie(said, now, address)
        except HeadwaterError as error:
            _log.warning("nobody can sign in: %s", error.sentence)
            return self._form(503, AWAY)
        if cookie is not None:
            return self.welcome(request, cookie)
        wrong = WRONG_USER if said.get("user") else WRONG
        return self._form(403, CLOSED if self.sessions.is_closed(now, address) else wrong)

    def welcome(self, request: Request, cookie: str) -> Response:
        """To the front page, with the cookie of a session."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            COOKIE,
            cookie,
            self.sessions.lifetime_s,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _cookie(self, said: Mapping[str, str], now: float, address: str) -> str | None:
        sessions = self.sessions
        if not said.get("user") or self._users is None:
            return sessions.cookie_for(said.get("token", ""), now, address)
        if sessions.is_closed(now, address):
            return None
        # Counted before it is known: many tries at once must not all get through.
        sessions.failed(now, address)
        try:
            visitor = await self._users.visitor(said["user"], said.get("token", ""))
        except HeadwaterError:
            sessions.forgive(address)  # nobody has looked at it
            raise
        if visitor is None:
            return None
        sessions.forgive(address)  # this try, not those before
        return sessions.begin(visitor, now)

    def _form(self, status: int, complaint: str | None = None) -> Response:
        has_users = self._users is not None
        return HTMLResponse(
            page(complaint, users=has_users, tokens=self.sessions.has_tokens), status
        )


async def _said_in(request: Request) -> dict[str, str]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            return {}
    return {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


WRONG = "That is not the token."
WRONG_USER = "The broker does not know this name with this password, or it has no role here."
CLOSED = "Too many wrong tries: wait a minute, then try again."
AWAY = "The log cannot be asked at the moment: try again, or look whether it runs."

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
input + label { margin-top: .9rem; }
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
<!--fields-->
<button type="submit">Log in</button>
</form>
</main>
</body>
</html>
"""


_TOKEN = """<p>The console asks for its token. Whoever started it has it in HEADWATER_CONSOLE_TOKEN.</p>
<!--said-->
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
"""
_USER = """<p>Sign in as a user of the log.</p>
<!--said-->
<label for="user">User</label>
<input id="user" name="user" autocomplete="username" required autofocus>
<label for="token">Password</label>
<input id="token" name="token" type="password" autocomplete="current-password" required>
"""
_EITHER = """<p>Sign in as a user of the log, or with a token and no name.</p>
<!--said-->
<label for="user">User (none for a token)</label>
<input id="user" name="user" autocomplete="username" autofocus>
<label for="token">Password or token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required>
"""


def page(complaint: str | None = None, *, users: bool = False, tokens: bool = True) -> str:
    """The form for the ways that there are, with what was wrong with the last try."""
    said = f'<p class="wrong" role="alert">{html.escape(complaint)}</p>' if complaint else ""
    fields = _EITHER if users and tokens else _USER if users else _TOKEN
    return _PAGE.replace("<!--fields-->", fields).replace("<!--said-->", said)
