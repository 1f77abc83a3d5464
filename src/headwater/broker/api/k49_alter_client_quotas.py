"""AlterClientQuotas (key 49), versions 0 and 1: set or remove quotas; KIP-546.

Entities succeed or fail each for itself; a quota is durable before it is answered, and counts from the
next request on.

What AlterClientQuotas may do: an entity and new values, or a refusal in Kafka's words. Pure.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import NAME_CHARS_MAX
from headwater.broker.quotas.entities import CLIENT, IP, USER, Entity, Key, entity
from headwater.broker.registry import Api, Context, Response
from headwater.broker.turns import Pace
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> Response:
    seen: set[Entity] = set()
    rows = []
    pace = Pace(broker.supervisor.monotonic)
    for entry in request.entries:
        await pace.rest()
        parts = [(each.entity_type, each.entity_name) for each in entry.entity]
        code, sentence = ErrorCode.none, None
        try:
            owner = check_entity(parts)
            parts = list(owner)
            operations = [Operation(op.key, None if op.remove else op.value) for op in entry.ops]
            if owner in seen:
                shown = ", ".join(f"{kind}={name}" for kind, name in owner)
                raise QuotaRefused(
                    f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})"
                )
            seen.add(owner)
            await _alter(broker, owner, operations, request.validate_only)
        except QuotaRefused as refused:
            code, sentence = ErrorCode.invalid_request, str(refused)
        except (StorageFailed, OSError) as error:
            code = ErrorCode.kafka_storage_error
            sentence = f"the disk refused the change: {error}"
        rows.append(
            {
                "error_code": code,
                "error_message": sentence,
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts],
            }
        )
    return {"entries": rows}


async def _alter(
    broker: Broker, owner: Entity, operations: list[Operation], validate_only: bool
) -> None:
    async with broker.catalogue.changing:
        current = broker.quotas.table.quotas.get(owner, {})
        values = changed(owner, current, operations)
        if not validate_only and values != current:
            await broker.quotas.put(owner, values)


API = Api(49, "AlterClientQuotas", (0, 1), handle)


LONG_MAX = 2**63 - 1
_FRACTION = 1e-6
_WHOLE = (Key.PRODUCE, Key.FETCH, Key.CONNECTION)
_KEYS = {
    False: (Key.PRODUCE, Key.FETCH, Key.REQUEST, Key.MUTATION),
    True: (Key.CONNECTION,),
}


class QuotaRefused(Exception):
    """A quota that may not be."""


class Operation(NamedTuple):
    """Set a value, or (None) remove it."""

    key: str
    value: float | None


def check_entity(parts: Sequence[tuple[str, str | None]]) -> Entity:
    """The entity that a request means, or `QuotaRefused`."""
    if not parts:
        raise QuotaRefused("Invalid empty client quota entity")
    names = dict(parts)
    for kind, name in names.items():
        if kind not in (USER, CLIENT, IP):
            raise QuotaRefused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise QuotaRefused(f"Empty {kind} not supported")
        if len(name or "") > NAME_CHARS_MAX:
            raise QuotaRefused(f"A {kind} has at most {NAME_CHARS_MAX} characters")
    if IP in names:
        if len(names) > 1:
            raise QuotaRefused(
                "Invalid quota entity combination, IP entity shouldnot be combined with User or "
                "ClientId"
            )
        if names[IP] is not None and not _is_address(str(names[IP])):
            raise QuotaRefused(f"{names[IP]} is not a valid IP or resolvable host.")
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
    """An entity's quotas after these operations, or `QuotaRefused`."""
    values = dict(current)
    if len({each.key for each in operations}) < len(operations):
        shown = ", ".join(f"{kind}={name}" for kind, name in owner)
        raise QuotaRefused(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})")
    for key, value in operations:
        if value is None:
            values.pop(key, None)
            continue
        _check(owner, key, value)
        values[key] = value
    return values


def _check(owner: Entity, key: str, value: float) -> None:
    if key not in _KEYS[owner[0][0] == IP]:
        raise QuotaRefused(f"Invalid configuration key {key}")
    if not math.isfinite(value) or value <= 0:
        raise QuotaRefused(f"Quota {key} must be a number greater than 0")
    if key in _WHOLE:
        if value > LONG_MAX:
            raise QuotaRefused(f"Proposed value for {key} is too large for a LONG.")
        if abs(value - round(value)) > _FRACTION:
            raise QuotaRefused(f"{key} cannot be a fractional value.")
