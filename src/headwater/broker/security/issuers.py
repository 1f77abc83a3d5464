"""Whose tokens a listener takes (KIP-768): from its settings to what judges them. Called by `doors`.

The library that checks signatures is loaded here, and only where OAUTHBEARER is offered: the broker's process
stays light. Unlike Kafka, issuer and audience must be named: without them a token that the issuer has given
for anything else would open the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.broker.security.listeners import BadListener, Listener, option
from headwater.oidc.claims import Rules
from headwater.oidc.errors import BadIssuer

if TYPE_CHECKING:
    from headwater.broker.settings import Settings
    from headwater.oidc.validator import Validator

_PREFIX = "sasl.oauthbearer."


def validator(settings: Settings, listener: Listener) -> Validator:
    """What judges the tokens that are shown at this listener. Raises BadListener."""
    try:
        from headwater.oidc.keys import Keys
        from headwater.oidc.validator import Validator
    except ImportError as error:
        raise BadListener(
            f"OAUTHBEARER at {listener.name} needs the library {error.name}, which is not installed",
            hint="pip install 'headwater[oidc]'",
        ) from None

    def said(name: str) -> object:
        return option(settings, listener, _PREFIX + name)

    rules = Rules(
        issuer=str(said("expected.issuer") or ""),
        audiences=tuple(option(settings, listener, _PREFIX + "expected.audience")),
        principal_claim=str(said("sub.claim.name")),
        scope_claim=str(said("scope.claim.name")),
        skew_s=float(str(said("clock.skew.seconds"))),
    )
    try:
        keys = Keys(
            rules.issuer,
            str(said("jwks.endpoint.url") or ""),
            refresh_s=int(str(said("jwks.endpoint.refresh.ms"))) / 1000,
            retry_s=int(str(said("jwks.endpoint.retry.backoff.max.ms"))) / 1000,
        )
        return Validator(rules, keys)
    except BadIssuer as error:
        names = ", ".join(_PREFIX + name for name in ("expected.issuer", "expected.audience"))
        raise BadListener(
            f"nobody could log in at {listener.name} by OAUTHBEARER: {error.sentence}",
            hint=f"set {names} and {_PREFIX}jwks.endpoint.url (https)",
        ) from None
