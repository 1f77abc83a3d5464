"""DeleteGroups (key 42), versions 0 to 2: groups without members go, with all their offsets.

Answered when the tombstones are durable. NON_EMPTY_GROUP for a group with members,
GROUP_ID_NOT_FOUND for one that does not exist.

KIP-229.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        if broker.shares.has(group_id):
            error = await broker.shares.delete(group_id)
        else:
            error = await broker.groups.removal.delete_group(group_id)
        results.append({"group_id": group_id, "error_code": error})
    return {"results": results}


API = Api(42, "DeleteGroups", (0, 2), handle)
