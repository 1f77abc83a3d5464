"""A whole coordinator at a desk: with a clock that is turned by hand and a log that can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from headwater.broker.groups import GroupCoordinator
from headwater.broker.groups.join import JoinRequest
from headwater.broker.groups.journal import RecordTooLarge
from headwater.broker.groups.sync import SyncRequest
from headwater.broker.health import Health
from headwater.broker.supervisor import Supervisor

from .room import RANGE

SETTINGS: dict[str, Any] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.max.session.timeout.ms": 300_000,
    "group.max.size": 100,
    "offset.metadata.max.bytes": 10,
    "offsets.retention.minutes": 60,
    "offsets.retention.check.interval.ms": 600_000,
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.heartbeat.interval.ms": 5_000,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.max.size": 100,
    "group.consumer.assignors": ["uniform", "range"],
    "group.consumer.migration.policy": "bidirectional",
    "group.streams.session.timeout.ms": 45_000,
    "group.streams.heartbeat.interval.ms": 5_000,
    "group.streams.assignment.interval.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.num.standby.replicas": 1,
    "group.streams.max.size": 100,
}


class DeskSettings(dict[str, Any]):
    """The broker's settings, which every group shares."""

    def group(self, group_id: str, name: str) -> Any:
        return self[f"group.{name}"]


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
        self.bytes_max: int | None = None
        """Of one write."""

    def append(self, group_id: str, records: list[tuple[bytes, bytes | None]]) -> Awaitable[int]:
        size = sum(len(key) + len(value or b"") for key, value in records)
        if self.bytes_max is not None and size > self.bytes_max:
            raise RecordTooLarge(f"{size} bytes")
        self.calls += 1
        if self.failure is None:
            self.log += [(key, value, 0) for key, value in records]
        return self._written(self.calls, self.failure)

    async def _written(self, order: int, failure: Exception | None) -> int:
        await self.open.wait()
        if failure is not None:
            raise failure
        return order


class Desk:
    """A coordinator with its clock and store, and short cuts for requests."""

    def __init__(
        self, store: MemoryStore | None = None, image: Any = None, **settings: Any
    ) -> None:
        self.clock = HandClock()
        self.store = store or MemoryStore()
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.settings = DeskSettings(SETTINGS | named)
        self.image = image
        self.supervisor = Supervisor(Health(self.clock.now_ms), self.clock)
        self.groups = GroupCoordinator(
            self.settings, self.clock, self.store, image, self.supervisor
        )
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


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)
