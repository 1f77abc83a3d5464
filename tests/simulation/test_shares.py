"""The power fails in every step of a share group's life; each settlement holds, each letter is there once.

A group accepts, gives back and rejects records on a disk that is copied before each of its steps. From
every copy a broker starts anew: what was answered is settled, nobody settled what nobody asked for, and
the work goes on to its end, at which every rejected record has one dead letter.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from headwater.broker.broker import Broker
from headwater.broker.shares import dead_records
from headwater.broker.shares.partition_owner import PartitionOwner
from headwater.broker.shares.records import Key
from headwater.broker.shares.state import Ack, Acknowledgement, Batch, SharePartition
from headwater.record import batch as batches
from headwater.record import records
from headwater.testing.clock import ManualClock
from headwater.testing.faulty_disk import FaultyDisk

from .plan import SOAK

ROOT = Path("/data")
OUTCOMES = 12 if SOAK else 2
COUNT = 16
POISON = {3, 7, 8, 12}
TOPIC, GROUP, DEAD = "jobs", "workers", "dlq.workers"
SETTINGS = {
    "log.cleaner.enable": False,
    "share.coordinator.snapshot.update.records.per.snapshot": 3,
}


def broker_on(disk: FaultyDisk) -> Broker:
    return Broker(ROOT, "127.0.0.1:0", SETTINGS, clock=ManualClock(), files=disk)


@dataclass
class Said:
    """What the workers were told: settled for sure, and asked for but not yet answered."""

    sure: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)

    def copy(self) -> Said:
        return Said(set(self.sure), set(self.doubtful))


async def begun(broker: Broker) -> PartitionOwner:
    """The share-partition, made if it is not there yet."""
    topic = broker.catalogue.topics[TOPIC]
    owner = broker.shares.owner(Key(GROUP, topic.id, 0), TOPIC)
    if owner.state is None:
        await owner.reset(0)
    return owner


def state_of(owner: PartitionOwner) -> SharePartition:
    assert owner.state is not None
    return owner.state


def take(owner: PartitionOwner, count: int) -> list[int]:
    offset = state_of(owner).next_offset(owner.limits())
    assert offset is not None
    there = [Batch(n, n) for n in range(offset, COUNT)]
    got = owner.acquire("worker", there, offset, count, 1, True)
    return [n for each in got for n in range(each.first, each.last + 1)]


async def settle(owner: PartitionOwner, said: Said, *numbers: int, kind: Ack | None = None) -> None:
    """Accept, or reject what is poison; or what `kind` says."""
    if kind is None:
        said.doubtful |= set(numbers)
    asked = [
        Acknowledgement(n, n, [kind or (Ack.REJECT if n in POISON else Ack.ACCEPT)])
        for n in numbers
    ]
    error, message = await owner.acknowledge("worker", asked)
    assert not error, message
    if kind is None:
        said.doubtful -= set(numbers)
        said.sure |= set(numbers)


async def all_moments() -> list[tuple[FaultyDisk, Said]]:
    """Live, and keep the disk as it was before each of its steps."""
    disk, moments, said = FaultyDisk(1), list[tuple[FaultyDisk, Said]](), Said()
    async with broker_on(disk) as broker:
        await broker.topics.create(TOPIC, 1, {})
        partition = broker.topics.partitions[TOPIC, 0]
        data = records.build([records.Record(n, 0, None, b"%d" % n) for n in range(COUNT)])
        await partition.durable(partition.append(data, batches.read_header(data), 0) + COUNT)
        disk.before_each_step(lambda: moments.append((disk.copy(), said.copy())))
        owner = await begun(broker)
        assert take(owner, 10) == list(range(10))
        await settle(owner, said, 0, 1)
        await settle(owner, said, 2, 3, 4)
        await settle(owner, said, 9, kind=Ack.RELEASE)
        await asyncio.gather(settle(owner, said, 7, 8), settle(owner, said, 6))
        owner.release("worker")
        take(owner, 4)
        await asyncio.gather(*(settle(owner, said, n) for n in (5, 9, 10)))
        disk.before_each_step(None)
    return moments


def letters(broker: Broker) -> Counter[int]:
    found = Counter[int]()
    if DEAD in broker.catalogue.topics:
        for number in range(broker.catalogue.topics[DEAD].partitions):
            log = broker.topics.partitions[DEAD, number].log
            for record in dead_records.read(log, 0, log.durable_offset - 1):
                found[int(record.value or b"")] += 1
    return found


async def check(disk: FaultyDisk, said: Said) -> None:
    async with broker_on(disk) as broker:
        owner = await begun(broker)
        settled = {n for n in range(COUNT) if state_of(owner).is_settled(n)}
        assert said.sure <= settled, f"lost: {said.sure - settled}"
        assert settled <= said.sure | said.doubtful, f"not asked for: {settled - said.sure}"
        there = letters(broker)
        assert there.keys() == settled & POISON, f"letters {there}, settled {settled & POISON}"
        while state_of(owner).start < COUNT:
            await settle(owner, said, *take(owner, 3))
        assert letters(broker) == Counter(dict.fromkeys(POISON, 1))
    async with broker_on(disk) as broker:
        owner = await begun(broker)
        assert state_of(owner).start == COUNT
        assert letters(broker) == Counter(dict.fromkeys(POISON, 1))


def test_a_power_cut_in_any_step_loses_no_settlement_and_no_dead_letter() -> None:
    moments = asyncio.run(all_moments())
    assert len(moments) > 60, "or this shows little"
    assert any(said.doubtful & POISON for _, said in moments)
    for number, (disk, said) in enumerate(moments):
        for outcome in range(OUTCOMES):
            left = disk.crash(outcome) if outcome % 3 else disk.kill(outcome)
            try:
                asyncio.run(check(left, said.copy()))
            except AssertionError as error:
                raise AssertionError(f"moment {number}, outcome {outcome}: {error}") from error
