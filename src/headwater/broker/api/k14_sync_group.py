"""SyncGroup (key 14), versions 0 to 5: the leader hands in the assignment, everybody gets their part.

Answered when the group's record with the assignments is durable. In a stable group it answers at
once with the member's present assignment.

KIP-345 (3: static members), KIP-559 (5: protocol type and name must be the group's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.groups.sync import SyncRequest
from headwater.broker.registry import Api, Context

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    if context.api_version >= 5 and None in (request.protocol_type, request.protocol_name):
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    synced = await broker.groups.sync(
        request.group_id,
        SyncRequest(
            member_id=request.member_id,
            instance_id=getattr(request, "group_instance_id", None),
            generation=request.generation_id,
            assignments={each.member_id: bytes(each.assignment) for each in request.assignments},
            protocol_type=getattr(request, "protocol_type", None),
            protocol=getattr(request, "protocol_name", None),
        ),
    )
    return {
        "error_code": synced.error,
        "protocol_type": synced.protocol_type,
        "protocol_name": synced.protocol,
        "assignment": synced.assignment,
    }


API = Api(14, "SyncGroup", (0, 5), handle, waits=True)
