"""Who gets which partition: the server-side assignors `uniform` and `range`.

`steps` calls one of them with the members' topics and their present targets. Pure functions; the
same input gives the same output, whatever the order of members.

`uniform` gives every member the same number of partitions, as nearly as subscriptions permit, and
moves as few of them as that needs. `range` gives each member consecutive partitions of every topic,
the same numbers in topics with equally many partitions, so that joins find their other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import chain, groupby
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
HEAP_PAYS = 8
"""To look through all members is quicker than a heap of them, for fewer partitions than this."""
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
    members = sorted(claims, key=lambda member: (claims[member].instance_id or member, member))
    crowds = _Crowds(members, claims, sizes)
    for topic_id, count in sizes.items():
        takers = crowds.takers(topic_id)
        if not takers:
            continue
        each, extra = divmod(count, len(takers))
        start = 0
        for index, member in enumerate(takers[:count]):
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
    wanted = frozenset().union(*{claim.topics for claim in claims.values()})
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


class _Crowds:
    """Who may take a topic. Topics that the same members may take have one crowd: where many subscribe to the
    same, there are few crowds, and little to find out, however many topics and members there are."""

    def __init__(self, members: list[str], claims: Claims, sizes: Sizes) -> None:
        """Crowds have their members in the order of these."""
        kinds: dict[frozenset[UUID], int] = {}
        places: list[list[int]] = []
        for place, member in enumerate(members):
            kind = kinds.setdefault(claims[member].topics, len(kinds))
            if kind == len(places):
                places.append([])
            places[kind].append(place)
        wanted_by: dict[UUID, list[int]] = {topic_id: [] for topic_id in sizes}
        for topics, kind in kinds.items():
            for topic_id in topics:
                if (found := wanted_by.get(topic_id)) is not None:
                    found.append(kind)
        numbers: dict[tuple[int, ...], int] = {}
        self.of = {
            topic_id: numbers.setdefault(tuple(each), len(numbers))
            for topic_id, each in wanted_by.items()
        }
        """Topic → the number of its crowd."""
        ordered = (sorted(chain.from_iterable(places[n] for n in some)) for some in numbers)
        self.members = [[members[place] for place in crowd] for crowd in ordered]

    def takers(self, topic_id: UUID) -> list[str]:
        return self.members[self.of[topic_id]]


def _share_by_subscription(
    held: _Held, free: list[tuple[UUID, int]], claims: Claims, sizes: Sizes
) -> None:
    """Different subscriptions: the least loaded takes each free one, then loads are evened out."""
    crowds = _Crowds(sorted(held), claims, sizes)
    loads = {member: len(partitions) for member, partitions in held.items()}

    def crowd(partition: tuple[UUID, int]) -> int:
        return crowds.of[partition[0]]

    # Topics that few can take come first, while those few still have room.
    ordered = sorted(free, key=lambda each: (len(crowds.takers(each[0])), crowd(each)))
    for number, some in groupby(ordered, key=crowd):
        partitions = list(some)
        members = _least(crowds.members[number], len(partitions), loads)
        for partition, member in zip(partitions, members, strict=True):
            held[member].add(partition)
    while _even_out(held, crowds, loads):
        pass


def _least(members: list[str], count: int, loads: dict[str, int]) -> Iterator[str]:
    """Who is to have the next one, so many times; each counts as had. Members are in the order of names:
    of those with as few, the first is taken."""
    if count < HEAP_PAYS:
        for _ in range(count):
            member = min(members, key=loads.__getitem__)
            loads[member] += 1
            yield member
        return
    line = [(loads[member], place) for place, member in enumerate(members)]
    heapify(line)
    for _ in range(count):
        load, place = line[0]
        heapreplace(line, (load + 1, place))
        loads[members[place]] = load + 1
        yield members[place]


def _even_out(held: _Held, crowds: _Crowds, loads: dict[str, int]) -> bool:
    """Move partitions from members to others who have at least two fewer.

    Every move lowers the sum of the squares of the loads, so this ends. The event loop waits for it, and
    there may be thousands of partitions and members: who is least loaded is looked up once for each crowd
    until something moves, and not at all for a member that has as few as anybody.
    """
    moved = False
    lowest = min(loads.values())
    least: dict[int, str] = {}
    for member in sorted(held, key=lambda m: (-loads[m], m)):
        if lowest + 1 >= loads[member]:
            continue
        mine = sorted((crowds.of[each[0]], each) for each in held[member])
        for number, some in groupby(mine, key=lambda each: each[0]):
            for _, partition in some:
                if number not in least:
                    least[number] = min(crowds.members[number], key=loads.__getitem__)
                other = least[number]
                if loads[other] + 1 >= loads[member]:
                    break
                held[member].remove(partition)
                held[other].add(partition)
                loads[member] -= 1
                loads[other] += 1
                least.clear()
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
