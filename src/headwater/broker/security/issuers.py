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

    def said(name: str) -> str:
        return str(option(settings, listener, name) or "")

    rules = Rules(
        issuer=said("sasl.oauthbearer.expected.issuer"),
        audiences=tuple(option(settings, listener, "sasl.oauthbearer.expected.audience")),
        principal_claim=said("sasl.oauthbearer.sub.claim.name"),
        scope_claim=said("sasl.oauthbearer.scope.claim.name"),
        skew_s=option(settings, listener, "sasl.oauthbearer.clock.skew.seconds"),
    )
    wait_ms = option(settings, listener, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")
    refresh_ms = option(settings, listener, "sasl.oauthbearer.jwks.endpoint.refresh.ms")
    url = said("sasl.oauthbearer.jwks.endpoint.url")
    try:
        keys = Keys(rules.issuer, url, refresh_s=refresh_ms / 1000, retry_s=wait_ms / 1000)
        return Validator(rules, keys)
    except BadIssuer as error:
        raise BadListener(
            f"nobody could log in at {listener.name} by OAUTHBEARER: {error.sentence}",
            hint="set sasl.oauthbearer.expected.issuer, sasl.oauthbearer.expected.audience, and "
            "sasl.oauthbearer.jwks.endpoint.url (https) where there is no discovery document",
        ) from None
