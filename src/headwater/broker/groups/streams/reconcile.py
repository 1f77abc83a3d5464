"""One member of a streams group, one step closer to its target: let go first, then take.

As `consumer.reconcile`, with three roles for a task instead of one. An active task is free when nobody
has it; in whatever role, a process must not have it twice: its members share one folder of state.
"""

from __future__ import annotations

from headwater.broker.groups.modern.member import MemberState, split
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import (
    Assignment,
    Holding,
    StreamsMember,
    Task,
    each_task,
    nothing,
)


def advance(
    group: StreamsGroup,
    member: StreamsMember,
    owned: Assignment | None,
    target: Assignment,
    target_epoch: int,
) -> bool:
    """Bring the member as far as it can go now; says whether anything changed. `owned` is None if the
    member did not say."""
    if member.is_at(target_epoch):
        return False
    waits = member.state is MemberState.UNREVOKED
    if waits and _still_owns(owned, member.revoking):
        return False
    before = (member.state, member.epoch, member.previous_epoch, member.assigned, member.revoking)
    sides = [split(held, wanted) for held, wanted in zip(member.assigned, target, strict=True)]
    kept, dropped = (Holding(*parts) for parts in zip(*sides, strict=True))
    if not dropped.is_empty and _still_owns(owned, dropped):
        group.hold(member, kept, dropped)
        member.state = MemberState.UNREVOKED
        member.rebalance_deadline = None  # a new one is set for what is to be let go now
        epoch = member.epoch + 1 if waits else member.epoch
    else:
        group.hold(member, kept, nothing())
        complete = _take_free(group, member, target, target_epoch)
        member.state = MemberState.STABLE if complete else MemberState.UNRELEASED
        epoch = target_epoch
    member.previous_epoch, member.epoch = member.epoch, epoch
    now = (member.state, member.epoch, member.previous_epoch, member.assigned, member.revoking)
    return before != now


def _take_free(group: StreamsGroup, member: StreamsMember, target: Assignment, epoch: int) -> bool:
    """Assign what is free of the target; False if something is not."""
    complete = True
    taken = []
    for role, (held, wanted) in enumerate(zip(member.assigned, target, strict=True)):
        more = {subtopology: dict(numbers) for subtopology, numbers in held.items()}
        for task in each_task(wanted):
            subtopology, number = task
            if number in more.get(subtopology, ()):
                continue
            if _is_free(group, member, task, is_active=role == 0):
                more.setdefault(subtopology, {})[number] = epoch
            else:
                complete = False
        taken.append(more)
    group.hold(member, Holding(*taken), nothing())
    return complete


def _is_free(group: StreamsGroup, member: StreamsMember, task: Task, is_active: bool) -> bool:
    owner = group.owners.get(task)
    if owner is not None and (is_active or group.process_of(owner) == member.process_id):
        return False
    return all(group.process_of(other) != member.process_id for other in group.copies.get(task, ()))


def _still_owns(owned: Assignment | None, held: Holding) -> bool:
    """A member that does not say what it owns is taken to own all it had."""
    if owned is None:
        return True
    return any(
        not numbers.isdisjoint(had.get(subtopology, {}))
        for says, had in zip(owned, held, strict=True)
        for subtopology, numbers in says.items()
    )
