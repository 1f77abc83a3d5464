"""ShareGroupHeartbeat (key 76), version 1: join, stay in and leave a share group; KIP-932.

Epoch 0 joins, -1 leaves; in between the epoch says which assignment the member knows. The server
assigns: several members may get the same partition. The answer names partitions only if they are new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response
from headwater.broker.shares.membership import JOIN, LEAVE, GroupError

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def heartbeat(broker: Broker, request: Any, context: Context) -> Response:
    problem = _problem(request)
    if problem is not None:
        return _refused(ErrorCode.invalid_request, problem)
    if not request.member_id.strip():
        return {"error_code": ErrorCode.invalid_request}
    shares = broker.shares
    group_id, member_id = request.group_id, request.member_id
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
    told = group.tell(
        member, request.member_epoch, always=request.subscribed_topic_names is not None
    )
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


def _problem(request: Any) -> str | None:
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch < LEAVE:
        return "MemberEpoch is invalid."
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return None


def _refused(code: ErrorCode, message: str) -> Response:
    return {"error_code": code, "error_message": message}


API = Api(76, "ShareGroupHeartbeat", (1, 1), heartbeat)
