"""Signing in by an issuer: the authorization code flow with PKCE (OpenID Connect Core 3.1, RFC 7636).

`console` calls it, on the event loop. `begin` gives an address for the browser and what must be remembered
meanwhile; `finish` makes an identity of the code that the browser brings back. What the issuer's answer must
say is checked: signature, issuer, audience (the client itself), expiry, the nonce of this very sign-in, and
azp where there is one.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from urllib.parse import quote, urlencode

from headwater.oidc import web
from headwater.oidc.claims import Identity, Rules
from headwater.oidc.errors import BadIssuer, IssuerUnreachable, TokenRefused
from headwater.oidc.keys import Keys
from headwater.oidc.validator import Validator

KNOWN_S, RETRY_S = 3_600.0, 10.0
CODE_CHARACTERS_MAX = 4_096
_ENDPOINTS = ("authorization", "token")


@dataclass(frozen=True)
class Client:
    """As whom the issuer knows us."""

    id: str
    redirect: str
    scope: str
    secret: Callable[[], str | None]
    """As it is now: a file may hold another. None: PKCE alone must do."""

    def __repr__(self) -> str:
        return f"<Client {self.id!r}>"


@dataclass(frozen=True)
class Begun:
    """What must be remembered until the browser is back."""

    state: str
    nonce: str
    verifier: str


class CodeFlow:
    """Of one issuer and one client."""

    def __init__(
        self, rules: Rules, jwks: str, client: Client, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises BadIssuer."""
        web.check(rules.issuer, "the issuer")
        self._issuer = rules.issuer
        self._client = client
        self._validator = Validator(rules, Keys(rules.issuer, jwks))
        self._clock = clock
        self._known: tuple[float, str, str] | None = None
        """Until when; the authorization and the token endpoint."""
        self._failed = (-inf, "")
        """Until when the issuer is left alone, and why: strangers must not make us ask and wait."""
        self._asking = asyncio.Lock()

    async def begin(self) -> tuple[str, Begun]:
        """Where to send the browser. Raises IssuerUnreachable."""
        at, _ = await self._endpoints()
        begun = Begun(*(secrets.token_urlsafe(32) for _ in range(3)))
        digest = hashlib.sha256(begun.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": self._client.redirect,
            "scope": self._client.scope,
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{at}{'&' if '?' in at else '?'}{urlencode(asked)}", begun

    async def finish(self, code: str, begun: Begun) -> Identity:
        """Raises TokenRefused, IssuerUnreachable."""
        if not code or len(code) > CODE_CHARACTERS_MAX:
            raise TokenRefused("the browser came back without a code")
        _, at = await self._endpoints()
        token = await asyncio.to_thread(self._exchanged, at, code, begun)
        found = await self._validator.identity(token)
        nonce = found.claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode(), begun.nonce.encode()
        ):
            raise TokenRefused("the token is of another sign-in: its nonce is not ours")
        if found.claims.get("azp", self._client.id) != self._client.id:
            raise TokenRefused("the token was given to another client")
        return found

    def _exchanged(self, at: str, code: str, begun: Begun) -> str:
        """In a thread: the token that tells who it is."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._client.redirect,
            "code_verifier": begun.verifier,
        }
        secret, headers = self._client.secret(), {}
        if secret is None:
            form["client_id"] = self._client.id
        else:
            login = f"{quote(self._client.id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        answer = web.fetch(at, form, headers)
        if answer.status in (400, 401, 403):
            why = str(web.parsed(answer.body, at).get("error"))[:100]
            raise TokenRefused(f"{web.shown(at)} gives no token for the code: {why}")
        if answer.status != 200:
            raise IssuerUnreachable(f"{web.shown(at)} answered {answer.status}")
        token = web.parsed(answer.body, at).get("id_token")
        if not isinstance(token, str):
            raise IssuerUnreachable(f"{web.shown(at)} sent no id_token")
        return token

    async def _endpoints(self) -> tuple[str, str]:
        async with self._asking:
            known = self._known
            if known is None or self._clock() >= known[0]:
                known = self._known = await self._asked()
        return known[1], known[2]

    async def _asked(self) -> tuple[float, str, str]:
        until, why = self._failed
        if self._clock() < until:
            raise IssuerUnreachable(why)
        try:
            found = await asyncio.to_thread(web.discovered, self._issuer)
            authorization, token = (_endpoint(found, f"{each}_endpoint") for each in _ENDPOINTS)
        except (IssuerUnreachable, BadIssuer) as error:
            self._failed = self._clock() + RETRY_S, error.sentence
            raise IssuerUnreachable(error.sentence, hint=error.hint) from None
        return self._clock() + KNOWN_S, authorization, token


def _endpoint(found: dict[str, object], name: str) -> str:
    where = found.get(name)
    if not isinstance(where, str):
        raise IssuerUnreachable(f"the issuer does not say where its {name} is")
    return web.check(where, f"the issuer's {name}")
