"""ShareGroupHeartbeat (key 76), version 1: join, stay in and leave a share group; KIP-932.

Epoch 0 joins, -1 leaves; in between the epoch says which assignment the member knows. The server
assigns: several members may get the same partition. The answer names partitions only if they are new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import NAME_CHARS_MAX, subscription_problem
from headwater.broker.registry import Api, Context, Response
from headwater.broker.shares.membership import JOIN, LEAVE, GroupError
from headwater.broker.state_budget import ASSIGNED_BYTES, EACH_BYTES, text_bytes

if TYPE_CHECKING:
    from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest

    from headwater.broker.broker import Broker


def heartbeat(broker: Broker, request: Any, context: Context) -> Response:
    problem = _problem(request, context.client_id)
    if problem is not None:
        return _refused(ErrorCode.invalid_request, problem)
    if not request.member_id.strip():
        return {"error_code": ErrorCode.invalid_request}
    shares = broker.shares
    group_id, member_id = request.group_id, request.member_id
    group = shares.groups.get(group_id)
    if group is None or member_id not in group.members:
        size = _size(request, context.client_id)
        is_known = group is not None
        if request.member_epoch == JOIN and broker.state.take(size, known=is_known) is None:
            return _refused(ErrorCode.group_max_size_reached, "There is no room for more members.")
    try:
        if request.member_epoch == LEAVE:
            shares.leave(group_id, member_id)
            return {"member_id": member_id, "member_epoch": LEAVE}
        shares.check_type(group_id)
        group, member = shares.heartbeat(
            group_id,
            member_id,
            request.member_epoch,
            request.subscribed_topic_names,
            (context.client_id, f"/{context.client_host}"),
            request.rack_id,
        )
    except GroupError as error:
        return _refused(error.code, error.message)
    always = request.subscribed_topic_names is not None
    told = group.tell(member, request.member_epoch, always=always)
    broker.state.take(ASSIGNED_BYTES * sum(map(len, (told or {}).values())), known=True)
    answer: dict[str, Any] = {
        "member_id": member_id,
        "member_epoch": member.epoch,
        "heartbeat_interval": broker.settings.group(group_id, "share.heartbeat.interval.ms"),
    }
    if told is not None:
        answer["assignment"] = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in told.items()
            ]
        }
    return answer


def _size(request: ShareGroupHeartbeatRequest, client_id: str) -> int:
    """What a new member leaves behind, about."""
    names = text_bytes(request.group_id, request.member_id, request.rack_id, client_id)
    return 2 * EACH_BYTES + names + sum(map(len, request.subscribed_topic_names or ()))


def _problem(request: Any, client_id: str) -> str | None:
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch < LEAVE:
        return "MemberEpoch is invalid."
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    for name, value in (
        ("GroupId", request.group_id),
        ("MemberId", request.member_id),
        ("RackId", request.rack_id),
        ("ClientId", client_id),
    ):
        if len(value or "") > NAME_CHARS_MAX:
            return f"{name} is too long."
    return subscription_problem(request.subscribed_topic_names)


def _refused(code: ErrorCode, message: str) -> Response:
    return {"error_code": code, "error_message": message}


API = Api(76, "ShareGroupHeartbeat", (1, 1), heartbeat)
