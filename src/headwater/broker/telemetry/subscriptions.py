"""Which client is to push which metrics, and how often: pure.

Every subscription that matches a client counts: it pushes the metrics of all of them, as often as the
most frequent one asks. The number of a set of subscriptions changes with it, so that a client that pushes
by an old one is told to ask again.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from headwater.broker.settings.definitions import BadValue, parse
from headwater.broker.settings.subscription import SUBSCRIPTION, patterns
from headwater.regex import Regex

INTERVAL_MS = 300_000


class Subscription(NamedTuple):
    """One subscription, ready to be matched."""

    interval_ms: int
    match: dict[str, Regex]
    metrics: list[str]


class Wanted(NamedTuple):
    """What one client is to do."""

    number: int
    interval_ms: int
    metrics: list[str]
    """Prefixes of names; an empty one stands for all, no prefix at all for none."""


def read(configs: Mapping[str, Mapping[str, str]]) -> dict[str, Subscription]:
    """Subscriptions by name; one that cannot be read is left out."""
    found = {}
    for name, given in configs.items():
        try:
            found[name] = Subscription(
                parse(SUBSCRIPTION["interval.ms"], given.get("interval.ms", str(INTERVAL_MS))),
                patterns(parse(SUBSCRIPTION["match"], given.get("match", ""))),
                parse(SUBSCRIPTION["metrics"], given.get("metrics", "")),
            )
        except BadValue:
            continue
    return found


def wanted(subscriptions: Mapping[str, Subscription], client: Mapping[str, str]) -> Wanted:
    """What the client with these selectors is to push."""
    matching = {
        name: each
        for name, each in sorted(subscriptions.items())
        if each.metrics and all(_fits(client, *pair) for pair in each.match.items())
    }
    metrics = sorted({prefix for each in matching.values() for prefix in each.metrics})
    if "*" in metrics:
        metrics = [""]
    interval_ms = min((each.interval_ms for each in matching.values()), default=INTERVAL_MS)
    text = repr((interval_ms, metrics)).encode()
    number = zlib.crc32(text) - 2**31
    return Wanted(number, interval_ms, metrics)


def _fits(client: Mapping[str, str], selector: str, pattern: Regex) -> bool:
    return pattern.matches(client.get(selector, ""))
