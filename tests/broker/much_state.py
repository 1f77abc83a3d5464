"""A broker that has so many of everything that clients leave behind, put there as if they had made it.

Topics and their logs are real; the rest is written into the coordinators' memory, where requests, hang-ups
and timers find it. `fill` may be called again: what was used up meanwhile is there anew.
"""

from __future__ import annotations

from headwater.broker.fetch_sessions import Asked, Session
from headwater.broker.groups.consumer.heartbeat import Beat
from headwater.broker.groups.offsets import OffsetValue
from headwater.broker.shares.membership import JOIN, ShareGroup
from headwater.broker.shares.records import Key
from headwater.broker.shares.sessions import SessionKey
from headwater.broker.shares.state import Batch, SharePartition
from headwater.broker.transactions.transaction import State, Transaction
from tests.broker.serving import Serving

TOPIC, WIDE = "t", "wide"
"""The second has as many partitions as there are other things."""
SHARE, MEMBERS, OFFSETS, PENDING = "shared", "members", "many-offsets", "pending"
"""Groups: of share consumers, of as many members, with as many offsets, with as many open transactions."""
WIDE_ID, PRODUCER = "wide-id", 1_000_000
"""A transaction in as many partitions."""
SHARERS = 10
HOUR_MS = 3_600_000
SETTINGS: dict[str, object] = {
    "group.share.max.share.sessions": 2000,
    "group.consumer.assignment.interval.ms": 0,
    "max.incremental.fetch.session.cache.slots": 10_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": HOUR_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": HOUR_MS,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "share.coordinator.state.topic.num.partitions": 2,
}


class MuchState:
    def __init__(self, serving: Serving, count: int) -> None:
        self.serving, self.broker, self.count = serving, serving.broker, count
        self.connection = object()
        """Whose share sessions there are."""
        serving.run(self._make())

    async def _make(self) -> None:
        node = self.broker
        for beside in (node.health_topic, node.excisions, node.cleaner):
            await beside.stop()
        await node.topics.create(TOPIC, 3, {})
        for number in range(self.count // 4):
            await node.topics.create(f"topic{number}", 1, {})
        for store in (node.offsets_topic, node.shares.states, node.transactions._store):
            await store.ensure()

    def fill(self) -> None:
        self.serving.run(self._fill())

    async def _fill(self) -> None:
        node = self.broker
        if WIDE not in node.catalogue.topics:
            await node.topics.create(WIDE, self.count, {})
        if TOPIC not in node.catalogue.topics:
            await node.topics.create(TOPIC, 3, {})
        self._fill_groups()
        self._fill_transactions()
        self._fill_shares()
        await self._join()
        now = node.clock.monotonic()
        for number in range(1, self.count):
            asked = {(TOPIC, 0): Asked(TOPIC, 0, 0, 1024, -1, -1)}
            node.sessions._sessions.setdefault(number, Session(number, 1, False, now, asked, 300))
            node.partition(TOPIC, 1).log.producers._known(number).timestamp = node.clock.now_ms()

    def _offset(self, topic: str) -> OffsetValue:
        known, now_ms = self.broker.catalogue.topics[topic], self.broker.clock.now_ms()
        return OffsetValue(5, -1, "", now_ms, topic_id=known.id)

    def _fill_groups(self) -> None:
        core = self.broker.groups._core
        for name in (OFFSETS, PENDING, *(f"g{number}" for number in range(self.count))):
            if name not in core.groups:
                core.create_classic(name)
            core.groups[name].set_dead(False)
            core.offsets.open(name).count((TOPIC, 0), self._offset(TOPIC), order=1)
        for number in range(self.count):
            core.offsets.open(OFFSETS).count((WIDE, number), self._offset(WIDE), order=1)
            pending, value = core.offsets.open(PENDING), self._offset(TOPIC)
            if number not in pending.pending:
                pending.lay_over(number, (TOPIC, number % 3), value, order=2)

    async def _join(self) -> None:
        wanted = {"rebalance_timeout_ms": 60_000, "topic_names": frozenset({WIDE}), "owned": {}}
        group = self.broker.groups.groups.get(MEMBERS)
        for number in range(self.count // 4):
            if group is None or f"m{number}" not in group.members:
                beat = Beat(f"m{number}", 0, **wanted)
                await self.broker.groups.consumer_heartbeat(MEMBERS, beat)

    def _fill_transactions(self) -> None:
        now_ms, values = self.broker.clock.now_ms(), self.broker.transactions.transactions
        for number in range(self.count):
            name, where = f"x{number}", frozenset({(TOPIC, 0)})
            values[name] = Transaction(
                name,
                number,
                0,
                timeout_ms=HOUR_MS,
                state=State.ONGOING,
                partitions=where,
                start_ms=now_ms,
            )
        everywhere = frozenset((WIDE, number) for number in range(self.count))
        values[WIDE_ID] = Transaction(
            WIDE_ID,
            PRODUCER,
            0,
            timeout_ms=HOUR_MS,
            state=State.ONGOING,
            partitions=everywhere,
            start_ms=now_ms,
            version=2,
        )

    def _fill_shares(self) -> None:
        shares, topic = self.broker.shares, self.broker.catalogue.topics[WIDE]
        group = shares.groups.setdefault(SHARE, ShareGroup(SHARE))
        group.is_dead = group.is_held = False
        for number in range(SHARERS):
            client = ("client", "host")
            shares.heartbeat(SHARE, f"s{number}", JOIN, (WIDE,), client, None)
            key = SessionKey(SHARE, f"s{number}")
            session = shares.sessions.begin(key, self.connection, 2000)
            mine = range(number, self.count, SHARERS)
            shares.sessions.update(session, [(topic.id, each) for each in mine], [])
        for number in range(self.count):
            owner = shares.owner(Key(SHARE, topic.id, number), WIDE)
            owner.state = SharePartition(0)
            owner.acquire(f"s{number % SHARERS}", [Batch(0, 9)], 0, 5, 500, True)
