"""A classic group as its record in the log, and back.

`sync`, `join` and `rebalance` write the record before they tell members what it says;
`restore` makes groups of them at start. Only what must survive is in it: no waiting requests, no ids
that were handed out and not used, and of each member's protocols the chosen one.
"""

from __future__ import annotations

from headwater.broker.groups import records
from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.effects import Now
from headwater.broker.groups.member import Member
from headwater.broker.groups.records import GroupValue, MemberValue


def record_of(group: ClassicGroup, assignments: dict[str, bytes] | None = None) -> bytes:
    """The group with the given assignments, or with those that its members have."""
    members = tuple(_value(group, member, assignments) for member in group.members.values())
    return records.group_value(
        GroupValue(
            group.protocol_type or "",
            group.generation,
            group.protocol,
            group.leader,
            group.state_timestamp,
            members,
        )
    )


def _value(
    group: ClassicGroup, member: Member, assignments: dict[str, bytes] | None
) -> MemberValue:
    return MemberValue(
        member.id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(group.protocol),
        member.assignment if assignments is None else assignments.get(member.id, b""),
    )


def restored(group_id: str, value: GroupValue, now: Now) -> ClassicGroup:
    """With members the group is stable, without it is empty.

    Each member gets a full session time-out from now, as if it had just been heard of.
    """
    group = ClassicGroup(group_id, now)
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.state_timestamp = value.state_timestamp
    if value.members:
        group.state = State.STABLE
        group.protocol = value.protocol
    for stored in value.members:
        member = _member(stored, value.protocol or "")
        member.session_deadline = now.monotonic_ms + member.session_timeout_ms
        group.add(member)
        group.wake(member.session_deadline)
    group.leader = value.leader if value.leader in group.members else group.leader
    group.read_subscriptions()
    return group


def _member(stored: MemberValue, protocol: str) -> Member:
    return Member(
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        stored.session_timeout_ms,
        ((protocol, stored.subscription),),
        stored.assignment,
    )
