"""One member of a consumer group: what it said, what it may read, and what it still has to let go.

`heartbeat` and `classic` create members and change what they said; `reconcile` changes what they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from headwater.broker.groups.member import Protocols
from headwater.broker.groups.modern.member import LEAVE_STATIC_EPOCH, HeldOf, ModernMember

Partitions = Mapping[UUID, frozenset[int]]
"""Topic id → partitions. No topic has an empty set."""

Held = HeldOf[UUID]
"""By topic id."""


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What a classic member said in its JoinGroup; None for a member of the newer protocol."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(slots=True)
class ConsumerMember(ModernMember):
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    assignor: str | None = None
    classic: ClassicSide | None = None
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)

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
