"""Tokens of an OpenID Connect issuer at the edges: from a JWT to what its bearer may do. Called by `guard`.

    [edges.oidc]
    issuer = "https://login.example/realms/shop"    # as it calls itself
    audience = "headwater"                          # or a list: what its tokens for here have in aud
    groups_claim = "groups"                         # or realm_access.roles
    principal_claim = "sub"
    jwks = "https://…/keys"                         # default: where the issuer's discovery document says
    skew_seconds = 30

    [edges.oidc.groups.ops]                         # whoever is in it; several add up
    read = ["*"]                                    # as in [edges.tokens.NAME]
    [edges.oidc.principals.billing]                 # a program without groups
    write = ["invoices"]

Signature, issuer, audience and times are judged by `headwater.oidc`. A token that was good is remembered
for `REMEMBERED_S`, and never beyond its end, so that its signature is not checked with every request; a bad
one is not remembered, as strangers invent any number of them. Why one was refused stands in the log, its
bearer hears only that it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headwater.edges.allowance import Rates
from headwater.edges.errors import BadToken, IssuerAway
from headwater.edges.hooks.config import unknown_settings
from headwater.edges.tokens import PRINCIPAL, WAYS, Section, Token, scopes_complaints, scopes_of
from headwater.errors import missing_package
from headwater.oidc.claims import Identity
from headwater.oidc.errors import IssuerUnreachable, TokenRefused
from headwater.oidc.settings import SETTINGS, complaints, rules_of

REMEMBERED_S = 60.0
REMEMBERED_MAX = 10_000
TOLD_PER_SECOND = 1.0
"""Refusals that are told in the log; strangers must not fill it."""
_NAMED = ("groups", "principals")
_log = logging.getLogger("headwater.edges")


class _Known(NamedTuple):
    token: Token
    until: float


class Bearers:
    """Of one issuer."""

    def __init__(self, section: Section, clock: Callable[[], float] = time.monotonic) -> None:
        from headwater.oidc.keys import Keys
        from headwater.oidc.validator import Validator

        rules = rules_of(section)
        self._validator = Validator(rules, Keys(rules.issuer, section.get("jwks", "")))
        self._granted = {
            kind: {name: Token(name, *scopes_of(each)) for name, each in section[kind].items()}
            for kind in _NAMED
            if kind in section
        }
        self._clock = clock
        self._known: dict[bytes, _Known] = {}
        self._told = Rates(TOLD_PER_SECOND)

    async def find(self, text: str) -> Token:
        """Raises BadToken, IssuerAway."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        found = self._known.get(digest)
        if found is not None and self._clock() < found.until:
            return found.token
        try:
            identity = await self._validator.identity(text)
        except TokenRefused as error:
            if not self._told.wait_s("", self._clock()):
                _log.warning("a token was refused: %s", error.sentence)
            raise BadToken(
                "the token is not good here",
                hint="is it expired, or meant for something else? The edges' log says why",
            ) from None
        except IssuerUnreachable:  # `oidc.keys` has logged it
            raise IssuerAway(
                "tokens cannot be checked: their issuer gives no answer", hint="try again"
            ) from None
        token = self._bearer(identity)
        self._remember(digest, token)
        return token

    def _bearer(self, identity: Identity) -> Token:
        groups, principals = (self._granted.get(kind, {}) for kind in _NAMED)
        granted = [groups[name] for name in dict.fromkeys(identity.groups) if name in groups]
        if identity.principal in principals:
            granted.append(principals[identity.principal])
        return Token(
            PRINCIPAL + identity.principal,
            tuple(scope for each in granted for scope in each.read),
            tuple(scope for each in granted for scope in each.write),
            tuple(scope for each in granted for scope in each.admin),
            self._clock() + identity.lifetime_s,
        )

    def _remember(self, digest: bytes, token: Token) -> None:
        self._known.pop(digest, None)
        self._known[digest] = _Known(token, min(token.ends_at, self._clock() + REMEMBERED_S))
        if len(self._known) > REMEMBERED_MAX:
            del self._known[next(iter(self._known))]


def unreachable(section: Section) -> str | None:
    """Why no token could be checked at the moment; for `headwater doctor`. Blocks."""
    from headwater.oidc.keys import Keys

    keys = Keys(rules_of(section).issuer, section.get("jwks", ""))
    try:
        asyncio.run(keys.find(None, "RS256"))
    except IssuerUnreachable as error:
        return error.sentence
    except TokenRefused:
        return None  # it has keys, and more than one of them
    return None


def check(_name: str, section: object) -> list[str]:
    """[edges.oidc]: a sentence for each mistake."""
    if not isinstance(section, Mapping):
        return ["[edges.oidc] is a section with lines of its own"]
    said = unknown_settings(section, (*SETTINGS, *_NAMED)) + complaints(section)
    if not any(section.get(kind) for kind in _NAMED):
        said.append("lets nobody do anything: write [edges.oidc.groups.NAME] with read = […]")
    for kind in _NAMED:
        said += _named_complaints(kind, section.get(kind, {}))
    try:
        import headwater.oidc.validator  # noqa: F401
    except ModuleNotFoundError as error:
        said.append(f"needs the package {missing_package(error)}: pip install 'headwater[oidc]'")
    return [f"[edges.oidc] {each}" for each in said]


def _named_complaints(kind: str, sections: object) -> list[str]:
    if not isinstance(sections, Mapping):
        return [f"write [edges.oidc.{kind}.NAME], with a name of your own"]
    said = []
    for name, each in sections.items():
        if not isinstance(each, Mapping):
            wrong = ["is a section with lines of its own"]
        else:
            wrong = unknown_settings(each, WAYS) + scopes_complaints(each)
        said += [f"{kind}.{name} {sentence}" for sentence in wrong]
    return said
