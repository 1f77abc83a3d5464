"""ConsumerGroupHeartbeat: how a member joins, stays, hears what to read, and leaves.

`service` calls `heartbeat` with a request whose form is right and a group that exists. It changes
the group and adds records to the turn; the answer is given when these are durable. A refusal
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from headwater.broker.groups.consumer import reconcile, regex, subscriptions, targets
from headwater.broker.groups.consumer.changes import Changes
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
    MemberState,
    Partitions,
    partitions_of,
)
from headwater.broker.groups.effects import Now
from headwater.broker.groups.image import Image, NoTopics


@dataclass(frozen=True, slots=True)
class ConsumerLimits:
    """The settings of one group, as they are at this moment."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    max_size: int = 2**31 - 1
    assignors: Sequence[str] = ("uniform", "range")


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


@dataclass(frozen=True, slots=True)
class Setting:
    """What a turn looks at besides the group: topics, limits, time."""

    image: Image
    limits: ConsumerLimits
    now: Now


class Refused(Exception):
    """A request that changes nothing, and why."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def heartbeat(group: ConsumerGroup, changes: Changes, beat: Beat, setting: Setting) -> Beaten:
    """Raises `Refused`."""
    _check_regex(beat.topic_regex)
    check_room(group, beat.member_id, beat.instance_id, setting.limits)
    member = _member(group, changes, beat)
    before = partitions_of(member.assigned)
    resubscribed = _update(member, beat, changes)
    follow(group, changes, setting, resubscribed)
    step(group, changes, setting, member, beat.owned, resubscribed)
    stay(group, member, setting.now, setting.limits.session_timeout_ms)
    after = partitions_of(member.assigned)
    tell = beat.epoch == JOIN_EPOCH or beat.is_full or before != after
    return Beaten(
        member_id=member.id,
        epoch=member.epoch,
        interval_ms=setting.limits.heartbeat_interval_ms,
        assignment=after if tell else None,
    )


# ---- steps that `classic` takes, too -------------------------------------------------------------


def follow(group: ConsumerGroup, changes: Changes, setting: Setting, resubscribed: bool) -> None:
    """Let the group follow its members' subscriptions and the topics, and assign anew."""
    image = setting.image
    stale = group.topics_seen != image.version
    if resubscribed or stale:
        for expression in subscriptions.resolve(group, image, setting.now.wall_ms, stale):
            changes.regex(expression)
        topics_changed = subscriptions.refresh(group, image)
        if resubscribed or topics_changed:
            raise_epoch(group, changes)
    assign(group, changes, setting)


def assign(group: ConsumerGroup, changes: Changes, setting: Setting) -> None:
    """Make a new target if the group has moved on, but not too often (KIP-1263)."""
    if group.epoch <= group.target_epoch:
        return
    left = setting.limits.assignment_interval_ms
    if group.target_timestamp:
        left -= max(setting.now.wall_ms - group.target_timestamp, 0)
    if group.target_timestamp and left > 0:
        group.assign_at = setting.now.monotonic_ms + left
        group.wake(group.assign_at)
        return
    group.assign_at = None
    changed = targets.update(group, setting.image, setting.limits.assignors, setting.now.wall_ms)
    changes.new_target(changed)


def raise_epoch(group: ConsumerGroup, changes: Changes) -> None:
    group.epoch += 1
    changes.group()


def step(
    group: ConsumerGroup,
    changes: Changes,
    setting: Setting,
    member: ConsumerMember,
    owned: Partitions | None,
    resubscribed: bool,
) -> None:
    ids = subscriptions.ids_of(group, member, setting.image) if resubscribed else None
    if reconcile.advance(group, member, owned, ids):
        changes.current(member.id)
    if member.state is not MemberState.UNREVOKED:
        member.rebalance_deadline = None
    elif member.rebalance_deadline is None:
        timeout = member.rebalance_timeout_ms
        member.rebalance_deadline = setting.now.monotonic_ms + timeout
        group.wake(member.rebalance_deadline)


def stay(group: ConsumerGroup, member: ConsumerMember, now: Now, session_timeout_ms: int) -> None:
    member.session_deadline = now.monotonic_ms + session_timeout_ms
    group.wake(member.session_deadline)


def expel(group: ConsumerGroup, changes: Changes, members: Sequence[ConsumerMember]) -> None:
    """Remove members; the others are assigned anew when they are next heard of."""
    for member in members:
        group.remove(member)
        changes.gone(member.id)
    for expression in subscriptions.resolve(group, NoTopics(), 0):
        changes.regex(expression)
    group.subscribe()
    raise_epoch(group, changes)


def replace_static(
    group: ConsumerGroup, changes: Changes, old: ConsumerMember, member_id: str
) -> ConsumerMember:
    """A static member is back under another member id: it inherits what the old one had."""
    target = group.target.get(old.id, {})
    assigned, revoking = old.assigned, old.revoking
    group.remove(old)
    changes.gone(old.id)
    member = ConsumerMember(
        member_id,
        old.instance_id,
        old.rack_id,
        old.client_id,
        old.client_host,
        old.topic_names,
        old.topic_regex,
        old.rebalance_timeout_ms,
        old.assignor,
        old.classic,
        state=old.state,
        assigned=assigned,
        revoking=revoking,
    )
    group.add(member)
    group.target[member_id] = target
    changes.arrived(member_id)
    return member


# ---- one by one ----------------------------------------------------------------------------------


def _check_regex(expression: str | None) -> None:
    if expression:
        try:
            regex.compiled(expression)
        except regex.BadRegex as bad:
            raise Refused(
                ErrorCode.invalid_regular_expression,
                f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {bad}.",
            ) from None


def check_room(
    group: ConsumerGroup, member_id: str, instance_id: str | None, limits: ConsumerLimits
) -> None:
    known = member_id in group.members or instance_id in group.static_ids
    if not known and len(group.members) >= limits.max_size:
        raise Refused(
            ErrorCode.group_max_size_reached,
            f"The consumer group has reached its maximum capacity of {limits.max_size} members.",
        )


def _member(group: ConsumerGroup, changes: Changes, beat: Beat) -> ConsumerMember:
    if beat.instance_id is None:
        member = group.members.get(beat.member_id)
        if member is None:
            if beat.epoch != JOIN_EPOCH:
                raise unknown_member(group, beat.member_id)
            return _new(group, changes, beat)
        if beat.epoch != JOIN_EPOCH:
            _check_epoch(member, beat)
        return member
    holder = group.static_ids.get(beat.instance_id)
    old = group.members[holder] if holder is not None else None
    if beat.epoch == JOIN_EPOCH:
        if old is None:
            return _new(group, changes, beat)
        if not old.is_away and old.classic is None:
            raise Refused(
                ErrorCode.unreleased_instance_id,
                f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join "
                f"the group because the instance id is owned by {old.id} member.",
            )
        return replace_static(group, changes, old, beat.member_id)
    member = static_member(group, beat.member_id, beat.instance_id)
    _check_epoch(member, beat)
    return member


def _new(group: ConsumerGroup, changes: Changes, beat: Beat) -> ConsumerMember:
    member = ConsumerMember(beat.member_id, beat.instance_id)
    group.add(member)
    changes.arrived(member.id)
    return member


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    holder = group.static_ids.get(instance_id)
    if holder is None:
        raise Refused(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    if holder != member_id:
        raise Refused(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder}.",
        )
    return group.members[holder]


def unknown_member(group: ConsumerGroup, member_id: str) -> Refused:
    return Refused(
        ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group.id}."
    )


def _check_epoch(member: ConsumerMember, beat: Beat) -> None:
    """The epoch must be ours, or the one before if the member has nothing that is not its own."""
    if beat.epoch > member.epoch:
        word = "greater"
    elif beat.epoch < member.epoch and (
        beat.epoch != member.previous_epoch or not _is_subset(beat.owned, member)
    ):
        word = "smaller"
    else:
        return
    raise Refused(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {word} member epoch ({beat.epoch}) than the one known by "
        f"the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _is_subset(owned: Partitions | None, member: ConsumerMember) -> bool:
    if owned is None:
        return False
    return all(
        numbers <= member.assigned.get(topic_id, {}).keys() for topic_id, numbers in owned.items()
    )


def _update(member: ConsumerMember, beat: Beat, changes: Changes) -> bool:
    """Take over what the member says now; True if it subscribes to something else."""
    before = (_said(member), member.topic_names, member.topic_regex)
    member.instance_id = beat.instance_id or member.instance_id
    member.rack_id = beat.rack_id or member.rack_id
    member.client_id, member.client_host = beat.client_id, beat.client_host
    member.classic = None
    if beat.rebalance_timeout_ms != -1:
        member.rebalance_timeout_ms = beat.rebalance_timeout_ms
    if beat.topic_names is not None:
        member.topic_names = beat.topic_names
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
    """Who leaves for good; None if a static member leaves for a moment. Raises `Refused`."""
    if beat.instance_id is None:
        member = group.members.get(beat.member_id)
        if member is None:
            raise unknown_member(group, beat.member_id)
    else:
        member = static_member(group, beat.member_id, beat.instance_id)
    if beat.epoch == LEAVE_EPOCH:
        return member
    member.epoch = LEAVE_STATIC_EPOCH
    group.hold(member, member.assigned, {})
    member.rebalance_deadline = None
    changes.current(member.id)
    return None
