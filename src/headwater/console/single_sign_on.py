"""Signing in by an issuer: /login/oidc sends the browser there, /login/callback takes it back. For `login`.

Between the two nothing is kept here, so that nobody can fill or empty it: state, nonce and verifier travel
in a cookie of their own, signed with a key of this process and good for `PENDING_S`. It is the browser's own:
who is sent to /login/callback with somebody else's code has no such cookie, and is not signed in as him. The
cookie ends with whatever comes of it. Nothing in a request says where the browser goes afterwards: to the
front page. Whoever wants no issuer needs no library for one: it is loaded where there is a section.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headwater.console.guesses import Guesses
from headwater.console.sessions import Visitor
from headwater.errors import HeadwaterError
from headwater.oidc.errors import IssuerUnreachable, TokenRefused
from headwater.oidc.settings import rules_of, text
from headwater.project.roles import ROLES, Grants, Role
from headwater.secrets import Secrets

if TYPE_CHECKING:
    from headwater.oidc.code_flow import Begun

COOKIE = "headwater_sign_in"
BEGIN, CALLBACK = "/login/oidc", "/login/callback"
PENDING_S = 600
AT_ONCE_MAX = 16
WAITING_MAX = 8
"""At one address."""
WAIT_S = 20.0
COOKIE_BYTES_MAX = 2_048
NAME = "oidc:"
"""What the names of those begin with who came by an issuer: the log's users have others."""
_log = logging.getLogger("headwater.console")
Section = Mapping[str, object]


class NotSignedIn(HeadwaterError):
    """The browser came back, and nobody is let in by that; the sentence is for the page."""


class Crowded(Exception):
    """There is no place; in a moment there may be."""


class Turns:
    """Places for questions to the issuer: so many at once, and one for an address where somebody guesses.

    A wrong code gives nobody anything, so nobody is shut out for it; it only costs the issuer an answer.
    Whoever asks from an address that has sent many waits for his turn there, behind a few at most.
    """

    def __init__(self, at_once_max: int = AT_ONCE_MAX) -> None:
        self._most = at_once_max
        self._at_once = 0
        self._one: dict[str, asyncio.Lock] = {}
        self._coming: Counter[str] = Counter()

    @asynccontextmanager
    async def taken(self, address: str, *, is_guessed_at: bool) -> AsyncIterator[None]:
        """A place, while the block lasts. Raises Crowded."""
        if not is_guessed_at:
            with self._place():
                yield
            return
        if self._coming[address] >= WAITING_MAX:
            raise Crowded
        self._coming[address] += 1
        one = self._one.setdefault(address, asyncio.Lock())
        try:
            await self._wait_for(one)
            try:
                with self._place():
                    yield
            finally:
                one.release()
        finally:
            self._coming[address] -= 1
            if not self._coming[address]:
                del self._coming[address], self._one[address]

    async def _wait_for(self, one: asyncio.Lock) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                await one.acquire()
        except TimeoutError:
            raise Crowded from None

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._at_once >= self._most:
            raise Crowded
        self._at_once += 1
        try:
            yield
        finally:
            self._at_once -= 1


class SingleSignOn:
    """Of a checked section [console.oidc]."""

    def __init__(self, section: Section) -> None:
        from headwater.oidc.code_flow import Begun, Client, CodeFlow

        named = section.get("client_secret")
        known = Secrets([named]) if isinstance(named, str) else None
        client = Client(
            text(section, "client_id"),
            text(section, "address").rstrip("/") + CALLBACK,
            text(section, "scope", "openid"),
            lambda: None if known is None else known.now()[0],
        )
        rules = rules_of({**section, "audience": client.id})
        self._begun = Begun
        self._flow = CodeFlow(rules, text(section, "jwks"), client)
        self._grants = Grants(_roles(section, "users"), _roles(section, "groups"))
        self._key = secrets.token_bytes(32)
        self._turns = Turns()
        self._is_secure = client.redirect.startswith("https:")

    async def begin(self, now: float) -> Response:
        """To the issuer. Raises IssuerUnreachable."""
        where, begun = await self._flow.begin()
        answer = RedirectResponse(where, 303)
        # Lax: the way back from the issuer is another site's.
        answer.set_cookie(
            COOKIE,
            self._packed(begun, now),
            PENDING_S,
            path="/login",
            httponly=True,
            samesite="lax",
            secure=self._is_secure,
        )
        return answer

    async def visitor(
        self, request: Request, guesses: Guesses, address: str, now: float
    ) -> Visitor:
        """Who came back. Raises NotSignedIn, IssuerUnreachable."""
        asked = request.query_params
        begun = self._unpacked(request.cookies.get(COOKIE), now)
        if begun is None:
            raise NotSignedIn(LATE)
        if not hmac.compare_digest(asked.get("state", "").encode(), begun.state.encode()):
            raise NotSignedIn(LATE)
        if "error" in asked:
            _log.warning("the issuer signed nobody in: %s", repr(asked["error"])[:100])
            raise NotSignedIn(REFUSED)
        is_guessed_at = guesses.is_closed(now, address, NAME)
        guesses.failed(now, address, NAME)  # counted before it is known, as passwords are
        try:
            async with self._turns.taken(address, is_guessed_at=is_guessed_at):
                found = await self._flow.finish(asked.get("code", ""), begun)
        except Crowded:
            guesses.forgive(address, NAME)
            raise NotSignedIn(CROWD) from None
        except TokenRefused as error:
            _log.warning("a sign-in was refused: %s", error.sentence)
            raise NotSignedIn(REFUSED) from None
        except IssuerUnreachable:
            guesses.forgive(address, NAME)
            raise
        role = self._grants.role_of(found.principal, found.groups)
        if role is None:
            raise NotSignedIn(NO_ROLE)
        guesses.forgive(address, NAME)
        return Visitor(NAME + found.principal, role)

    def _packed(self, begun: Begun, now: float) -> str:
        said = json.dumps({**asdict(begun), "until": int(now) + PENDING_S})
        body = urlsafe_b64encode(said.encode()).decode()
        return f"{body}.{self._signed(body)}"

    def _unpacked(self, cookie: str | None, now: float) -> Begun | None:
        if cookie is None or len(cookie) > COOKIE_BYTES_MAX or not cookie.isascii():
            return None
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature, self._signed(body)):
            return None
        said = json.loads(urlsafe_b64decode(body))
        until = said.pop("until")
        return self._begun(**said) if now < until else None

    def _signed(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()


def forgotten(answer: Response) -> Response:
    """The cookie of a sign-in counts once."""
    answer.delete_cookie(COOKIE, path="/login")
    return answer


def onwards() -> Response:
    """To the front page, as a page of ours: on a redirect from another site a strict cookie is not sent."""
    return HTMLResponse(_ONWARDS)


def _roles(section: Section, name: str) -> dict[str, Role]:
    found = section.get(name)
    words = found.items() if isinstance(found, Mapping) else ()
    return {str(each): ROLES[word] for each, word in words}


LATE = "This sign-in was not begun here, or too long ago: begin again."
REFUSED = "The issuer did not vouch for you: begin again."
CROWD = "Too many sign in at the moment: wait a minute, then begin again."
NO_ROLE = "You are known, and have no role here: ask who runs this console."
_ONWARDS = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/">
<title>headwater</title></head><body><p><a href="/">To the console</a></p></body></html>
"""
