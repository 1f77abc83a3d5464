"""Tokens for a process of ours: the client credentials grant (RFC 6749, 4.4), kept, renewed in time. Blocks.

`client.security` asks whenever it logs in; the issuer is asked when 80 % of the last one's time is over.
While it gives no new one the old one serves until its end; it is asked again soon, then ever later.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from headwater.oidc import web
from headwater.oidc.errors import IssuerUnreachable, TokenRefused

RENEW_AT = 0.8
LIFETIME_S = 60.0
"""Of a token of which the issuer says nothing that makes sense."""
LIFETIME_S_MAX = 86_400.0
RETRY_S, RETRY_S_MAX = 1.0, 10.0
_log = logging.getLogger("headwater.oidc")


class Grant(NamedTuple):
    """Where and as whom to ask."""

    url: str
    client_id: str
    secret: str
    scope: str = ""

    def __repr__(self) -> str:
        return f"<Grant of {self.client_id!r} by {web.shown(self.url)}>"  # never the secret


class _Held(NamedTuple):
    token: str = ""
    renew_at: float = -math.inf
    ends_at: float = -math.inf


class Tokens:
    """Of one grant, for all threads."""

    def __init__(self, grant: Grant, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises BadIssuer."""
        web.check(grant.url, "sasl.oauthbearer.token.endpoint.url")
        self._grant = grant
        self._clock = clock
        self._turn = threading.Lock()
        self._held = _Held()
        self._failures = 0
        self._failed = (-math.inf, "")
        """Until when the issuer is left alone while there is no token, and why."""

    def now(self) -> str:
        """Raises IssuerUnreachable; TokenRefused where the issuer does not know the client."""
        held, now = self._held, self._clock()
        if now < held.renew_at:
            return held.token
        if not self._turn.acquire(blocking=now >= held.ends_at):
            return held.token  # somebody is asking for the next one
        try:
            return self._renewed()
        finally:
            self._turn.release()

    def _renewed(self) -> str:
        held, asked_at = self._held, self._clock()
        if asked_at < held.renew_at:
            return held.token  # somebody has, meanwhile
        until, why = self._failed
        if asked_at < until:
            raise IssuerUnreachable(why)
        try:
            token, lifetime_s = _asked(self._grant)
        except (IssuerUnreachable, TokenRefused) as error:
            if not self._may_keep(error):
                raise
            return held.token
        self._failures = 0
        self._held = _Held(token, asked_at + lifetime_s * RENEW_AT, asked_at + lifetime_s)
        return token

    def _may_keep(self, error: IssuerUnreachable | TokenRefused) -> bool:
        """Whether the old one is still good; says when the issuer is asked again."""
        held, now = self._held, self._clock()
        again_at = now + min(RETRY_S * 2**self._failures, RETRY_S_MAX)
        self._failures = min(self._failures + 1, 10)
        if now >= held.ends_at:
            if isinstance(error, IssuerUnreachable):
                self._failed = (again_at, error.sentence)
            return False
        _log.warning("the last token serves for %.0f s more: %s", held.ends_at - now, error)
        self._held = held._replace(renew_at=min(again_at, held.ends_at))
        return True


@lru_cache(maxsize=64)
def tokens(grant: Grant) -> Tokens:
    """One for all connections that log in alike."""
    return Tokens(grant)


def _asked(grant: Grant) -> tuple[str, float]:
    form = {"grant_type": "client_credentials"}
    if grant.scope:
        form["scope"] = grant.scope
    login = f"{quote(grant.client_id, safe='')}:{quote(grant.secret, safe='')}"
    shown = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
    answer = web.fetch(grant.url, form, shown)
    if answer.status in (400, 401, 403):
        why = web.parsed(answer.body, grant.url).get("error")
        raise TokenRefused(
            f"{web.shown(grant.url)} gives {grant.client_id!r} no token: {str(why)[:100]}",
            hint="check sasl.oauthbearer.client.id, .client.secret and .scope",
        )
    if answer.status != 200:
        raise IssuerUnreachable(f"{web.shown(grant.url)} answered {answer.status}")
    found = web.parsed(answer.body, grant.url)
    token = found.get("access_token")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise IssuerUnreachable(f"{web.shown(grant.url)} sent no access_token")
    return token, lifetime(found.get("expires_in"))


def lifetime(said: object) -> float:
    """In seconds, whatever an issuer says: not NaN, not below 0, not without an end; some say a text."""
    try:
        found = float(said) if isinstance(said, int | float | str) else LIFETIME_S
    except (ValueError, OverflowError):
        found = LIFETIME_S
    return min(found, LIFETIME_S_MAX) if found > 0 else LIFETIME_S
