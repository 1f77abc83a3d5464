"""The configs of a client metrics subscription: resource type CLIENT_METRICS of the config APIs.

Which clients are to send which metrics, and how often (KIP-714). The catalogue keeps them and
`broker.telemetry` matches clients with them. Sentences and codes are Apache Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.broker.settings.definitions import BadValue, Definition, Kind, by_name, parse
from headwater.regex import BadRegex, Regex

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What of a client a subscription may look at."""

SUBSCRIPTION: dict[str, Definition] = by_name(
    (
        (
            Definition(
                "interval.ms",
                Kind.INT,
                300_000,
                "How often a client sends; 100 to 3600000.",
            ),
            Definition(
                "match",
                Kind.LIST,
                [],
                "Clients that send: SELECTOR=REGEX (RE2's syntax), all of them; none is every client.",
            ),
            Definition(
                "metrics",
                Kind.LIST,
                [],
                "Prefixes of the metrics' names; `*` is all of them.",
            ),
        ),
    )
)


class BadInterval(BadValue):
    """A value that Kafka answers INVALID_REQUEST for, where others are INVALID_CONFIG."""


def validate_subscription(configs: Mapping[str, str]) -> None:
    """Raise `BadValue` where one of them may not be."""
    for name, text in configs.items():
        if name not in SUBSCRIPTION:
            raise BadInterval(f"Unknown client metrics configuration: {name}")
        value = parse(SUBSCRIPTION[name], text)
        if name == "interval.ms" and not INTERVAL_MS_MIN <= value <= INTERVAL_MS_MAX:
            raise BadInterval(
                f"Invalid value {value} for interval.ms, interval must be between "
                f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
            )
        if name == "match":
            patterns(value)


def patterns(match: list[str]) -> dict[str, Regex]:
    """What of a client must look how; `BadValue` for what is no pattern."""
    found: dict[str, Regex] = {}
    for item in match:
        selector, separator, pattern = (part.strip() for part in item.partition("="))
        try:
            if not separator or selector not in SELECTORS:
                raise BadValue
            found[selector] = Regex(pattern)
        except (BadValue, BadRegex):
            raise BadValue(f"Illegal client matching pattern: {item}") from None
    return found
