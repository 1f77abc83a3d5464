"""What AlterClientQuotas may do: an entity and new values, or a refusal in Kafka's words. Pure."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.broker.quotas.entities import CLIENT, IP, USER, Entity, Key, entity

LONG_MAX = 2**63 - 1
_FRACTION = 1e-6
_WHOLE = (Key.PRODUCE, Key.FETCH, Key.CONNECTION)
_KEYS = {
    False: (Key.PRODUCE, Key.FETCH, Key.REQUEST, Key.MUTATION),
    True: (Key.CONNECTION,),
}


class Refused(Exception):
    """A quota that may not be."""


class Operation(NamedTuple):
    """Set a value, or (None) remove it."""

    key: str
    value: float | None


def check_entity(parts: Sequence[tuple[str, str | None]]) -> Entity:
    """The entity that a request means, or `Refused`."""
    if not parts:
        raise Refused("Invalid empty client quota entity")
    names = dict(parts)
    for kind, name in names.items():
        if kind not in (USER, CLIENT, IP):
            raise Refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise Refused(f"Empty {kind} not supported")
    if IP in names:
        if len(names) > 1:
            raise Refused(
                "Invalid quota entity combination, IP entity shouldnot be combined with User or "
                "ClientId"
            )
        if names[IP] is not None and not _is_address(str(names[IP])):
            raise Refused(f"{names[IP]} is not a valid IP or resolvable host.")
    return entity(names)


def _is_address(text: str) -> bool:
    """Host names, which Kafka resolves once, are refused: what they mean may change."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def changed(
    owner: Entity, current: Mapping[str, float], operations: Sequence[Operation]
) -> dict[str, float]:
    """An entity's quotas after these operations, or `Refused`."""
    values = dict(current)
    if len({each.key for each in operations}) < len(operations):
        shown = ", ".join(f"{kind}={name}" for kind, name in owner)
        raise Refused(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})")
    for key, value in operations:
        if value is None:
            values.pop(key, None)
            continue
        _check(owner, key, value)
        values[key] = value
    return values


def _check(owner: Entity, key: str, value: float) -> None:
    if key not in _KEYS[owner[0][0] == IP]:
        raise Refused(f"Invalid configuration key {key}")
    if math.isnan(value) or value <= 0:
        raise Refused(f"Quota {key} must be greater than 0")
    if key in _WHOLE:
        if value > LONG_MAX:
            raise Refused(f"Proposed value for {key} is too large for a LONG.")
        if abs(value - round(value)) > _FRACTION:
            raise Refused(f"{key} cannot be a fractional value.")
