"""LeaveGroup (key 13), versions 0 to 5: members go, so that others take over at once.

Up to version 2 a member names itself; from 3 on several may be named, static ones also by their
instance id alone (an administrator's request), each with its own error.

KIP-345 (3: several, static members), KIP-800 (5: reason).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.groups.sync import Identity
from headwater.broker.registry import Api, Context

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    if context.api_version < 3:
        left = await broker.groups.leave(request.group_id, [Identity(request.member_id)])
        return {"error_code": left.error or left.members[0]}
    named = [
        Identity(member.member_id, member.group_instance_id, getattr(member, "reason", None))
        for member in request.members
    ]
    left = await broker.groups.leave(request.group_id, named)
    if left.error is not ErrorCode.none:
        return {"error_code": left.error}
    return {
        "members": [
            {
                "member_id": identity.member_id,
                "group_instance_id": identity.instance_id,
                "error_code": error,
            }
            for identity, error in zip(named, left.members, strict=True)
        ]
    }


API = Api(13, "LeaveGroup", (0, 5), handle)
