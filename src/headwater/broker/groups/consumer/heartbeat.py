"""ConsumerGroupHeartbeat: how a member joins, stays, hears what to read, and leaves.

`service` calls `heartbeat` with a request whose form is right and a group that exists. It changes
the group and adds records to the turn; the answer is given when these are durable. A refusal
changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from headwater.broker.groups.consumer import topic_regex
from headwater.broker.groups.consumer.changes import Changes
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import (
    ConsumerMember,
    Partitions,
    partitions_of,
)
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
from headwater.broker.groups.group import HeartbeatRefused, Image
from headwater.broker.groups.modern.member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH


@dataclass(frozen=True, slots=True)
class Beat:
    """The request. None (or -1) means: as I said before."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Says everything, so it wants to hear everything."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True)
class Beaten:
    """The answer."""

    error: ErrorCode = ErrorCode.none
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Partitions | None = None
    """None: as you know it."""


def heartbeat(group: ConsumerGroup, changes: Changes, beat: Beat, setting: Setting) -> Beaten:
    """Raises `HeartbeatRefused`."""
    _check_regex(group, beat.topic_regex, setting.image)
    check_room(group, beat.member_id, beat.instance_id, setting.limits)
    check_names(group, beat.member_id, beat.topic_names)
    member = _member(group, changes, beat)
    before = partitions_of(member.assigned)
    resubscribed = _update(group, member, beat, changes)
    follow(group, changes, setting, resubscribed)
    step(group, changes, setting, member, beat.owned, resubscribed)
    group.stay(member, setting.now, setting.limits.session_timeout_ms)
    after = partitions_of(member.assigned)
    tell = beat.epoch == JOIN_EPOCH or beat.is_full or before != after
    return Beaten(
        member_id=member.id,
        epoch=member.epoch,
        interval_ms=setting.limits.heartbeat_interval_ms,
        assignment=after if tell else None,
    )


def _check_regex(group: ConsumerGroup, expression: str | None, image: Image) -> None:
    if expression and expression not in group.regexes:
        said, names = topic_regex.compiled(expression), topic_regex.names_of(image.topics)
        try:
            said.check()
            if topic_regex.Budget().allows(said, names):
                said.among(names)
        except topic_regex.BadRegex as bad:
            raise HeartbeatRefused(
                ErrorCode.invalid_regular_expression,
                f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {bad}.",
            ) from None


def _member(group: ConsumerGroup, changes: Changes, beat: Beat) -> ConsumerMember:
    if beat.instance_id is None:
        member = group.members.get(beat.member_id)
        if member is None:
            if beat.epoch != JOIN_EPOCH:
                raise group.unknown_member(beat.member_id)
            return _new(group, changes, beat)
        if beat.epoch != JOIN_EPOCH:
            member.check_epoch("consumer", beat.epoch, _is_subset(beat.owned, member))
        return member
    holder = group.static_ids.get(beat.instance_id)
    old = group.members[holder] if holder is not None else None
    if beat.epoch == JOIN_EPOCH:
        if old is None:
            return _new(group, changes, beat)
        if not old.is_away and old.classic is None:
            raise HeartbeatRefused(
                ErrorCode.unreleased_instance_id,
                f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join "
                f"the group because the instance id is owned by {old.id} member.",
            )
        return replace_static(group, changes, old, beat.member_id)
    member = static_member(group, beat.member_id, beat.instance_id)
    member.check_epoch("consumer", beat.epoch, _is_subset(beat.owned, member))
    return member


def _new(group: ConsumerGroup, changes: Changes, beat: Beat) -> ConsumerMember:
    known = group.members.get(beat.member_id)
    if known is not None:
        return replace_static(group, changes, known, beat.member_id, beat.instance_id)
    member = ConsumerMember(beat.member_id, beat.instance_id)
    group.add(member)
    changes.arrived(member.id)
    return member


def _is_subset(owned: Partitions | None, member: ConsumerMember) -> bool:
    if owned is None:
        return False
    return all(
        numbers <= member.assigned.get(topic_id, {}).keys() for topic_id, numbers in owned.items()
    )


def _update(group: ConsumerGroup, member: ConsumerMember, beat: Beat, changes: Changes) -> bool:
    """Take over what the member says now; True if it subscribes to something else."""
    before = (_said(member), member.topic_names, member.topic_regex)
    member.instance_id = beat.instance_id or member.instance_id
    member.rack_id = beat.rack_id or member.rack_id
    member.client_id, member.client_host = beat.client_id, beat.client_host
    member.classic = None
    if beat.rebalance_timeout_ms != -1:
        member.rebalance_timeout_ms = beat.rebalance_timeout_ms
    if beat.topic_names is not None:
        member.topic_names = same_names(group, beat.topic_names)
    if beat.topic_regex is not None:
        member.topic_regex = beat.topic_regex
    member.assignor = beat.assignor or member.assignor
    if before != (_said(member), member.topic_names, member.topic_regex):
        changes.member(member.id)
    return before[1:] != (member.topic_names, member.topic_regex)


def _said(member: ConsumerMember) -> tuple[object, ...]:
    return (
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.assignor,
        member.classic,
    )


def leave(group: ConsumerGroup, changes: Changes, beat: Beat) -> ConsumerMember | None:
    """Who leaves for good; None if a static member leaves for a moment. Raises `HeartbeatRefused`."""
    if beat.instance_id is None:
        member = group.members.get(beat.member_id)
        if member is None:
            raise group.unknown_member(beat.member_id)
    else:
        member = static_member(group, beat.member_id, beat.instance_id)
    if beat.epoch == LEAVE_EPOCH:
        return member
    member.epoch = LEAVE_STATIC_EPOCH
    group.hold(member, member.assigned, {})
    member.rebalance_deadline = None
    changes.current(member.id)
    return None
