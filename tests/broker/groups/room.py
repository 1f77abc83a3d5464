"""A room in which one classic group lives without sockets, disk or real time.

`Room` hands requests to the pure functions, plays the log (records become durable at once, unless a
test holds them back or lets them fail) and turns the clock by hand.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.groups import join, rebalance, sync
from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.effects import Limits, Now, Persist, Reply, Turn
from headwater.broker.groups.join import JoinRequest
from headwater.broker.groups.sync import Identity, SyncRequest


def subscription(*topics: str) -> bytes:
    """Consumer protocol metadata, version 0."""
    names = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


RANGE = (("range", subscription("t")),)


class Room:
    def __init__(self, **limits: int) -> None:
        self.ms = 1_000
        self.limits = Limits(**limits)
        self.group = ClassicGroup("g", self.now())
        self.answers: dict[int, Any] = {}
        self.tickets = 0
        self.writing: deque[Persist] = deque()
        self.log: list[bytes] = []
        self.hold = False
        """Keep records back until `write` or `fail` is called."""

    def now(self) -> Now:
        return Now(self.ms, 1_700_000_000_000 + self.ms)

    def turn(self) -> Turn:
        return Turn(self.now(), self.limits)

    def _ticket(self) -> int:
        self.tickets += 1
        return self.tickets

    def _carry_out(self, turn: Turn) -> None:
        for effect in turn.effects:
            if isinstance(effect, Reply):
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.answer
            else:
                self.writing.append(effect)
        if not self.hold:
            while self.writing:
                self.write()

    def write(self) -> None:
        effect = self.writing.popleft()
        self.log.append(effect.value)
        turn = self.turn()
        effect.done(turn, ErrorCode.none)
        self._carry_out(turn)

    def fail(self, error: ErrorCode = ErrorCode.not_coordinator) -> None:
        effect = self.writing.popleft()
        turn = self.turn()
        effect.done(turn, error)
        self._carry_out(turn)

    # ---- requests: each returns its ticket -------------------------------------------------------

    def send_join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Any = RANGE,
        protocol_type: str = "consumer",
        session: int = 10_000,
        rebalance: int = 60_000,
        version: int = 9,
    ) -> int:
        ticket = self._ticket()
        request = JoinRequest(
            member_id,
            instance,
            "client",
            "/127.0.0.1",
            session,
            rebalance,
            protocol_type,
            tuple(protocols),
            fresh_id=f"{instance or 'member'}-{ticket}",
            needs_known_id=version >= 4,
            may_skip_assignment=version >= 9,
        )
        turn = self.turn()
        join.join(self.group, turn, request, ticket)
        self._carry_out(turn)
        return ticket

    def send_sync(self, member_id: str, assignments: Any = None, **fields: Any) -> int:
        ticket = self._ticket()
        generation = fields.pop("generation", self.group.generation)
        instance = fields.pop("instance", None)
        request = SyncRequest(member_id, instance, generation, assignments or {}, **fields)
        turn = self.turn()
        sync.sync(self.group, turn, request, ticket)
        self._carry_out(turn)
        return ticket

    def heartbeat(
        self, member_id: str, instance: str | None = None, generation: int | None = None
    ) -> ErrorCode:
        turn = self.turn()
        current = self.group.generation if generation is None else generation
        error = sync.heartbeat(self.group, turn, member_id, instance, current)
        self._carry_out(turn)
        return error

    def send_leave(self, *identities: Identity | str) -> int:
        ticket = self._ticket()
        named = [Identity(i) if isinstance(i, str) else i for i in identities]
        turn = self.turn()
        sync.leave(self.group, turn, named, ticket)
        self._carry_out(turn)
        return ticket

    # ---- time and short cuts ---------------------------------------------------------------------

    def pass_ms(self, ms: int) -> None:
        """Let time pass, waking the group whenever it asked for it."""
        end = self.ms + ms
        while self.group.wake_at is not None and self.group.wake_at <= end:
            self.ms = max(self.ms, self.group.wake_at)
            self.tick()
        self.ms = end

    def tick(self) -> None:
        turn = self.turn()
        rebalance.tick(self.group, turn)
        self._carry_out(turn)

    def answer(self, ticket: int) -> Any:
        """The answer, or None while the request waits."""
        return self.answers.get(ticket)

    def known_id(self, **fields: Any) -> str:
        """A member id as MEMBER_ID_REQUIRED hands it out."""
        return self.answers[self.send_join(**fields)].member_id

    def stable(self, count: int = 1, **fields: Any) -> list[str]:
        """A stable group of dynamic members, the leader first."""
        members = [self.known_id(**fields) for _ in range(count)]
        for member_id in members:
            self.send_join(member_id, **fields)
        self.pass_ms(self.limits.initial_rebalance_delay_ms)
        self.sync_all()
        return [self.group.leader or "", *(m for m in members if m != self.group.leader)]

    def stable_static(self, *instances: str, **fields: Any) -> dict[str, str]:
        """A stable group of static members: instance id → member id."""
        for instance in instances:
            self.send_join(instance=instance, **fields)
        self.pass_ms(self.limits.initial_rebalance_delay_ms)
        self.sync_all()
        return dict(self.group.static_ids)

    def sync_all(self) -> None:
        """Everybody sends SyncGroup; each member is assigned its own id."""
        members = list(self.group.members)
        for member_id in members:
            if member_id != self.group.leader:
                self.send_sync(member_id)
        self.send_sync(self.group.leader or "", {m: m.encode() for m in members})
        assert self.group.state is State.STABLE or self.hold
