"""ConsumerGroupDescribe (key 69), versions 0 and 1: state, epochs and members of consumer groups.

Each member with what it reads now and what it is to read in the end; 1+ also says whether it speaks
the classic protocol. A group that does not exist, or is of another type, is GROUP_ID_NOT_FOUND.

KIP-848, KIP-1099 (1: member type).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker.api.k15_describe_groups import ALL_OPERATIONS
from headwater.broker.bounds import shown
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ConsumerMember, Partitions, partitions_of
from headwater.broker.once import once
from headwater.broker.registry import Api, Context, always
from headwater.broker.turns import in_turns

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

CLASSIC, CONSUMER = 0, 1


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    answer = [await _describe(broker, group_id) for group_id in once(request.group_ids)]
    if request.include_authorized_operations:
        for group in answer:
            if group["error_code"] is ErrorCode.none:
                group["authorized_operations"] = ALL_OPERATIONS
    return {"groups": answer}


async def _describe(broker: Broker, group_id: str) -> dict[str, Any]:
    if broker.groups.refusal is not ErrorCode.none:
        return {"group_id": group_id, "error_code": broker.groups.refusal}
    if not group_id:
        return {"group_id": group_id, "error_code": ErrorCode.invalid_group_id}
    group = broker.groups.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or group.dead:
        problem = "not found" if group is None else "is not a consumer group"
        return {
            "group_id": group_id,
            "error_code": ErrorCode.group_id_not_found,
            "error_message": f"Group {shown(group_id)} {problem}.",
        }
    default: str = broker.settings.get("group.consumer.assignors")[0]
    members = in_turns(list(group.members.values()), broker.supervisor.monotonic)
    return {
        "error_code": ErrorCode.none,
        "group_id": group_id,
        "group_state": group.state_name,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "assignor_name": group.preferred_assignor() or default,
        "members": [_member(broker, group, member) async for member in members],
    }


def _member(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> dict[str, Any]:
    return {
        "member_id": member.id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topic_names),
        "subscribed_topic_regex": member.topic_regex,
        "assignment": _assignment(broker, _still_read(member)),
        "target_assignment": _assignment(broker, group.target.get(member.id, {})),
        "member_type": CONSUMER if member.classic is None else CLASSIC,
    }


def _still_read(member: ConsumerMember) -> Partitions:
    """All that it has, and all that it has not let go of yet."""
    read = dict(partitions_of(member.assigned))
    for topic_id, numbers in partitions_of(member.revoking).items():
        read[topic_id] = read.get(topic_id, frozenset()) | numbers
    return read


def _assignment(broker: Broker, partitions: Partitions) -> dict[str, Any]:
    """Topics that were deleted meanwhile are left out, as Kafka does."""
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": name, "partitions": sorted(numbers)}
            for topic_id, numbers in partitions.items()
            if (name := _name(broker, topic_id)) is not None
        ]
    }


def _name(broker: Broker, topic_id: UUID) -> str | None:
    topic = broker.catalogue.by_id.get(topic_id)
    return None if topic is None else topic.name


API = Api(69, "ConsumerGroupDescribe", (0, 1), handle, only_looks=True, lists=always)
