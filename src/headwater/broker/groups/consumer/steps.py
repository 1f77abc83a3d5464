"""The steps that a consumer group takes, whichever protocol its members speak.

`heartbeat` and `classic` put them together for one request, `service` for time-outs and removals. A
step changes the group and notes in `Changes` what it touched; `HeartbeatRefused` is raised before anything is
changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker.groups.consumer import reconcile, subscriptions
from headwater.broker.groups.consumer.assignors import ASSIGNORS, Claim
from headwater.broker.groups.consumer.changes import Changes
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ConsumerMember, Partitions
from headwater.broker.groups.consumer.subscriptions import ids_of, sizes
from headwater.broker.groups.effects import Now
from headwater.broker.groups.group import HeartbeatRefused, Image


@dataclass(frozen=True, slots=True)
class ConsumerLimits:
    """The settings of one group, as they are at this moment."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    max_size: int = 2**31 - 1
    assignors: Sequence[str] = ("uniform", "range")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a turn looks at besides the group: topics, limits, time."""

    image: Image
    limits: ConsumerLimits
    now: Now


def follow(group: ConsumerGroup, changes: Changes, setting: Setting, resubscribed: bool) -> None:
    """Let the group follow its members' subscriptions and the topics, and assign anew."""
    image = setting.image
    stale = group.topics_seen != image.version
    if resubscribed or stale:
        for expression in subscriptions.resolve(group, image, setting.now.wall_ms, stale):
            changes.regex(expression)
        topics_changed = subscriptions.refresh(group, image)
        if resubscribed or topics_changed:
            changes.raise_epoch()
    assign(group, changes, setting)


def assign(group: ConsumerGroup, changes: Changes, setting: Setting) -> None:
    """Make a new target if the group has moved on, but not too often (KIP-1263)."""
    if group.epoch <= group.target_epoch:
        return
    if not group.puts_off_assignment(setting.limits.assignment_interval_ms, setting.now):
        changes.new_target(update(group, setting.image, setting.limits.assignors, setting.now))


def step(
    group: ConsumerGroup,
    changes: Changes,
    setting: Setting,
    member: ConsumerMember,
    owned: Partitions | None,
    resubscribed: bool,
) -> None:
    ids = ids_of(group.known_topics_of(member), setting.image) if resubscribed else None
    if reconcile.advance(group, member, owned, ids):
        changes.current(member.id)
    group.await_release(member, setting.now)


def expel(group: ConsumerGroup, changes: Changes, members: Sequence[ConsumerMember]) -> None:
    """Remove members; the others are assigned anew when they are next heard of."""
    for member in members:
        group.remove(member)
        changes.gone(member.id)
    for expression in subscriptions.forget(group):
        changes.regex(expression)
    group.subscribe()
    changes.raise_epoch()


def replace_static(
    group: ConsumerGroup,
    changes: Changes,
    old: ConsumerMember,
    member_id: str,
    instance_id: str | None = None,
) -> ConsumerMember:
    """A static member is back under another member id, or a member under another instance id: it inherits
    what the old one had. If the id is somebody's already, that one is the same process, and goes."""
    other = group.members.get(member_id)
    if other is not None and other is not old:
        expel(group, changes, [other])
    target = group.target.get(old.id, {})
    assigned, revoking = old.assigned, old.revoking
    group.remove(old)
    changes.gone(old.id)
    member = ConsumerMember(
        member_id,
        instance_id or old.instance_id,
        old.rack_id,
        old.client_id,
        old.client_host,
        old.rebalance_timeout_ms,
        state=old.state,
        topic_names=old.topic_names,
        topic_regex=old.topic_regex,
        assignor=old.assignor,
        classic=old.classic,
        assigned=assigned,
        revoking=revoking,
    )
    group.add(member)
    group.target[member_id] = target
    changes.arrived(member_id)
    return member


def check_room(
    group: ConsumerGroup, member_id: str, instance_id: str | None, limits: ConsumerLimits
) -> None:
    known = member_id in group.members or instance_id in group.static_ids
    if not known and len(group.members) >= limits.max_size:
        raise HeartbeatRefused(
            ErrorCode.group_max_size_reached,
            f"The consumer group has reached its maximum capacity of {limits.max_size} members.",
        )


NAMES_MAX = 500_000
"""In all subscriptions of a group that differ: each change of one is a look at all of them, in one turn."""


def check_names(group: ConsumerGroup, member_id: str, names: frozenset[str] | None) -> None:
    """Raises `HeartbeatRefused`."""
    if not names:
        return
    others = {each.topic_names for each in group.members.values() if each.id != member_id}
    if names not in others and len(names) + sum(map(len, others)) > NAMES_MAX:
        raise HeartbeatRefused(
            ErrorCode.group_max_size_reached,
            f"The consumer group's members subscribe to more than {NAMES_MAX} topics, each to others.",
        )


def same_names(group: ConsumerGroup, names: frozenset[str]) -> frozenset[str]:
    """One set for all members who say the same names: to compare them costs nothing then."""
    others = (each.topic_names for each in group.members.values())
    return next((each for each in others if hash(each) == hash(names) and each == names), names)


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    holder = group.static_ids.get(instance_id)
    if holder is None:
        raise HeartbeatRefused(
            ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown."
        )
    if holder != member_id:
        raise HeartbeatRefused(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder}.",
        )
    return group.members[holder]


def update(group: ConsumerGroup, image: Image, assignors: Sequence[str], now: Now) -> list[str]:
    """Assign anew; returns the members whose target has changed."""
    ids: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}  # many subscribe to the same
    claims = {}
    for member in group.members.values():
        if member.subscription not in ids:
            ids[member.subscription] = ids_of(group.known_topics_of(member), image)
        current = group.target.get(member.id, {})
        claims[member.id] = Claim(ids[member.subscription], current, member.instance_id)
    preferred = group.preferred_assignor()
    name = preferred if preferred in assignors else assignors[0]
    assert name is not None
    return group.set_target(dict(ASSIGNORS[name](claims, sizes(group, image))), now)
