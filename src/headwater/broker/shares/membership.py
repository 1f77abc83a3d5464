"""Who is in a share group and who reads what: the group as its coordinator sees it. Pure.

The heartbeat handler joins, keeps and removes members here; the server assigns (KIP-932's simple
assignor). Several members may have the same partition, so an assignment takes effect at once: nobody
has to give anything up first. A member's epoch is the group's epoch of the assignment that it was
told last.

Members are not written down: after a restart each one is unknown, is told so, and joins again with
its next heartbeat. What the group has done with its records is in the log.

Also here: the simple assignor of share groups (KIP-932): who reads which partition. Pure.

Every partition has one reader, and every member something to read if it can be: those who are left with
nothing share a partition with another. So there are no more assignments than partitions and members,
however many subscribe to however much. Members and partitions are dealt out in order, so that a small
change moves little.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

JOIN, LEAVE = 0, -1


class GroupError(Exception):
    """A heartbeat that is refused."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class Member:
    """One consumer."""

    id: str
    client_id: str
    client_host: str
    rack_id: str | None
    topics: frozenset[str]
    """As it says; not all of them need be there."""
    epoch: int = 0
    previous: int = 0
    """Its epoch before: a heartbeat whose answer was lost comes again with this one."""
    deadline: int = 0
    """When its session ends, in ms of the monotonic clock."""
    assigned: Assignment = field(default_factory=dict)
    """What it was told last."""


@dataclass(slots=True)
class ShareGroup:
    """A group and its members."""

    id: str
    epoch: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    target: dict[str, Assignment] = field(default_factory=dict)
    changes: int = 0
    """Of its members and their subscriptions."""
    seen: object = None
    """The changes and topics that `target` was made for."""
    looked_at: object = None
    """The changes and the catalogue's version that `refresh` was last asked for."""

    is_held: bool = False
    """An administrator is at work on it (`administration`)."""
    is_dead: bool = False
    """It is being deleted."""

    def check_free(self) -> None:
        """Raises GroupError, for which clients come again soon."""
        if self.is_held:
            code = ErrorCode.coordinator_load_in_progress
            raise GroupError(code, f"Share group {self.id} is being changed.")

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    def subscribed(self, known: frozenset[str]) -> frozenset[str]:
        """Those of the known topics that a member subscribes to."""
        kinds = {member.topics for member in self.members.values()}
        return frozenset().union(*(topics & known for topics in kinds))

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        topics: Iterable[str] | None,
        *,
        client: tuple[str, str],
        rack_id: str | None,
        size_max: int,
    ) -> Member:
        """The member that sent it, joined if it was new. Raises GroupError."""
        self.check_free()
        member = self.members.get(member_id)
        if epoch == JOIN:
            return self._join(member, member_id, topics, client, rack_id, size_max)
        if member is None:
            raise GroupError(
                ErrorCode.unknown_member_id,
                f"Member {member_id} is not a member of group {self.id}.",
            )
        self._check_epoch(member, epoch)
        if topics is not None:
            self._subscribe(member, topics)
        if rack_id is not None:
            member.rack_id = rack_id
        return member

    def _join(
        self,
        member: Member | None,
        member_id: str,
        topics: Iterable[str] | None,
        client: tuple[str, str],
        rack_id: str | None,
        size_max: int,
    ) -> Member:
        if member is None:
            if len(self.members) >= size_max:
                raise GroupError(
                    ErrorCode.group_max_size_reached,
                    f"The share group has reached its maximum capacity of {size_max} members.",
                )
            member = self.members[member_id] = Member(member_id, *client, rack_id, frozenset())
            self.changes += 1
        member.client_id, member.client_host = client
        self._subscribe(member, topics or ())
        member.rack_id = rack_id
        member.epoch, member.previous, member.assigned = 0, 0, {}
        return member

    def _subscribe(self, member: Member, topics: Iterable[str]) -> None:
        before, said = member.topics, frozenset(topics)
        # One set for all who say the same: to compare them costs nothing then.
        others = (each.topics for each in self.members.values() if hash(each.topics) == hash(said))
        member.topics = next((each for each in others if each == said), said)
        self.changes += before != member.topics

    @staticmethod
    def _check_epoch(member: Member, epoch: int) -> None:
        if epoch not in (member.epoch, member.previous):
            size, more = "greater", ""
            if epoch < member.epoch:
                size = "smaller"
                more = f", and it does not match the previous member epoch ({member.previous})"
            raise GroupError(
                ErrorCode.fenced_member_epoch,
                f"The share group member has a {size} member epoch ({epoch}) than the one known "
                f"by the group coordinator ({member.epoch}){more}. The member must abandon all its "
                "partitions and rejoin.",
            )

    def leave(self, member_id: str) -> None:
        if self.members.pop(member_id, None) is not None:
            self.changes += 1

    def refresh(self, partitions: Mapping[str, tuple[uuid.UUID, int]]) -> bool:
        """Assign anew if members, subscriptions or topics have changed; True if so.

        `partitions` says of each topic its id and how many it has. What members say of topics that are
        not there costs nothing here: it may be very much.
        """
        known = frozenset(partitions)
        subscribed = {topic: partitions[topic] for topic in self.subscribed(known)}
        if self.seen == (self.changes, subscribed):
            return False
        self.seen = (self.changes, subscribed)
        self.epoch += 1
        parts = {topics: topics & known for topics in {m.topics for m in self.members.values()}}
        wanted = {member.id: parts[member.topics] for member in self.members.values()}
        self.target = assign(wanted, subscribed)
        return True

    def tell(self, member: Member, asked_with: int, *, always: bool) -> Assignment | None:
        """The assignment if it is new to the member, which sent its heartbeat with this epoch."""
        target = self.target.get(member.id, {})
        new = (
            always or asked_with != member.epoch or asked_with == JOIN or target != member.assigned
        )
        if member.epoch != self.epoch:
            member.previous, member.epoch = member.epoch, self.epoch
        member.assigned = target
        return target if new else None

    def next_deadline(self) -> int | None:
        return min((member.deadline for member in self.members.values()), default=None)

    def expired(self, now: int) -> list[str]:
        return [member.id for member in self.members.values() if member.deadline <= now]


Assignment = dict[uuid.UUID, list[int]]


def assign(
    wanted: Mapping[str, Collection[str]], topics: Mapping[str, tuple[uuid.UUID, int]]
) -> dict[str, Assignment]:
    """For each member its partitions; `wanted` says which topics it subscribes to."""
    held: dict[str, dict[uuid.UUID, set[int]]] = {member: {} for member in wanted}
    kinds: dict[frozenset[str], list[str]] = {}  # many subscribe to the same
    for member in sorted(wanted):
        kinds.setdefault(frozenset(wanted[member]), []).append(member)
    ordered = sorted(topic for topic in topics if topics[topic][1])
    turn, before, members = 0, None, []
    for topic in ordered:
        crowd = [number for number, names in enumerate(kinds) if topic in names]
        if crowd != before:
            before, members = crowd, _members_of(crowd, kinds)
        if members:
            topic_id, count = topics[topic]
            for number in range(count):
                # Go on dealing where the last topic stopped, or the first members would get it all.
                member = members[(turn + number) % len(members)]
                held[member].setdefault(topic_id, set()).add(number)
            turn += count
    for names, some in kinds.items():
        _share(held, [member for member in some if not held[member]], names, ordered, topics)
    return {
        member: {topic_id: sorted(numbers) for topic_id, numbers in each.items()}
        for member, each in held.items()
    }


def _members_of(crowd: list[int], kinds: Mapping[frozenset[str], list[str]]) -> list[str]:
    of_kinds = list(kinds.values())
    return sorted(member for number in crowd for member in of_kinds[number])


def _share(
    held: dict[str, dict[uuid.UUID, set[int]]],
    idle: list[str],
    names: frozenset[str],
    ordered: list[str],
    topics: Mapping[str, tuple[uuid.UUID, int]],
) -> None:
    """Those who have got nothing read what another one does, each one partition."""
    own = [topics[topic] for topic in ordered if topic in names] if idle else []
    for place, member in enumerate(idle if own else ()):
        topic_id, count = own[place % len(own)]
        held[member][topic_id] = {place // len(own) % count}
