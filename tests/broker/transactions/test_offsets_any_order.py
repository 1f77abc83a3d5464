"""Offsets of several transactions and plain commits over the same keys, in any order.

Of the records that count, the one that stands last in the log tells a key's offset: the same while the
broker runs, after a restart and after compaction. The model knows the records in log order, and whether
each of them counts: at once (a plain commit, a tombstone), or with its transaction's commit.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.broker import Broker
from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.offsets_topic import NAME
from headwater.broker.transactions.markers import Marker
from headwater.testing.clock import ManualClock
from headwater.testing.faulty_disk import FaultyDisk
from tests.broker.disks import HandDisk
from tests.broker.serving import create, serving
from tests.broker.test_recreated_offsets import commit, committed
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode as WireError

ROOT = Path("/data")
PARTITIONS, PRODUCERS, STEPS = 2, 3, 30
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "log.cleaner.enable": False,
    "offsets.topic.segment.bytes": 400,
}


@dataclass
class Model:
    """Records in log order: key, offset (None: a tombstone), and whose transaction it waits for."""

    log: list[tuple[int, int | None, int | None]] = field(default_factory=list)
    counting: list[bool] = field(default_factory=list)

    def write(self, key: int, offset: int | None, producer: int | None) -> None:
        self.log.append((key, offset, producer))
        self.counting.append(producer is None)

    def end(self, producer: int, commit: bool) -> None:
        for at, (key, offset, whose) in enumerate(self.log):
            if whose == producer:
                self.log[at] = (key, offset, None)
                self.counting[at] = commit

    def committed(self) -> dict[int, int]:
        found: dict[int, int | None] = {}
        for (key, offset, _), counts in zip(self.log, self.counting, strict=True):
            if counts:
                found[key] = offset
        return {key: offset for key, offset in found.items() if offset is not None}

    def unstable(self) -> set[int]:
        """Keys with a record that waits, and that would tell the offset if it came to count."""
        found = set()
        for at, (key, _, whose) in enumerate(self.log):
            later = [
                each
                for each in range(at + 1, len(self.log))
                if self.log[each][0] == key and self.counting[each]
            ]
            if whose is not None and not later:
                found.add(key)
        return found


class Run:
    def __init__(self, broker: Broker, model: Model) -> None:
        self.broker, self.model = broker, model

    async def plain(self, key: int, offset: int) -> None:
        self.model.write(key, offset, None)
        done = await self.broker.groups.offsets.commit(Committer("g"), [Commit("t", key, offset)])
        assert done == [ErrorCode.none]

    async def erase(self, key: int) -> None:
        if key in self.shown() or key in self.model.unstable():
            self.model.write(key, None, None)
            await self.broker.groups.offsets.delete("g", [("t", key)])

    async def send(self, producer: int, key: int, offset: int) -> None:
        self.model.write(key, offset, producer)
        done = await self.broker.groups.pending.commit(
            Committer("g"),
            [Commit("t", key, offset)],
            (producer, 0),
            lambda: (ErrorCode.none, None),
        )
        assert done == [ErrorCode.none]

    async def end(self, producer: int, commit: bool) -> None:
        self.model.end(producer, commit)
        markers = self.broker.transactions.markers
        await markers.write(Marker(producer, 0, commit, 0), [(NAME, 0)])

    async def step(self, random: random.Random) -> None:
        key, producer = random.randrange(PARTITIONS), 1000 + random.randrange(PRODUCERS)
        kind = random.choices(["send", "end", "plain", "erase"], [5, 4, 2, 1])[0]
        if kind == "send":
            await self.send(producer, key, random.randrange(1000))
        elif kind == "end":
            await self.end(producer, random.random() < 0.5)
        elif kind == "plain":
            await self.plain(key, random.randrange(1000))
        else:
            await self.erase(key)

    def shown(self) -> dict[int, int]:
        found = self.broker.groups.offsets.fetch("g")[1]
        return {key: value.offset for key, value in found.topics.get("t", {}).items()}

    def check(self, when: str) -> None:
        offsets = self.broker.groups.offsets.fetch("g")[1]
        assert self.shown() == self.model.committed(), when
        unstable = {key for key in range(PARTITIONS) if offsets.is_unstable("t", key)}
        assert unstable == self.model.unstable(), when


def broker_on(disk: FaultyDisk) -> Broker:
    return Broker(ROOT, "127.0.0.1:0", SETTINGS, clock=ManualClock(), files=disk)


@pytest.mark.parametrize("seed", range(60))
async def test_offsets_are_what_counts_last_in_the_log(seed: int) -> None:
    choices, disk, model = random.Random(seed), FaultyDisk(seed), Model()
    async with broker_on(disk) as broker:
        await broker.topics.create("t", PARTITIONS, {})
        await broker.offsets_topic.ensure()
        run = Run(broker, model)
        for number in range(STEPS):
            await run.step(choices)
            run.check(f"live, seed {seed}, step {number}")
        copy = disk.copy()
    async with broker_on(copy) as broker:
        Run(broker, model).check(f"restarted, seed {seed}")


@pytest.mark.parametrize("seed", range(6))
async def test_compaction_changes_none_of_it(data: Path, seed: int) -> None:
    choices, model = random.Random(seed), Model()

    def broker_here() -> Broker:
        return Broker(data, "127.0.0.1:0", SETTINGS, clock=ManualClock(), files=HandDisk())

    async with broker_here() as broker:
        await broker.topics.create("t", PARTITIONS, {})
        await broker.offsets_topic.ensure()
        run = Run(broker, model)
        for _ in range(STEPS):
            await run.step(choices)
        for producer in range(1000, 1000 + PRODUCERS):
            await run.end(producer, choices.random() < 0.5)
        await run.plain(0, 1)
        assert await broker.cleaner.clean_dirtiest()
        log = broker.topics.partitions[NAME, 0].log
        assert log.cleaned_offset > 0
        run.check(f"live, seed {seed}")
    async with broker_here() as broker:
        Run(broker, model).check(f"restarted, seed {seed}")


async def test_two_that_are_under_way_at_once_end_as_the_log_says() -> None:
    """A plain commit and a transaction's offsets reach the log in one turn, in the order of their
    appends, and the disk tells of them in any."""
    for first in ("plain", "send"):
        disk, model = FaultyDisk(1), Model()
        async with broker_on(disk) as broker:
            await broker.topics.create("t", PARTITIONS, {})
            await broker.offsets_topic.ensure()
            run = Run(broker, model)
            steps = {"plain": run.plain(0, 1), "send": run.send(1000, 0, 2)}
            order = ["plain", "send"] if first == "plain" else ["send", "plain"]
            await asyncio.gather(*(steps[each] for each in order))
            await run.end(1000, True)
            live = run.shown()
            copy = disk.copy()
        async with broker_on(copy) as broker:
            assert Run(broker, model).shown() == live, first


def test_an_abort_of_another_transaction_takes_no_committed_offset_away(data: Path) -> None:
    with serving(data, SETTINGS) as broker, broker.wire() as wire:
        create(wire, "t")
        commit(wire, "other", "t", 1)
        one, two = Transactor(wire, "one").init(), Transactor(wire, "two").init()
        one.retried(lambda: one.send_offsets("g", "t", {0: 100}))
        two.retried(lambda: two.send_offsets("g", "t", {0: 50}))
        two.end(commit=False)
        one.end()
        assert committed(wire, "g", "t") == 100
    with serving(data, SETTINGS) as broker, broker.wire() as wire:
        assert committed(wire, "g", "t") == 100


def test_a_plain_commit_that_the_disk_refuses_leaves_a_transactions_offsets(data: Path) -> None:
    disk = HandDisk()
    with serving(data, SETTINGS, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        commit(wire, "other", "t", 1)
        one = Transactor(wire, "one").init()
        one.retried(lambda: one.send_offsets("g", "t", {0: 100}))
        part = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
        with disk.failing("write", name="__consumer_offsets-0/*"):
            topics = [{"name": "t", "partitions": [part]}]
            refused = wire.ask("offset_commit", 8, group_id="g", topics=topics)
            assert refused.topics[0].partitions[0].error_code is not WireError.none
        until(lambda: broker.broker.partition(NAME, 0).failed is None, "the disk")
        one.end()
        assert committed(wire, "g", "t") == 100


def test_offsets_that_the_disk_refuses_leave_those_the_transaction_sent_before(data: Path) -> None:
    disk = HandDisk()
    with serving(data, SETTINGS, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        commit(wire, "other", "t", 1)
        one = Transactor(wire, "one").init()
        one.retried(lambda: one.send_offsets("g", "t", {0: 100}))
        with disk.failing("write", name="__consumer_offsets-0/*"):
            assert one.send_offsets("g", "t", {0: 200}) is not WireError.none
        until(lambda: broker.broker.partition(NAME, 0).failed is None, "the disk")
        one.end()
        assert committed(wire, "g", "t") == 100
    with serving(data, SETTINGS) as broker, broker.wire() as wire:
        assert committed(wire, "g", "t") == 100
