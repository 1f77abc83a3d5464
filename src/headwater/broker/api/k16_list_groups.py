"""ListGroups (key 16), versions 0 to 5: all groups of this coordinator.

May be narrowed to states (4+) and to types (5+); upper and lower case do not matter. A group of a
simple consumer, which only commits offsets, has no protocol type.

KIP-518 (4: states), KIP-848 (5: types).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context, always
from headwater.broker.turns import in_turns

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    if broker.groups.refusal:
        return {"error_code": broker.groups.refusal}
    states = {state.lower() for state in getattr(request, "states_filter", ())}
    types = {kind.lower() for kind in getattr(request, "types_filter", ())}
    monotonic = broker.supervisor.monotonic
    groups = [
        {
            "group_id": group.id,
            "protocol_type": group.protocol_type or "",
            "group_state": group.state_name,
            "group_type": group.type,
        }
        async for group in in_turns(list(broker.groups.groups.values()), monotonic)
        if (not states or group.state_name.lower() in states) and (not types or group.type in types)
    ]
    groups += [
        {
            "group_id": group_id,
            "protocol_type": "share",
            "group_state": state,
            "group_type": "share",
        }
        async for group_id, state in in_turns(broker.shares.list(), monotonic)
        if (not states or state.lower() in states) and (not types or "share" in types)
    ]
    return {"groups": groups}


API = Api(16, "ListGroups", (0, 5), handle, lists=always)
