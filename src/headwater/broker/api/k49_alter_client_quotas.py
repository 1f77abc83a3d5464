"""AlterClientQuotas (key 49), versions 0 and 1: set or remove quotas; KIP-546.

Entities succeed or fail each for itself; a quota is durable before it is answered, and counts from the
next request on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.quotas.change import Operation, Refused, changed, check_entity
from headwater.broker.quotas.entities import Entity
from headwater.broker.registry import Api, Context, Response
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> Response:
    seen: set[Entity] = set()
    rows = []
    for entry in request.entries:
        parts = [(each.entity_type, each.entity_name) for each in entry.entity]
        code, sentence = ErrorCode.none, None
        try:
            owner = check_entity(parts)
            parts = list(owner)
            operations = [Operation(op.key, None if op.remove else op.value) for op in entry.ops]
            if owner in seen:
                shown = ", ".join(f"{kind}={name}" for kind, name in owner)
                raise Refused(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})")
            seen.add(owner)
            await _alter(broker, owner, operations, request.validate_only)
        except Refused as refused:
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
