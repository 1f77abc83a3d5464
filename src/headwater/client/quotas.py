"""How much users, clients and addresses may do: quotas, listed, set and removed (KIP-546)."""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import math
from collections.abc import Mapping
from typing import NamedTuple

from headwater.client.errors import BadRequest
from headwater.client.exchange import asking, check
from headwater.client.log import Log

DESCRIBE, ALTER = 48, 49
KINDS = ("user", "client-id", "ip")
LIMITS = {
    "producer_byte_rate": "bytes a second that may be written",
    "consumer_byte_rate": "bytes a second that may be read",
    "request_percentage": "per cent of the broker's time for requests",
    "controller_mutation_rate": "partitions a second that may be made or deleted",
    "connection_creation_rate": "new connections a second, of an address",
}
DEFAULT = None
"""As the name of a user, client or address: all that have no quota of their own."""


class Quota(NamedTuple):
    """`owner`: kind → name, or DEFAULT; `limits`: what is limited → to how much."""

    owner: dict[str, str | None]
    limits: dict[str, float]


def words(owner: Mapping[str, str | None]) -> str:
    """As a person says it."""
    return ", ".join(
        f"{kind} {'(all others)' if name is None else name}" for kind, name in owner.items()
    )


def listed(log: Log) -> list[Quota]:
    """All of them."""
    what = "listing quotas"
    body = {"components": [], "strict": False}
    with asking(log, what) as asked:
        answer = asked.retrying(lambda: asked.anyone().ask(DESCRIBE, body))
    check(answer.error_code, what, answer.error_message)
    found = [
        Quota(
            {part.entity_type: part.entity_name for part in each.entity},
            {one.key: one.value for one in each.values},
        )
        for each in answer.entries or ()
    ]
    return sorted(found, key=lambda quota: words(quota.owner))


def alter(
    log: Log,
    owner: Mapping[str, str | None],
    limits: Mapping[str, float | None],
    *,
    dry_run: bool = False,
) -> None:
    """None takes a limit away; with `dry_run` the broker only says whether it would."""
    if not owner:
        raise BadRequest("say whose quota it is", hint="a user, a client id, or an address")
    for name, value in limits.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise BadRequest(f"{name}: {value} is no limit", hint="write a number above 0")
    what = f"{'checking' if dry_run else 'changing'} the quota of {words(owner)}"
    entity = [{"entity_type": kind, "entity_name": name} for kind, name in owner.items()]
    ops = [
        {"key": key, "value": 0.0 if value is None else float(value), "remove": value is None}
        for key, value in limits.items()
    ]
    body = {"entries": [{"entity": entity, "ops": ops}], "validate_only": dry_run}
    with asking(log, what) as asked:
        answer = asked.retrying(lambda: asked.anyone().ask(ALTER, body))
    for each in answer.entries:
        check(each.error_code, what, each.error_message)
