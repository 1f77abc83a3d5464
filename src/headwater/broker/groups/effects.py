"""What goes into and comes out of one step of a group: time and limits in, effects out.

The pure modules of this package (`join`, `rebalance`, `sync`) take a `Turn` and add effects
to it; `core` carries them out in order. A ticket stands for a request that waits for its answer:
each ticket must be answered exactly once. A `Persist` calls `done` once its record is durable, or
with an error if it is not; `done` gets a new `Turn`, because time has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

Ticket = Any
"""Whatever the caller uses to tell requests apart (the coordinator: a future)."""

NO_MEMBER_ID = ""
NO_GENERATION = -1


class Now(NamedTuple):
    """Both clocks at one instant: deadlines are monotonic, time stamps in records are wall time."""

    monotonic_ms: int
    wall_ms: int


class Limits(NamedTuple):
    """The settings that bound a group, as they are at this moment."""

    initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    """Kafka's constant: a new member cannot send heartbeats while its JoinGroup waits."""
    pending_members_max: int = 10_000


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The answer to JoinGroup."""

    error: ErrorCode = ErrorCode.none
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class Synced(NamedTuple):
    """The answer to SyncGroup."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Left(NamedTuple):
    """The answer to LeaveGroup: one error for each member that was named, or one for all."""

    error: ErrorCode = ErrorCode.none
    members: tuple[ErrorCode, ...] = ()


class Reply(NamedTuple):
    ticket: Ticket
    answer: Joined | Synced | Left


class Persist(NamedTuple):
    """Append one group metadata record; `done` continues when it is durable or has failed."""

    value: bytes
    done: Callable[[Turn, ErrorCode], None]


@dataclass(slots=True)
class Turn:
    """One step: when it happens, within which limits, and what must be done after it."""

    now: Now
    limits: Limits
    effects: list[Reply | Persist] = field(default_factory=list)

    def reply(self, ticket: Ticket, answer: Joined | Synced | Left) -> None:
        self.effects.append(Reply(ticket, answer))

    def persist(self, value: bytes, done: Callable[[Turn, ErrorCode], None]) -> None:
        self.effects.append(Persist(value, done))

    def reply_when_durable(self, ticket: Ticket, answer: Left) -> None:
        """Answer after what this turn has to persist, or at once if that is nothing."""
        last = self.effects[-1] if self.effects else None
        if not isinstance(last, Persist):
            self.reply(ticket, answer)
            return

        def done(turn: Turn, error: ErrorCode) -> None:
            last.done(turn, error)
            turn.reply(ticket, answer if error is ErrorCode.none else Left(error))

        self.effects[-1] = Persist(last.value, done)
