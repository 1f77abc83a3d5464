"""ShareGroupDescribe (key 77), version 1: members, assignments and epochs of share groups; KIP-932."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.api.k15_describe_groups import ALL_OPERATIONS
from headwater.broker.once import once
from headwater.broker.registry import Api, Context, Response, always
from headwater.broker.shares.membership import Member, ShareGroup

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def describe(broker: Broker, request: Any, context: Context) -> Response:
    groups = [_describe_one(broker, group_id) for group_id in once(request.group_ids)]
    if request.include_authorized_operations:
        for group in groups:
            if "error_code" not in group:
                group["authorized_operations"] = ALL_OPERATIONS
    return {"groups": groups}


def _describe_one(broker: Broker, group_id: str) -> dict[str, Any]:
    group = broker.shares.groups.get(group_id)
    if group is None:
        there = group_id in broker.groups.groups
        message = f"Group {group_id} {'is not a share group' if there else 'not found'}."
        return {
            "error_code": ErrorCode.group_id_not_found,
            "error_message": message,
            "group_id": group_id,
        }
    broker.shares.refresh(group)
    return {
        "group_id": group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.epoch,
        "assignor_name": "simple",
        "members": [_member(broker, group, member) for member in group.members.values()],
    }


def _member(broker: Broker, group: ShareGroup, member: Member) -> dict[str, Any]:
    by_id = broker.catalogue.by_id
    return {
        "member_id": member.id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topics),
        "assignment": {
            "topic_partitions": [
                {"topic_id": each, "topic_name": by_id[each].name, "partitions": numbers}
                for each, numbers in member.assigned.items()
                if each in by_id
            ]
        },
    }


API = Api(77, "ShareGroupDescribe", (1, 1), describe, only_looks=True, lists=always)
