"""One member of a consumer group: what it said, what it may read, and what it still has to let go.

`heartbeat` and `classic` create members and change what they said; `reconcile` changes what they
have. Epochs: `epoch` is what the member must send with its next heartbeat; `previous_epoch` is
accepted once more, in case that our last answer was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from headwater.broker.groups.member import Protocols

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""A static member goes away for a moment: its place is kept until its session ends."""

Partitions = Mapping[UUID, frozenset[int]]
"""Topic id → partitions. No topic has an empty set."""

Held = dict[UUID, dict[int, int]]
"""Topic id → partition → the epoch in which it was assigned (KIP-1251). No topic is empty."""


class MemberState(IntEnum):
    """The numbers are those of Kafka's records."""

    STABLE = 0
    UNREVOKED = 1
    """Must let go of partitions before it may have the next epoch."""
    UNRELEASED = 2
    """Waits for partitions that others have not let go of yet."""
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What a classic member said in its JoinGroup; None for a member of the newer protocol."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(slots=True)
class ConsumerMember:
    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)

    session_deadline: int | None = None
    rebalance_deadline: int | None = None
    """Until then it must have let go of what it was asked to."""
    join_deadline: int | None = None
    """A classic member that was told to rejoin must have done so until then."""
    sync_deadline: int | None = None
    """A classic member that has joined must have asked for its assignment until then."""

    @property
    def subscription(self) -> tuple[frozenset[str], str]:
        """What it says of the topics that it wants."""
        return self.topic_names, self.topic_regex

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_away(self) -> bool:
        """A static member that has left for a moment."""
        return self.epoch == LEAVE_STATIC_EPOCH

    def deadlines(self) -> Iterable[int]:
        each = (
            self.session_deadline,
            self.rebalance_deadline,
            self.join_deadline,
            self.sync_deadline,
        )
        return [deadline for deadline in each if deadline is not None]

    def move_to_epoch(self, epoch: int) -> None:
        self.previous_epoch, self.epoch = self.epoch, epoch


def partitions_of(held: Held) -> dict[UUID, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in held.items()}
