"""Who gets which partition: the server-side assignors `uniform` and `range`.

`targets` calls one of them with the members' topics and their present targets. Pure functions; the
same input gives the same output, whatever the order of members.

`uniform` gives every member the same number of partitions, as nearly as subscriptions permit, and
moves as few of them as that needs. `range` gives each member consecutive partitions of every topic,
the same numbers in topics with equally many partitions, so that joins find their other half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from headwater.broker.groups.consumer.member import Partitions


@dataclass(frozen=True, slots=True)
class Claim:
    """One member, for an assignor."""

    topics: frozenset[UUID]
    current: Partitions = field(default_factory=dict)
    instance_id: str | None = None


Claims = Mapping[str, Claim]
Sizes = Mapping[UUID, int]
"""Topic id → number of partitions, of every topic that somebody subscribes to."""
Target = dict[str, dict[UUID, frozenset[int]]]
Assignor = Callable[[Claims, Sizes], Target]
_Held = dict[str, set[tuple[UUID, int]]]


def uniform(claims: Claims, sizes: Sizes) -> Target:
    members = sorted(claims)
    if not members:
        return {}
    held, free = _kept(claims, sizes, members)
    same = len({claims[member].topics for member in members}) == 1
    if same:
        _share_alike(held, free, members)
    else:
        _share_by_subscription(held, free, claims, sizes)
    return _grouped(held)


def range_(claims: Claims, sizes: Sizes) -> Target:
    held: _Held = {member: set() for member in claims}
    for topic_id, count in sizes.items():
        takers = sorted(
            (member for member, claim in claims.items() if topic_id in claim.topics),
            key=lambda member: (claims[member].instance_id or member, member),
        )
        if not takers:
            continue
        each, extra = divmod(count, len(takers))
        start = 0
        for index, member in enumerate(takers):
            end = start + each + (index < extra)
            held[member].update((topic_id, number) for number in range(start, end))
            start = end
    return _grouped(held)


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": range_}


def _kept(claims: Claims, sizes: Sizes, members: list[str]) -> tuple[_Held, list[tuple[UUID, int]]]:
    """What members may keep of their present targets, and what nobody has."""
    held: _Held = {member: set() for member in members}
    taken: set[tuple[UUID, int]] = set()
    for member in members:
        claim = claims[member]
        for topic_id, numbers in claim.current.items():
            if topic_id in claim.topics:
                size = sizes.get(topic_id, 0)
                mine = {(topic_id, number) for number in numbers if number < size} - taken
                held[member] |= mine
                taken |= mine
    wanted = frozenset().union(*(claim.topics for claim in claims.values()))
    free = [
        (topic_id, number)
        for topic_id in sorted(wanted & sizes.keys())
        for number in range(sizes[topic_id])
        if (topic_id, number) not in taken
    ]
    return held, free


def _share_alike(held: _Held, free: list[tuple[UUID, int]], members: list[str]) -> None:
    """All subscribe to the same: everybody gets the floor, the first few one more."""
    total = len(free) + sum(map(len, held.values()))
    floor, extra = divmod(total, len(members))
    # Those who already have more keep the extra ones: it saves a move.
    ranked = sorted(members, key=lambda member: -len(held[member]))
    quota = {member: floor + (index < extra) for index, member in enumerate(ranked)}
    for member in members:
        surplus = len(held[member]) - quota[member]
        if surplus > 0:
            given_up = sorted(held[member])[-surplus:]
            held[member].difference_update(given_up)
            free.extend(given_up)
    open_for = [member for member in members if len(held[member]) < quota[member]]
    place = 0
    for partition in free:
        member = open_for[place % len(open_for)]
        held[member].add(partition)
        if len(held[member]) == quota[member]:
            open_for.remove(member)
        else:
            place += 1


def _share_by_subscription(
    held: _Held, free: list[tuple[UUID, int]], claims: Claims, sizes: Sizes
) -> None:
    """Different subscriptions: the least loaded takes each free one, then loads are evened out."""
    takers = {
        topic_id: [member for member in held if topic_id in claims[member].topics]
        for topic_id in sizes
    }
    # Topics that few can take come first, while those few still have room.
    for topic_id, number in sorted(free, key=lambda each: (len(takers[each[0]]), each)):
        member = min(takers[topic_id], key=lambda m: (len(held[m]), m))
        held[member].add((topic_id, number))
    while _even_out(held, takers):
        pass


def _even_out(held: _Held, takers: dict[UUID, list[str]]) -> bool:
    """Move partitions from members to others who have at least two fewer.

    Every move lowers the sum of the squares of the loads, so this ends.
    """
    moved = False
    for member in sorted(held, key=lambda m: (-len(held[m]), m)):
        for partition in sorted(held[member]):
            other = min(takers[partition[0]], key=lambda m: (len(held[m]), m))
            if len(held[other]) + 1 < len(held[member]):
                held[member].remove(partition)
                held[other].add(partition)
                moved = True
    return moved


def _grouped(held: _Held) -> Target:
    target: Target = {}
    for member, partitions in held.items():
        by_topic: dict[UUID, set[int]] = {}
        for topic_id, number in partitions:
            by_topic.setdefault(topic_id, set()).add(number)
        target[member] = {topic_id: frozenset(each) for topic_id, each in by_topic.items()}
    return target
