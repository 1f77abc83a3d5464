"""Whose fault it was that somebody is not let in by a token. Raised everywhere in this ring."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class TokenRefused(HeadwaterError):
    """The token is not good here; the sentence is for our log, and says more than its bearer should hear."""


class IssuerUnreachable(HeadwaterError):
    """The issuer gave no usable answer: nothing is known about the token. Another attempt may succeed."""


class BadIssuer(HeadwaterError):
    """Settings that cannot be used: a plain http address, no audience, a missing library."""
