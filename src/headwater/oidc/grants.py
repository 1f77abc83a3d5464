"""Tokens for a process of ours: the client credentials grant (RFC 6749, 4.4), kept, renewed in time. Blocks.

`client.security` asks whenever it logs in; the issuer is asked when 80 % of the last one's time is over.
"""

from __future__ import annotations

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
"""Of a token of which the issuer does not say it."""


class Grant(NamedTuple):
    """Where and as whom to ask."""

    url: str
    client_id: str
    secret: str
    scope: str = ""

    def __repr__(self) -> str:
        return f"<Grant of {self.client_id!r} by {web.shown(self.url)}>"  # never the secret


class Tokens:
    """Of one grant, for all threads."""

    def __init__(self, grant: Grant, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises BadIssuer."""
        web.check(grant.url, "sasl.oauthbearer.token.endpoint.url")
        self._grant = grant
        self._clock = clock
        self._turn = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def now(self) -> str:
        """Raises IssuerUnreachable; TokenRefused where the issuer does not know the client."""
        with self._turn:
            if not self._token or self._clock() >= self._renew_at:
                asked_at = self._clock()
                self._token, lifetime_s = _asked(self._grant)
                self._renew_at = asked_at + lifetime_s * RENEW_AT
            return self._token


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
    token, lifetime_s = found.get("access_token"), found.get("expires_in", LIFETIME_S)
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise IssuerUnreachable(f"{web.shown(grant.url)} sent no access_token")
    return token, float(lifetime_s) if isinstance(lifetime_s, int | float) else LIFETIME_S
