"""Weeks in the life of transactions and of a share group, on a clock that is turned by hand, beside a model.

A real broker on real files; only time is simulated. Transactional ids expire, open transactions time out,
producers are replaced and go on as zombies, locks run out, state topics are compacted and retained, the
broker restarts. What happens, and in which order, comes from the seed.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.broker.shares.partition_owner import PartitionOwner
from headwater.broker.shares.records import Key
from headwater.broker.shares.state import Ack, Acknowledgement, Batch
from headwater.testing import ManualClock
from tests.broker.serving import Serving, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.transacting import BUSY, Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
END_S = 60.0
"""Real seconds that the end of what took too long may need."""
NAMES = ["one", "two"]
LATER = (*BUSY, ErrorCode.not_enough_replicas)
SETTINGS: dict[str, object] = {
    "connections.max.idle.ms": -1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 20,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 20,
    "transaction.state.log.num.partitions": 2,
    "share.coordinator.state.topic.num.partitions": 2,
    "share.coordinator.snapshot.update.records.per.snapshot": 5,
    "log.cleaner.enable": True,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.min.cleanable.ratio": 0.2,
}


class World:
    """A broker, producers and their zombies, a share group; and the model."""

    def __init__(self, seed: int, data: Path) -> None:
        self.chance = random.Random(seed)
        self.clock = ManualClock(time.time_ns() // 1_000_000)
        self.data = data
        self.owners: dict[str, Transactor] = {}
        self.zombies: list[Transactor] = []
        self.open: dict[str, list[bytes]] = {}
        self.committed: set[bytes] = set()
        self.written = 0
        self.done: set[int] = set()
        """Offsets that the group was told are accepted or rejected."""
        self.deliveries: Counter[int] = Counter()
        self._stack = ExitStack()
        self.broker: Serving
        self.wire: Wire
        self._start()
        self.broker.create("t", retention_ms=-1)
        self.broker.create("jobs", retention_ms=40 * DAY_MS, message_timestamp_type="LogAppendTime")
        self.broker.run(self._opened(from_the_beginning=True))

    def _start(self) -> None:
        self.broker = self._stack.enter_context(serving(self.data, SETTINGS, clock=self.clock))
        self.wire = self._stack.enter_context(self.broker.wire())
        for each in [*self.owners.values(), *self.zombies]:
            each.wire = self.wire

    def close(self) -> None:
        self._stack.close()

    # ---- time ------------------------------------------------------------------------------------

    def pass_time(self) -> None:
        self.clock.advance(self.chance.choice([HOUR_MS, 12 * HOUR_MS, 2 * DAY_MS, 8 * DAY_MS]))
        self.broker.call(self._share_owner().expire)

    def restart(self) -> None:
        self._stack.close()
        self._start()

    def tidy(self) -> None:
        """What the broker does now and then, now."""
        self.broker.run(self.broker.broker.housekeeping.retain())
        self.broker.run(self.broker.broker.shares.tidy())

    # ---- transactions ----------------------------------------------------------------------------

    def transact(self) -> None:
        self._try(self.chance.choice(NAMES), commit=self.chance.random() < 0.7)

    def leave_open(self) -> None:
        """A producer writes, and says nothing more for now."""
        name = self.chance.choice(NAMES)
        value = self._value()
        if self._stored(self._owner(name), value) is not ErrorCode.none:
            self._again(name)
            assert self._stored(self._owner(name), value) is ErrorCode.none
        self.open.setdefault(name, []).append(value)

    def replace(self) -> None:
        """Another process takes the id over; what the old one had begun is aborted."""
        name = self.chance.choice(NAMES)
        self.zombies.append(self._owner(name))
        self._again(name)

    def wake(self) -> None:
        """Nothing that a zombie says counts, however long it has slept."""
        if self.zombies:
            zombie = self.chance.choice(self.zombies)
            error = self._stored(zombie, self._value())
            assert error is not ErrorCode.none, f"a zombie of {zombie.name} was let in"
            assert zombie.ask_end(True).error_code is not ErrorCode.none, "a zombie has committed"

    def _try(self, name: str, commit: bool) -> None:
        """By the owner; an id that has expired, or a transaction that took too long, is begun again."""
        value = self._value()
        for _ in range(2):
            owner = self._owner(name)
            if self._stored(owner, value) is ErrorCode.none and self._ended(owner, commit):
                values = [*self.open.pop(name, []), value]
                self.committed.update(values if commit else ())
                return
            self._again(name)
        raise AssertionError(f"{name} cannot write though it has just begun")

    def _owner(self, name: str) -> Transactor:
        if name not in self.owners:
            self._again(name)
        return self.owners[name]

    def _again(self, name: str) -> None:
        self.open.pop(name, None)
        self.owners[name] = Transactor(self.wire, name).init()

    def _value(self) -> bytes:
        self.written += 1
        return b"%d" % self.written

    def _stored(self, one: Transactor, value: bytes) -> ErrorCode:
        return until(lambda: _settled(one.produce("t", value).error_code), "an answer")[0]

    def _ended(self, one: Transactor, commit: bool) -> bool:
        found: list[Any] = []

        def answered() -> bool:
            found.append(one.ask_end(commit))
            return _settled(found[-1].error_code) is not None

        until(answered, "an end")
        if found[-1].error_code is not ErrorCode.none:
            return False
        if (found[-1].producer_id, found[-1].producer_epoch) != (one.id, one.epoch):
            one.sequences.clear()
        one.id, one.epoch = found[-1].producer_id, found[-1].producer_epoch
        one.settle()
        return True

    # ---- the share group ---------------------------------------------------------------------------

    def put(self) -> None:
        row = produce(self.wire, "jobs", batch([(None, b"job")] * self.chance.randint(1, 8)))
        assert row.error_code is ErrorCode.none

    def work(self) -> None:
        """Take some; accept, reject, give back, or forget them."""
        member = self.chance.choice("ab")
        for offset in self._taken(member, self.chance.randint(1, 10)):
            kind = self.chance.choice([Ack.ACCEPT, Ack.ACCEPT, Ack.REJECT, Ack.RELEASE, None])
            if kind is not None:
                self._acknowledge(member, offset, kind)

    def _acknowledge(self, member: str, offset: int, kind: Ack) -> None:
        told = [Acknowledgement(offset, offset, [kind])]
        error, _ = self.broker.run(self._share_owner().acknowledge(member, told))
        assert error is ErrorCode.none, (offset, kind, error)
        if kind is not Ack.RELEASE:
            self.done.add(offset)

    def _taken(self, member: str, count: int) -> list[int]:
        found = self.broker.run(self._acquired(member, count))
        for offset in found:
            assert offset not in self.done, f"{offset} was settled, and is delivered again"
            self.deliveries[offset] += 1
        return found

    async def _acquired(self, member: str, count: int) -> list[int]:
        owner = await self._opened()
        assert owner.state is not None
        offset = owner.state.next_offset(owner.limits())
        if offset is None:
            return []
        there = [Batch(n, n) for n in range(offset, self.broker.log("jobs").durable_offset)]
        taken = owner.acquire(member, there, offset, count, 500, True)
        return [n for each in taken for n in range(each.first, each.last + 1)]

    async def _opened(self, *, from_the_beginning: bool = False) -> PartitionOwner:
        owner = self._share_owner()
        if from_the_beginning:
            await owner.reset(0)
        await owner.open()
        return owner

    def _share_owner(self) -> PartitionOwner:
        node = self.broker.broker
        return node.shares.owner(Key("workers", node.catalogue.topics["jobs"].id, 0), "jobs")

    # ---- the model ---------------------------------------------------------------------------------

    def check(self) -> None:
        self.clock.advance(HOUR_MS)  # whatever is open takes too long, and every lock runs out
        self.open.clear()
        log = self.broker.log("t")
        until(
            lambda: log.last_stable_offset() == log.durable_offset,
            "open transactions to end",
            END_S,
        )
        seen = read_committed(self.broker.bootstrap)
        assert len(seen) == len(set(seen)), "a record is there twice"
        assert set(seen) == self.committed
        self._drain()

    def _drain(self) -> None:
        """The group does all that is left; nothing was passed over."""
        self.broker.call(self._share_owner().expire)
        while found := self._taken("a", 100):
            for offset in found:
                self._acknowledge("a", offset, Ack.ACCEPT)
        jobs, limit = self.broker.log("jobs"), self._share_owner().limits().deliveries_max
        for offset in range(jobs.start_offset, jobs.durable_offset):
            given_up = self.deliveries[offset] >= limit
            assert offset in self.done or given_up, f"{offset} was passed over"


def _settled(error: ErrorCode) -> tuple[ErrorCode] | None:
    return None if error in LATER else (error,)


def read_committed(bootstrap: str) -> list[bytes | None]:
    """What a foreign client sees of `t`, to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "look",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[bytes | None] = []
    try:
        while (message := consumer.poll(60)) is not None and not message.error():
            found.append(message.value())
        assert message is not None and message.error().code() == KafkaError._PARTITION_EOF, message
    finally:
        consumer.close()
    return found


STEPS = {
    "transact": 6,
    "leave_open": 2,
    "replace": 2,
    "wake": 3,
    "put": 4,
    "work": 6,
    "pass_time": 4,
    "tidy": 2,
    "restart": 1,
}


def live(seed: int, data: Path, steps: dict[str, int] | None = None, count: int = 60) -> None:
    """So many steps, each kind as often as its weight says; AssertionError where the model differs."""
    world = World(seed, data)
    happened: list[str] = []
    kinds, weights = zip(*(steps or STEPS).items(), strict=True)
    try:
        for _ in range(count):
            (kind,) = world.chance.choices(kinds, weights)
            happened.append(kind)
            getattr(world, kind)()
        world.check()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, after {' '.join(happened)}: {error}") from error
    finally:
        world.close()
