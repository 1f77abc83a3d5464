"""One member, one step closer to its target assignment: revoke first, then assign.

`steps` calls `advance` with what the member says it still owns. The steps:

    STABLE, UNRELEASED ──partitions to let go──▶ UNREVOKED (keeps its epoch until they are gone)
         ▲                                          │ no longer owned by the member
         └──── all of the target free ◀─────────────┤
    UNRELEASED ◀── part of the target still owned by others

A member that must let go of something must not get a new epoch or anything else before it has: its
old epoch is what fences its commits.
"""

from __future__ import annotations

from uuid import UUID

from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ConsumerMember, Held, Partitions
from headwater.broker.groups.modern.member import MemberState, split


def advance(
    group: ConsumerGroup,
    member: ConsumerMember,
    owned: Partitions | None,
    subscribed_ids: frozenset[UUID] | None = None,
) -> bool:
    """Bring the member as far as it can go now; says whether anything changed.

    `owned` is None if the member did not say. `subscribed_ids` is given when its subscription has
    changed: what it no longer subscribes to is taken from it at once.
    """
    if member.is_at(group.target_epoch):
        return subscribed_ids is not None and _drop_unsubscribed(
            group, member, owned, subscribed_ids
        )
    if member.state is MemberState.UNREVOKED and _still_owns(owned, member.revoking):
        return subscribed_ids is not None and _drop_unsubscribed(
            group, member, owned, subscribed_ids
        )
    return _next(group, member, owned, subscribed_ids)


def _next(
    group: ConsumerGroup,
    member: ConsumerMember,
    owned: Partitions | None,
    subscribed_ids: frozenset[UUID] | None,
) -> bool:
    before = (member.state, member.epoch, member.assigned, member.revoking)
    target = group.target.get(member.id, {})
    if subscribed_ids is not None:
        target = {id: numbers for id, numbers in target.items() if id in subscribed_ids}
    kept, dropped = split(member.assigned, target)
    if dropped and _still_owns(owned, dropped):
        group.hold(member, kept, dropped)
        member.state = MemberState.UNREVOKED
        if before[0] is not MemberState.UNREVOKED:
            member.rebalance_deadline = None  # a new one is set for what is to be let go now
    else:
        group.hold(member, kept, {})
        complete = _take_free(group, member, target)
        member.state = MemberState.STABLE if complete else MemberState.UNRELEASED
        if member.epoch != group.target_epoch:
            member.move_to_epoch(group.target_epoch)
    return before != (member.state, member.epoch, member.assigned, member.revoking)


def _take_free(group: ConsumerGroup, member: ConsumerMember, target: Partitions) -> bool:
    """Assign what is free of the target; False if something is not."""
    taken = {topic_id: dict(partitions) for topic_id, partitions in member.assigned.items()}
    complete = True
    for topic_id, numbers in target.items():
        for number in numbers:
            owner = group.owners.get((topic_id, number))
            if owner is None:
                taken.setdefault(topic_id, {})[number] = group.target_epoch
            elif owner != member.id:
                complete = False
    group.hold(member, taken, {})
    return complete


def _drop_unsubscribed(
    group: ConsumerGroup,
    member: ConsumerMember,
    owned: Partitions | None,
    subscribed_ids: frozenset[UUID],
) -> bool:
    kept = {id: held for id, held in member.assigned.items() if id in subscribed_ids}
    dropped = {id: held for id, held in member.assigned.items() if id not in subscribed_ids}
    if not dropped:
        return False
    revoking = {id: dict(held) for id, held in member.revoking.items()}
    for topic_id, held in dropped.items():
        revoking.setdefault(topic_id, {}).update(held)
    if _still_owns(owned, revoking):
        group.hold(member, kept, revoking)
        member.state = MemberState.UNREVOKED
    else:
        group.hold(member, kept, member.revoking)
    return True


def _still_owns(owned: Partitions | None, held: Held) -> bool:
    """A member that does not say what it owns is taken to own all it had."""
    if owned is None:
        return bool(held)
    return any(
        not numbers.isdisjoint(held.get(topic_id, {})) for topic_id, numbers in owned.items()
    )
