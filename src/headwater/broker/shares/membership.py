"""Who is in a share group and who reads what: the group as its coordinator sees it. Pure.

The heartbeat handler joins, keeps and removes members here; the server assigns (KIP-932's simple
assignor). Several members may have the same partition, so an assignment takes effect at once: nobody
has to give anything up first. A member's epoch is the group's epoch of the assignment that it was
told last.

Members are not written down: after a restart each one is unknown, is told so, and joins again with
its next heartbeat. What the group has done with its records is in the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from headwater.broker.shares.assignor import Assignment, assign

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
    topics: tuple[str, ...]
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
    seen: tuple[object, ...] = ()
    """The subscriptions and topics that `target` was made for."""

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    def subscribed(self) -> set[str]:
        return {topic for member in self.members.values() for topic in member.topics}

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
            member.topics = tuple(sorted(set(topics)))
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
            member = self.members[member_id] = Member(member_id, *client, rack_id, ())
        member.client_id, member.client_host = client
        member.topics = tuple(sorted(set(topics or ())))
        member.rack_id = rack_id
        member.epoch, member.previous, member.assigned = 0, 0, {}
        return member

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
        self.members.pop(member_id, None)

    def refresh(self, partitions: Mapping[str, tuple[uuid.UUID, int]]) -> bool:
        """Assign anew if members, subscriptions or topics have changed; True if so.

        `partitions` says of each topic its id and how many it has.
        """
        wanted = {m.id: [t for t in m.topics if t in partitions] for m in self.members.values()}
        known = {topic: partitions[topic] for topic in self.subscribed() if topic in partitions}
        seen = (
            tuple(sorted((m, tuple(t)) for m, t in wanted.items())),
            tuple(sorted(known.items())),
        )
        subscriptions = tuple(sorted((m.id, m.topics) for m in self.members.values()))
        if self.seen == (seen, subscriptions):
            return False
        self.seen = (seen, subscriptions)
        self.epoch += 1
        self.target = assign(wanted, known)
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
