"""Signing in: the form, and what becomes of what was typed; a token, a user of the broker, or an issuer.

Made by `server`, asked by `guard` for /login. Whichever way somebody comes in, it ends with a `Visitor` (a
name and a role) and `Sessions.begin`. The form is one plain page, without scripts, that works before anything
else does.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from headwater.console.broker_users import BrokerUsers
from headwater.console.guesses import Network, client_of, is_in
from headwater.console.sessions import TOKEN, Sessions
from headwater.console.single_sign_on import (
    BEGIN,
    CALLBACK,
    NotSignedIn,
    SingleSignOn,
    forgotten,
    onwards,
)
from headwater.errors import HeadwaterError

COOKIE = "headwater_console"
FORM_BYTES_MAX = 4096
_log = logging.getLogger("headwater.console")


class Login:
    """The ways in that this console has."""

    def __init__(
        self,
        sessions: Sessions,
        users: BrokerUsers | None = None,
        issuer: SingleSignOn | None = None,
        proxies: Sequence[Network] = (),
    ) -> None:
        self.sessions = sessions
        self._proxies = tuple(proxies)
        self._users = users
        self._issuer = issuer

    def is_mine(self, path: str) -> bool:
        """Whether it is asked for by those who are not in yet."""
        return path == "/login" or (self._issuer is not None and path in (BEGIN, CALLBACK))

    async def answer(self, request: Request, now: float) -> Response:
        """To /login: the form, or a cookie and the way to the front page."""
        if self._issuer is not None and request.url.path != "/login":
            return await self._by_issuer(self._issuer, request, now)
        if request.method in ("GET", "HEAD"):
            return self._form(200)
        if request.method != "POST":
            return PlainTextResponse("Only GET and POST.\n", 405)
        address = self._address(request)
        said = await _said_in(request)
        try:
            cookie = await self._cookie(said, now, address)
        except HeadwaterError as error:
            _log.warning("nobody can sign in: %s", error.sentence)
            return self._form(503, AWAY)
        if cookie is not None:
            return self.welcome(request, cookie)
        wrong = WRONG_USER if said.get("user") else WRONG
        who = said.get("user") if self._users is not None else None
        is_closed = self.sessions.guesses.is_closed(now, address, _name(who))
        return self._form(403, CLOSED if is_closed else wrong)

    def _address(self, request: Request) -> str:
        peer = request.client.host if request.client else ""
        forwarded = ",".join(request.headers.getlist("x-forwarded-for"))
        return client_of(peer, forwarded, self._proxies) if forwarded else peer

    def _is_secure(self, request: Request) -> bool:
        """Whether the browser came by TLS: to us, or by the word of a proxy of ours to that."""
        peer = request.client.host if request.client else ""
        said = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
        return request.url.scheme == "https" or (said == "https" and is_in(peer, self._proxies))

    async def _by_issuer(self, issuer: SingleSignOn, request: Request, now: float) -> Response:
        if request.method != "GET":
            return PlainTextResponse("Only GET.\n", 405)
        try:
            if request.url.path == BEGIN:
                return await issuer.begin(now)
            address = self._address(request)
            visitor = await issuer.visitor(request, self.sessions.guesses, address, now)
        except NotSignedIn as error:
            return forgotten(self._form(403, error.sentence))
        except HeadwaterError as error:
            _log.warning("nobody can sign in: %s", error.sentence)
            return self._form(503, ISSUER_AWAY)
        cookie = self.sessions.begin(visitor, now)
        return forgotten(self.welcome(request, cookie, onwards()))

    def welcome(self, request: Request, cookie: str, by: Response | None = None) -> Response:
        """To the front page, with the cookie of a session."""
        answer = RedirectResponse("/", 303) if by is None else by
        answer.set_cookie(
            COOKIE,
            cookie,
            self.sessions.lifetime_s,
            httponly=True,
            samesite="strict",
            secure=self._is_secure(request),
        )
        return answer

    async def _cookie(self, said: Mapping[str, str], now: float, address: str) -> str | None:
        sessions = self.sessions
        if not said.get("user") or self._users is None:
            return sessions.cookie_for(said.get("token", ""), now, address)
        who = _name(said["user"])
        if sessions.guesses.is_closed(now, address, who):
            return None
        # Counted before it is known: many tries at once must not all get through.
        sessions.guesses.failed(now, address, who)
        try:
            visitor = await self._users.visitor(said["user"], said.get("token", ""))
        except HeadwaterError:
            sessions.guesses.forgive(address, who)  # nobody has looked at it
            raise
        if visitor is None:
            return None
        sessions.guesses.forgive(address, who)  # this try, not those before
        return sessions.begin(visitor, now)

    def _form(self, status: int, complaint: str | None = None) -> Response:
        has_users = self._users is not None
        has_tokens, has_issuer = self.sessions.has_tokens, self._issuer is not None
        return HTMLResponse(
            page(complaint, users=has_users, tokens=has_tokens, issuer=has_issuer), status
        )


def _name(user: str | None) -> str:
    """Under which a try is counted."""
    return f"User:{user}" if user else TOKEN


async def _said_in(request: Request) -> dict[str, str]:
    body = b""
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > FORM_BYTES_MAX:
                return {}
    except ClientDisconnect:
        return {}
    return {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


WRONG = "That is not the token."
WRONG_USER = "The broker does not know this name with this password, or it has no role here."
CLOSED = "Too many wrong tries: wait a minute, then try again."
ISSUER_AWAY = "The issuer cannot be asked at the moment: try again in a while."
AWAY = "The log cannot be asked at the moment: try again, or look whether it runs."

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · headwater</title>
<style>
:root { color-scheme: light dark; --back: #f4f7f9; --card: #fff; --line: #d5dee5; --text: #10222f;
  --soft: #52687a; --brand: #0b6e8a; --on: #fff; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --back: #0d161d; --card: #15212b; --line: #2b3b48;
  --text: #e6eef4; --soft: #9db0bf; --brand: #2aa3c4; --on: #06222b; --bad: #ff8a80; } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
form { box-sizing: border-box; background: var(--card); border: 1px solid var(--line);
  border-radius: 14px; padding: 2rem; width: min(26rem, 92vw); }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; }
p { margin: 0 0 1.25rem; color: var(--soft); }
label { display: block; font-weight: 600; margin-bottom: .35rem; }
input + label { margin-top: .9rem; }
input { box-sizing: border-box; width: 100%; padding: .6rem .7rem; font: inherit; color: inherit;
  background: transparent; border: 1px solid var(--line); border-radius: 8px; }
button { margin-top: 1rem; width: 100%; padding: .6rem; font: inherit; font-weight: 600; border: 0;
  border-radius: 8px; background: var(--brand); color: var(--on); cursor: pointer; }
:focus-visible { outline: 3px solid var(--brand); outline-offset: 2px; }
a.button { display: block; box-sizing: border-box; text-align: center; text-decoration: none;
  width: 100%; padding: .6rem; font-weight: 600; border-radius: 8px; background: var(--brand);
  color: var(--on); }
.or { display: flex; align-items: center; gap: .75rem; margin: 1.25rem 0; color: var(--soft); }
.or::before, .or::after { content: ""; flex: 1; border-top: 1px solid var(--line); }
.wrong { color: var(--bad); font-weight: 600; }
</style>
</head>
<body>
<main>
<form method="post" action="/login">
<h1>headwater</h1>
<!--fields-->
</form>
</main>
</body>
</html>
"""


_TOKEN = """<p>The console asks for a token: whoever runs it has one for you.</p>
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


_SUBMIT = """<button type="submit">Log in</button>
"""
_ISSUER = """<p>Sign in with the account of your organisation.</p>
<!--said-->
<a class="button" href="/login/oidc">Sign in</a>
"""
_OR = """<div class="or">or</div>
"""


def page(
    complaint: str | None = None, *, users: bool = False, tokens: bool = True, issuer: bool = False
) -> str:
    """The form for the ways that there are, with what was wrong with the last try."""
    said = f'<p class="wrong" role="alert">{html.escape(complaint)}</p>' if complaint else ""
    typed = _EITHER if users and tokens else _USER if users else _TOKEN if tokens else ""
    fields = typed + _SUBMIT if typed else ""
    if issuer:
        other = _OR + fields.replace("<!--said-->", "").replace(" autofocus", "") if fields else ""
        fields = _ISSUER + other
    return _PAGE.replace("<!--fields-->", fields).replace("<!--said-->", said)
