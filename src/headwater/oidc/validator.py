"""A token to an identity: the one place where JWTs (RFC 7519) are judged. The broker calls it.

A token must be signed by a key of the issuer, with one of `ALGORITHMS`: `none` and the HS family are not
among them, so that nobody signs with the public key as if it were a shared secret (RFC 8725, 2.1 and 3.1).
Nothing that the token says about itself (jku, jwk, x5u) is followed; only its kid is looked up, in the
issuer's own keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from joserfc import jws, jwt
from joserfc.errors import JoseError

from headwater.oidc.claims import Identity, Rules, identity
from headwater.oidc.errors import BadIssuer, TokenRefused
from headwater.oidc.keys import Keys

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519"),
)
TOKEN_BYTES_MAX = 16 * 1024


class Validator:
    """Judges tokens of one issuer by one set of rules."""

    def __init__(self, rules: Rules, keys: Keys, now: Callable[[], float] = time.time) -> None:
        """Raises BadIssuer."""
        if not rules.issuer or not any(rules.audiences):
            raise BadIssuer(
                "tokens need an issuer and an audience: any other token of the issuer would do",
                hint="name the issuer as it calls itself, and what its tokens for here have in aud",
            )
        self.rules = rules
        self._keys = keys
        self._now = now
        self._registry = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        self._registry.max_header_length = TOKEN_BYTES_MAX

    async def identity(self, token: str) -> Identity:
        """Raises TokenRefused, IssuerUnreachable."""
        if len(token) > TOKEN_BYTES_MAX:
            raise TokenRefused(f"the token is longer than {TOKEN_BYTES_MAX} bytes")
        kid, algorithm = self._header(token)
        key = await self._keys.find(kid, algorithm)
        try:
            found = jwt.decode(token, key, registry=self._registry)
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise TokenRefused(f"the token is not rightly signed: {error}") from None
        return identity(found.claims, self.rules, self._now())

    def _header(self, token: str) -> tuple[str | None, str]:
        """Which key and algorithm it names; nothing of it is believed yet."""
        try:
            header = jws.extract_compact(token.encode(), registry=self._registry).headers()
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise TokenRefused(f"the token is no JWT: {error}") from None
        kid, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in ALGORITHMS:
            raise TokenRefused(
                f"the token is signed by {str(algorithm)[:40]!r}, which is not taken"
            )
        if kid is not None and not isinstance(kid, str):
            raise TokenRefused("the token's kid is no text")
        return kid, algorithm
