"""A room in which one classic group lives without sockets, disk or real time.

`Room` hands requests to the pure functions, plays the log (records become durable at once, unless a
test holds them back or lets them fail) and turns the clock by hand.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.groups import GroupCoordinator, joining, rebalance, syncing
from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.effects import Limits, Now, Persist, Reply, Turn
from headwater.broker.groups.joining import JoinRequest
from headwater.broker.groups.syncing import Identity, SyncRequest


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
        joining.join(self.group, turn, request, ticket)
        self._carry_out(turn)
        return ticket

    def send_sync(self, member_id: str, assignments: Any = None, **fields: Any) -> int:
        ticket = self._ticket()
        generation = fields.pop("generation", self.group.generation)
        instance = fields.pop("instance", None)
        request = SyncRequest(member_id, instance, generation, assignments or {}, **fields)
        turn = self.turn()
        syncing.sync(self.group, turn, request, ticket)
        self._carry_out(turn)
        return ticket

    def heartbeat(
        self, member_id: str, instance: str | None = None, generation: int | None = None
    ) -> ErrorCode:
        turn = self.turn()
        current = self.group.generation if generation is None else generation
        error = syncing.heartbeat(self.group, turn, member_id, instance, current)
        self._carry_out(turn)
        return error

    def send_leave(self, *identities: Identity | str) -> int:
        ticket = self._ticket()
        named = [Identity(i) if isinstance(i, str) else i for i in identities]
        turn = self.turn()
        syncing.leave(self.group, turn, named, ticket)
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


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def make_room() -> type[Room]:
    return Room


@pytest.fixture
def subscribe() -> Any:
    return subscription


# ---- the asyncio shell ---------------------------------------------------------------------------

SETTINGS: dict[str, int] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.max.session.timeout.ms": 300_000,
    "group.max.size": 100,
    "offset.metadata.max.bytes": 10,
    "offsets.retention.minutes": 60,
    "offsets.retention.check.interval.ms": 600_000,
}


class HandClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class MemoryStore:
    """A log in memory that can be held back, made to fail, and read again."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, bytes | None, int]] = []
        self.failure: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.calls = 0

    async def append(self, group_id: str, records: list[tuple[bytes, bytes | None]]) -> None:
        self.calls += 1
        failure = self.failure
        if failure is None:
            self.log += [(key, value, 0) for key, value in records]
        await self.open.wait()
        if failure is not None:
            raise failure


class Desk:
    """A coordinator with its clock and store, and short cuts for requests."""

    def __init__(self, store: MemoryStore | None = None, **settings: int) -> None:
        self.clock = HandClock()
        self.store = store or MemoryStore()
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.settings = SETTINGS | named
        self.groups = GroupCoordinator(self.settings, self.clock, self.store)
        self.groups.load(self.store.log)
        self.groups.start()

    def pass_ms(self, ms: int) -> None:
        self.clock.ms += ms
        self.groups._core.deadlines.fire()

    async def join(self, group_id: str, member_id: str = "", **fields: Any) -> Any:
        request = {
            "member_id": member_id,
            "instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "fresh_id": f"fresh-{id(fields)}",
            "needs_known_id": False,
        }
        return await self.groups.join(group_id, JoinRequest(**(request | fields)))

    async def sync(self, group_id: str, member_id: str, generation: int, **assignments: str) -> Any:
        parts = {name: value.encode() for name, value in assignments.items()}
        return await self.groups.sync(group_id, SyncRequest(member_id, None, generation, parts))

    async def stable(self, group_id: str = "g", member: str = "m1") -> str:
        """A stable group with one member."""
        joining_ = asyncio.ensure_future(self.join(group_id, fresh_id=member))
        await asyncio.sleep(0)
        self.pass_ms(0)
        joined = await joining_
        await self.sync(group_id, member, joined.generation, **{member: "all"})
        return member


@pytest.fixture
async def make_desk() -> AsyncIterator[Any]:
    desks: list[Desk] = []

    def make(store: MemoryStore | None = None, **settings: int) -> Desk:
        desks.append(Desk(store, **settings))
        return desks[-1]

    yield make
    for desk in desks:
        desk.store.open.set()
        await desk.groups.stop()


@pytest.fixture
async def desk(make_desk: Any) -> Desk:
    return make_desk()
