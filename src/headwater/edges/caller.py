"""Who asks, and what he may: for handlers, of a request that the guard has let through."""

from __future__ import annotations

from contextvars import ContextVar
from urllib.parse import quote

from starlette.requests import HTTPConnection
from starlette.types import Scope

from headwater.edges.errors import Forbidden
from headwater.edges.tokens import Need, Token
from headwater.fair_queue import network

TOKEN = "headwater.token"
"""Where the guard leaves what was shown, in a request's scope."""
STANDS = "headwater.token.stands"
"""Beside it, where it can become another while a request lasts: asks whether it still counts."""
SENDER: ContextVar[str] = ContextVar("sender", default="")
"""Whose share of what all have in common (memory, threads) a request uses: a token's, or an address'."""
HOOK = "hook"
"""Whose the idempotency keys of webhooks in are."""


def address_of(scope: Scope) -> str:
    """Whose shares a request without a token uses: of IPv6, the network of 64 bits that one customer has."""
    return network((scope.get("client") or ("",))[0])


def who(connection: HTTPConnection) -> str:
    """The name of the token that was shown, or oidc:PRINCIPAL; empty where nothing is asked for."""
    return _shown(connection.scope).name


def keys_of(connection: HTTPConnection) -> str:
    """What the idempotency keys of who asks begin with: nobody else's do, nor those of hooks."""
    found = quote(who(connection))
    return found if found != HOOK else f"{found}%"


def may(connection: HTTPConnection, need: Need) -> bool:
    """Whether who asks has this scope; where there are no tokens, everybody has."""
    return TOKEN not in connection.scope or _shown(connection.scope).may(need)


def refused(connection: HTTPConnection, need: Need) -> Forbidden:
    """To be raised where `may` says no, or where nobody may."""
    return _shown(connection.scope).refused(need)


def _shown(scope: Scope) -> Token:
    found = scope.get(TOKEN)
    return found if isinstance(found, Token) else Token("")
