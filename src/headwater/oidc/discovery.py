"""What an issuer says of itself (OpenID Connect Discovery 1.0, RFC 8414). Blocks.

Asked by `keys` and `sign_in`, in a thread.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.oidc import web
from headwater.oidc.errors import IssuerUnreachable

PLACE = "/.well-known/openid-configuration"


class Endpoints(NamedTuple):
    """Addresses; empty where the issuer has no such thing."""

    keys: str
    token: str
    authorization: str
    end_session: str


def endpoints(issuer: str) -> Endpoints:
    """Raises IssuerUnreachable, also where it calls itself otherwise: it could be another's document."""
    url = issuer.rstrip("/") + PLACE
    found = web.document(url)
    if found.get("issuer") != issuer:
        raise IssuerUnreachable(
            f"{web.shown(url)} speaks for {str(found.get('issuer'))[:200]!r}",
            hint="write the issuer exactly as it calls itself there, with or without the last /",
        )
    names = ("jwks_uri", "token_endpoint", "authorization_endpoint", "end_session_endpoint")
    return Endpoints(*(_address(found, name) for name in names))


def _address(found: dict[str, object], name: str) -> str:
    value = found.get(name, "")
    return web.check(value, name) if isinstance(value, str) and value else ""
