"""What a token that is rightly signed must say, and who it then speaks of. Pure; called by `validator`.

    iss   must be the issuer                       aud   must name one of ours (a text, or a list of them)
    exp   must be there, and ahead (less the skew)  nbf   must not be ahead (but for the skew)
    sub   or the claim that is named instead: a text, not empty

A claim inside another is named with dots (`realm_access.roles`), unless one has that very name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.oidc.errors import TokenRefused

SKEW_S = 30.0
NAME_CHARS_MAX = 1_024
GROUPS_MAX = 1_000
LIFETIME_S_MAX = 365 * 86_400.0
"""Of a login by one token, however far away its end is: no client could reckon with 10^308."""


@dataclass(frozen=True)
class Rules:
    """What is asked of a token here."""

    issuer: str
    audiences: tuple[str, ...]
    principal_claim: str = "sub"
    groups_claim: str = "groups"
    scope_claim: str = "scope"
    skew_s: float = SKEW_S


@dataclass(frozen=True)
class Identity:
    """Somebody for whom the issuer vouches."""

    principal: str
    """Without Kafka's `User:`."""
    groups: tuple[str, ...]
    scopes: tuple[str, ...]
    expires: float
    """Seconds since 1970, by the token."""
    lifetime_s: float
    """From now on, at most `LIFETIME_S_MAX`; more than 0, for where nothing is left the skew counts."""
    claims: Mapping[str, object] = field(repr=False)


def identity(claims: Mapping[str, object], rules: Rules, now: float) -> Identity:
    """Raises TokenRefused."""
    if claims.get("iss") != rules.issuer:
        raise TokenRefused(f"the token is of issuer {_short(claims.get('iss'))}")
    if not set(_texts(claims.get("aud"), split=False)) & set(rules.audiences):
        raise TokenRefused(f"the token is meant for {_short(claims.get('aud'))}")
    expires = _moment(claims, "exp")
    if expires is None:
        raise TokenRefused("the token has no exp: it would be good for ever")
    if expires + rules.skew_s <= now:
        raise TokenRefused(f"the token expired {now - expires:.0f} s ago")
    begins = _moment(claims, "nbf")
    if begins is not None and begins - rules.skew_s > now:
        raise TokenRefused(f"the token is good in {begins - now:.0f} s only")
    left = expires - now
    return Identity(
        _principal(claims, rules.principal_claim),
        _texts(claim(claims, rules.groups_claim)),
        _texts(claim(claims, rules.scope_claim)),
        expires,
        min(left if left > 0 else left + rules.skew_s, LIFETIME_S_MAX),
        claims,
    )


def claim(claims: Mapping[str, object], name: str) -> object:
    """One of them by its name; None where there is none."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def _principal(claims: Mapping[str, object], name: str) -> str:
    found = claim(claims, name)
    if not isinstance(found, str) or not found.strip():
        raise TokenRefused(f"the token says nobody in its claim {name}")
    if len(found) > NAME_CHARS_MAX or not found.isprintable():
        raise TokenRefused(f"the token's claim {name} is no name: {_short(found)}")
    return found


def _moment(claims: Mapping[str, object], name: str) -> float | None:
    found = claims.get(name)
    if found is None:
        return None
    try:
        moment = float(found) if isinstance(found, int | float) else math.nan
    except OverflowError:  # JSON's integers have no end
        moment = math.inf
    if isinstance(found, bool) or not math.isfinite(moment):
        raise TokenRefused(f"the token's {name} is no time: {_short(found)}")
    return moment


def _texts(found: object, *, split: bool = True) -> tuple[str, ...]:
    """Of a list, or of a text with blanks between, as RFC 6749 writes scopes."""
    if isinstance(found, str):
        return tuple(found.split()) if split else (found,)
    if not isinstance(found, list):
        return ()
    return tuple(each for each in found[:GROUPS_MAX] if isinstance(each, str))


def _short(value: object) -> str:
    return repr(value)[:120]
