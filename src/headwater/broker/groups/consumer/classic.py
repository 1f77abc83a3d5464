"""Classic members in a group of the newer protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

`service` calls these, so that a group can be upgraded client by client. The member's generation is
its epoch. JoinGroup is its full heartbeat: it says what it subscribes to and owns, and takes one
step; SyncGroup tells it what it has; Heartbeat sends it back to JoinGroup whenever there is a next
step to take. It is nobody's leader: the broker assigns.
"""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker.groups.consumer.changes import Changes
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ClassicSide, ConsumerMember
from headwater.broker.groups.consumer.steps import (
    Setting,
    check_names,
    check_room,
    follow,
    replace_static,
    same_names,
    static_member,
    step,
)
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.effects import NO_MEMBER_ID, Joined, Now, Synced
from headwater.broker.groups.group import HeartbeatRefused, Image
from headwater.broker.groups.join import JoinRequest
from headwater.broker.groups.member import Protocols
from headwater.broker.groups.modern.member import MemberState
from headwater.broker.groups.subscription import (
    CONSUMER,
    Subscription,
    read_subscription,
    write_assignment,
)
from headwater.broker.groups.sync import SyncRequest


def join(
    group: ConsumerGroup, changes: Changes, request: JoinRequest, setting: Setting
) -> tuple[ConsumerMember, bool]:
    """Returns the member, and whether it subscribes to something else now; raises `HeartbeatRefused`."""
    check_room(group, request.member_id, request.instance_id, setting.limits)
    if not _supports(group, request):
        raise HeartbeatRefused(ErrorCode.inconsistent_group_protocol, "")
    said = _subscription(request.protocols)
    said = said._replace(topics=same_names(group, said.topics))
    check_names(group, request.member_id, said.topics)
    is_new = request.member_id == NO_MEMBER_ID
    if is_new and request.instance_id is None and request.needs_known_id:
        raise HeartbeatRefused(ErrorCode.member_id_required, request.fresh_id)
    member = _member(group, changes, request, is_new)
    owned = _owned(member, said, setting.image)
    resubscribed = _update(member, changes, request, said)
    follow(group, changes, setting, resubscribed)
    step(group, changes, setting, member, owned, resubscribed)
    group.stay(member, setting.now, request.session_timeout_ms)
    member.join_deadline = None
    member.sync_deadline = setting.now.monotonic_ms + member.rebalance_timeout_ms
    group.wake(member.sync_deadline)
    return member, resubscribed


def joined(member: ConsumerMember) -> Joined:
    assert member.classic is not None
    return Joined(
        member_id=member.id,
        generation=member.epoch,
        protocol_type=CONSUMER,
        protocol=member.classic.protocols[0][0],
    )


def sync(group: ConsumerGroup, request: SyncRequest, image: Image, now: Now) -> Synced:
    found = _speaker(group, request.member_id, request.instance_id, request.generation)
    if isinstance(found, ErrorCode):
        return Synced(found)
    member, side = found
    protocol, metadata = side.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol not in (None, protocol):
        return Synced(ErrorCode.inconsistent_group_protocol)
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        _call_back(group, member, now)
        return Synced(ErrorCode.rebalance_in_progress)
    member.sync_deadline = None
    group.stay(member, now, side.session_timeout_ms)
    names = {topic.id: name for name, topic in image.topics.items() if topic.id in member.assigned}
    partitions = {
        names[topic_id]: numbers
        for topic_id, numbers in member.assigned.items()
        if topic_id in names
    }
    version = read_subscription(metadata).version
    return Synced(ErrorCode.none, CONSUMER, protocol, write_assignment(version, partitions))


def heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now
) -> ErrorCode:
    found = _speaker(group, member_id, instance_id, generation)
    if isinstance(found, ErrorCode):
        return found
    member, side = found
    group.stay(member, now, side.session_timeout_ms)
    waits = member.state is MemberState.UNRELEASED and group.waits_for_others(member)
    settled = member.state is MemberState.STABLE or waits
    if member.epoch < group.epoch or not settled:
        _call_back(group, member, now)
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def leaver(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember | ErrorCode:
    """Who is meant by one entry of LeaveGroup; an administrator gives only the instance id."""
    if member_id == NO_MEMBER_ID and instance_id is not None:
        member_id = group.static_ids.get(instance_id, NO_MEMBER_ID)
    return group.find(member_id, instance_id)


def _speaker(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicSide] | ErrorCode:
    member = group.find(member_id, instance_id)
    if isinstance(member, ErrorCode):
        return member
    if member.classic is None:
        return ErrorCode.unknown_member_id
    if generation != member.epoch:
        return ErrorCode.illegal_generation
    return member, member.classic


def _call_back(group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """It has to send JoinGroup, and not too late."""
    if member.join_deadline is None:
        member.join_deadline = now.monotonic_ms + member.rebalance_timeout_ms
        group.wake(member.join_deadline)


def _supports(group: ConsumerGroup, request: JoinRequest) -> bool:
    """Is there an assignor that this member and all other classic ones know?"""
    if request.protocol_type != CONSUMER or not request.protocols:
        return False
    common = {name for name, _ in request.protocols}
    for member in group.members.values():
        if member.classic is not None and member.id != request.member_id:
            common &= {name for name, _ in member.classic.protocols}
    return bool(common)


def _subscription(protocols: Protocols) -> Subscription:
    try:
        return read_subscription(protocols[0][1])
    except BadRecord:
        raise HeartbeatRefused(ErrorCode.inconsistent_group_protocol, "") from None


def _member(
    group: ConsumerGroup, changes: Changes, request: JoinRequest, is_new: bool
) -> ConsumerMember:
    instance_id = request.instance_id
    holder = group.static_ids.get(instance_id) if instance_id is not None else None
    if instance_id is not None and not is_new:
        return static_member(group, request.member_id, instance_id)
    if holder is not None:
        return replace_static(group, changes, group.members[holder], request.fresh_id)
    member_id = request.fresh_id if is_new else request.member_id
    if member_id in group.members:
        return group.members[member_id]
    member = ConsumerMember(member_id, instance_id)
    group.add(member)
    changes.arrived(member_id)
    return member


def _owned(member: ConsumerMember, said: Subscription, image: Image) -> dict[UUID, frozenset[int]]:
    """What it says it owns counts if it says so of its present generation."""
    if said.generation != member.epoch:
        return {}
    return {
        image.topics[name].id: numbers
        for name, numbers in said.owned.items()
        if name in image.topics
    }


def _update(
    member: ConsumerMember, changes: Changes, request: JoinRequest, said: Subscription
) -> bool:
    before = (member.topic_names, member.topic_regex)
    rebalance_timeout_ms = request.rebalance_timeout_ms
    if rebalance_timeout_ms < 0:
        rebalance_timeout_ms = request.session_timeout_ms
    now_says = (
        request.instance_id or member.instance_id,
        said.rack,
        request.client_id,
        request.client_host,
        rebalance_timeout_ms,
        ClassicSide(request.session_timeout_ms, request.protocols),
    )
    if now_says != _said(member) or before != (said.topics, ""):
        changes.member(member.id)
    (
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic,
    ) = now_says
    member.topic_names, member.topic_regex, member.assignor = said.topics, "", None
    return before != (member.topic_names, member.topic_regex)


def _said(member: ConsumerMember) -> tuple[object, ...]:
    return (
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic,
    )
