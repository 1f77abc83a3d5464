"""JoinGroup (key 11), versions 0 to 9: become a member of a group, or come back to it.

Answered when the group's members are complete. The leader (one of them) gets everybody's metadata and
makes the assignment; the others learn the generation and its protocol. A new dynamic member first
gets MEMBER_ID_REQUIRED with its id (4+); a static member takes over the place of its instance id
without a rebalance, and its older self is fenced.

KIP-62 (1: rebalance time-out), KIP-134 (initial delay), KIP-394 (4), KIP-345 (5: static members),
KIP-559 (7: protocol type), KIP-800 (8: reason), KIP-814 (9: skip assignment).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import METADATA_BYTES_MAX
from headwater.broker.groups.coordinator import fresh_member_id
from headwater.broker.groups.effects import Joined
from headwater.broker.groups.join import JoinRequest
from headwater.broker.registry import Api, Context
from headwater.broker.state_budget import EACH_BYTES

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_MS = timedelta(milliseconds=1)


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    if broker.shares.has(request.group_id):
        refused = Joined(ErrorCode.inconsistent_group_protocol, member_id=request.member_id)
        return _response(refused, context.api_version)
    size = sum(len(each.name) + len(each.metadata) for each in request.protocols)
    if size > METADATA_BYTES_MAX:
        refused = Joined(ErrorCode.invalid_request, member_id=request.member_id)
        return _response(refused, context.api_version)
    instance = getattr(request, "group_instance_id", None)
    names = (context.client_id, None if request.member_id else instance or context.client_id)
    room = broker.state.for_member(request.group_id, request.member_id, instance, size, names)
    if room is None:
        refused = Joined(ErrorCode.group_max_size_reached, member_id=request.member_id)
        return _response(refused, context.api_version)
    context.is_kept()
    joined = await broker.groups.join(request.group_id, _request(request, context))
    if joined.error is not ErrorCode.none:
        room.give_back()
    if joined.error is ErrorCode.member_id_required:  # what is kept until it comes back with its id
        broker.state.take(EACH_BYTES + len(joined.member_id), known=True)
    return _response(joined, context.api_version)


def _request(request: Any, context: Context) -> JoinRequest:
    instance_id = getattr(request, "group_instance_id", None)
    rebalance_timeout = getattr(request, "rebalance_timeout", request.session_timeout)
    protocols = {protocol.name: bytes(protocol.metadata) for protocol in request.protocols}
    return JoinRequest(
        member_id=request.member_id,
        instance_id=instance_id,
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
        session_timeout_ms=request.session_timeout // _MS,
        rebalance_timeout_ms=rebalance_timeout // _MS,
        protocol_type=request.protocol_type,
        protocols=tuple(protocols.items()),
        fresh_id=fresh_member_id(context.client_id if instance_id is None else instance_id),
        needs_known_id=context.api_version >= 4,
        may_skip_assignment=context.api_version >= 9,
        reason=getattr(request, "reason", None),
    )


def _response(joined: Joined, version: int) -> dict[str, Any]:
    protocol = joined.protocol
    if protocol is None and version < 7:  # null is possible only from version 7 on
        protocol = ""
    return {
        "error_code": joined.error,
        "generation_id": joined.generation,
        "protocol_type": joined.protocol_type,
        "protocol_name": protocol,
        "leader": joined.leader,
        "skip_assignment": joined.skip_assignment,
        "member_id": joined.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "metadata": member.metadata,
            }
            for member in joined.members
        ],
    }


API = Api(11, "JoinGroup", (0, 9), handle, waits=True)
