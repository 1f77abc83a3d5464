"""DescribeGroups (key 15), versions 0 to 6: state, protocol and members of classic groups.

Metadata and assignments are shown of a stable group only. A group that does not exist, or is of
another type, is Dead; from version 6 on it also has GROUP_ID_NOT_FOUND and a message.

KIP-345 (4: instance ids), KIP-430 (3: authorized operations), KIP-1043 (6: the error).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import shown
from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.member import Member
from headwater.broker.once import once
from headwater.broker.registry import Api, Context, always

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: all that can be done to a group.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    answer = [_describe(broker, group_id, context) for group_id in once(request.groups)]
    if getattr(request, "include_authorized_operations", False):
        for group in answer:
            if group["error_code"] is ErrorCode.none:
                group["authorized_operations"] = ALL_OPERATIONS
    return {"groups": answer}


def _describe(broker: Broker, group_id: str, context: Context) -> dict[str, Any]:
    if broker.groups.refusal is not ErrorCode.none:
        return {"group_id": group_id, "error_code": broker.groups.refusal}
    group = broker.groups.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        return _absent(group_id, group is not None or broker.shares.has(group_id), context)
    stable = group.state is State.STABLE
    return {
        "error_code": ErrorCode.none,
        "group_id": group_id,
        "group_state": group.state_name,
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol or "") if stable else "",
        "members": [
            _member(member, group.protocol if stable else None) for member in group.members.values()
        ],
    }


def _absent(group_id: str, other_type: bool, context: Context) -> dict[str, Any]:
    answer = {"group_id": group_id, "group_state": State.DEAD.value, "error_code": ErrorCode.none}
    if context.api_version >= 6:
        problem = "is not a classic group" if other_type else "not found"
        answer["error_code"] = ErrorCode.group_id_not_found
        answer["error_message"] = f"Group {shown(group_id)} {problem}."
    return answer


def _member(member: Member, protocol: str | None) -> dict[str, Any]:
    return {
        "member_id": member.id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata(protocol) if protocol is not None else b"",
        "member_assignment": member.assignment if protocol is not None else b"",
    }


API = Api(15, "DescribeGroups", (0, 6), handle, only_looks=True, lists=always)
