"""Settings of SASL/OAUTHBEARER (KIP-768): whose tokens open the log.

Read by `values`, used by `security.socket_server`.
"""

from __future__ import annotations

from headwater.broker.settings.definitions import Definition, Kind, at_least

OAUTHBEARER = (
    Definition(
        "sasl.oauthbearer.expected.issuer",
        Kind.STRING,
        None,
        "OAUTHBEARER: who must have issued a token, as it calls itself (`iss`). Must be set.",
    ),
    Definition(
        "sasl.oauthbearer.expected.audience",
        Kind.LIST,
        [],
        "OAUTHBEARER: one of these must be in a token's `aud`. Must be set.",
    ),
    Definition(
        "sasl.oauthbearer.jwks.endpoint.url",
        Kind.STRING,
        None,
        "Where the issuer's keys are: https (http on loopback only), or file:/…; "
        "empty: where its discovery document says.",
    ),
    Definition(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        Kind.LONG,
        3_600_000,
        "How old the issuer's keys may be; an unknown one is looked for at once.",
        at_least(1_000),
    ),
    Definition(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        Kind.LONG,
        10_000,
        "How long to wait after the issuer's keys could not be had.",
        at_least(0),
    ),
    Definition(
        "sasl.oauthbearer.clock.skew.seconds",
        Kind.INT,
        30,
        "By how much the issuer's clock and ours may differ.",
        at_least(0),
    ),
    Definition(
        "sasl.oauthbearer.sub.claim.name",
        Kind.STRING,
        "sub",
        "The claim that is the user's name; dots lead into claims within claims.",
    ),
    Definition(
        "sasl.oauthbearer.scope.claim.name",
        Kind.STRING,
        "scope",
        "The claim that holds the scopes. What a user may do is said by ACLs alone.",
    ),
    Definition(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        Kind.LONG,
        100,
        "The first wait after a failure is the longest one already.",
        effect=False,
    ),
)
