"""A member of a group with epochs, and what it holds.

`epoch` is what the member must send with its next heartbeat; `previous_epoch` is accepted once more, in
case that our last answer was lost.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from kio.schema.errors import ErrorCode

from headwater.broker.groups.group import HeartbeatRefused

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""A static member goes away for a moment: its place is kept until its session ends."""

Unit = TypeVar("Unit")
"""Whose numbers are held: a topic's id, or a subtopology."""
HeldOf = dict[Unit, dict[int, int]]
"""Unit → number → the epoch in which it was assigned (KIP-1251). No unit is empty."""


class MemberState(IntEnum):
    """The numbers are those of Kafka's records."""

    STABLE = 0
    UNREVOKED = 1
    """Must let go of what it has before it may have the next epoch."""
    UNRELEASED = 2
    """Waits for what others have not let go of yet."""
    UNKNOWN = 127

    @classmethod
    def read(cls, number: int) -> MemberState:
        """As a record has it."""
        return cls(number) if number in (0, 1, 2) else cls.UNKNOWN


@dataclass(slots=True)
class ModernMember:
    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    session_deadline: int | None = None
    rebalance_deadline: int | None = None
    """Until then it must have let go of what it was asked to."""

    def is_at(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def deadlines(self) -> Iterable[int]:
        each = (self.session_deadline, self.rebalance_deadline)
        return [deadline for deadline in each if deadline is not None]

    def check_epoch(self, kind: str, epoch: int, owns_no_more: bool) -> None:
        """The epoch must be ours, or the one before if the member has nothing that is not its own
        (`owns_no_more`). Raises `HeartbeatRefused`."""
        if epoch > self.epoch:
            word = "greater"
        elif epoch < self.epoch and not (epoch == self.previous_epoch and owns_no_more):
            word = "smaller"
        else:
            return
        raise HeartbeatRefused(
            ErrorCode.fenced_member_epoch,
            f"The {kind} group member has a {word} member epoch ({epoch}) than the one known by "
            f"the group coordinator ({self.epoch}). The member must abandon all its partitions and "
            "rejoin.",
        )


def split(
    held: HeldOf[Unit], wanted: Mapping[Unit, frozenset[int]]
) -> tuple[HeldOf[Unit], HeldOf[Unit]]:
    """What of it is wanted, and what is not."""
    kept: HeldOf[Unit] = {}
    dropped: HeldOf[Unit] = {}
    for unit, numbers in held.items():
        stays = wanted.get(unit, frozenset())
        for number, epoch in numbers.items():
            side = kept if number in stays else dropped
            side.setdefault(unit, {})[number] = epoch
    return kept, dropped


def without(held: HeldOf[Unit], owned: Container[tuple[Unit, int]]) -> HeldOf[Unit]:
    """Leave out what a member of a newer epoch owns: only a lost write can have caused that."""
    left = {
        unit: {number: epoch for number, epoch in numbers.items() if (unit, number) not in owned}
        for unit, numbers in held.items()
    }
    return {unit: numbers for unit, numbers in left.items() if numbers}
