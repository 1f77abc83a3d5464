"""Producers, time-outs, fencing and expiry meet in any order; what was said to be the end is the end.

Everything that changes a transaction runs side by side, each step put off by a few turns of the event
loop that the seed decides; so does the disk, which also refuses a write now and then. Afterwards the
records of `__transaction_state` must be steps that the state machine knows, and what `read_committed`
sees must be what the producers were told.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker import broker as broker_module
from headwater.broker.broker import Broker
from headwater.broker.disk import Finished, Job
from headwater.broker.partition import Partition
from headwater.broker.supervisor import Supervisor
from headwater.broker.transactions import coordinator, markers, records, transitions
from headwater.broker.transactions.coordinator import TransactionCoordinator
from headwater.broker.transactions.state_manager import StateManager
from headwater.broker.transactions.transaction import State, Transaction
from headwater.broker.transactions.transitions import Producer
from headwater.record import batch as batches
from headwater.testing.clock import ManualClock
from headwater.testing.faulty_disk import FaultyDisk
from tests.compat.batches import TRANSACTIONAL, batch

from .plan import SOAK
from .test_transactions import ROOT, SETTINGS, TOPIC, visible

SEEDS = 2000 if SOAK else 20
NAMES = ("one", "two", "three")
ROUNDS = 4
TIMEOUT_MS = 1000

S = State
STEPS: dict[State | None, set[State | None]] = {
    None: {S.EMPTY},
    S.EMPTY: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT, None},
    S.ONGOING: {S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT},
    S.PREPARE_COMMIT: {S.COMPLETE_COMMIT},
    S.PREPARE_ABORT: {S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT, None},
    S.COMPLETE_ABORT: {S.EMPTY, S.ONGOING, S.PREPARE_ABORT, None},
}
"""Which record may follow which, for one id. None: no record, or a tombstone."""


class SeededDisk:
    """In the place of the disk threads: each job is done some turns of the loop later."""

    dice = random.Random(0)
    refuses = 0.0

    def __init__(self, count: int, supervisor: Supervisor) -> None:
        self._loop = asyncio.get_running_loop()
        self.supervisor = supervisor
        self.write_failed: Finished = lambda error: None

    def submit(self, job: Job, finished: Finished) -> None:
        self._later(1 + self.dice.randrange(6), job, finished)

    def _later(self, turns: int, job: Job, finished: Finished) -> None:
        if turns:
            self._loop.call_soon(self._later, turns - 1, job, finished)
            return
        try:
            if self.dice.random() < self.refuses:
                raise OSError(errno.ENOSPC, "the disk is full")
            job()
        except Exception as error:
            finished(error)
        else:
            finished(None)

    def stop(self) -> None:
        pass


@dataclass
class Race:
    broker: Broker
    clock: ManualClock
    dice: random.Random
    said: dict[int, str] = field(default_factory=dict)
    """Number of a transaction → `committed`, `aborted` or `in doubt`."""
    _numbers: int = 0

    async def pause(self) -> None:
        for _ in range(self.dice.randrange(8)):
            await asyncio.sleep(0)

    async def producer(self, name: str) -> None:
        transactions, sequence = self.broker.transactions, 0
        for _ in range(ROUNDS):
            error, me = await transactions.init(name, TIMEOUT_MS, None)
            if error is not ErrorCode.none:
                await self.pause()
                continue
            sequence = 0
            for _ in range(2):
                number, self._numbers = self._numbers, self._numbers + 1
                commit = self.dice.random() < 0.7
                ended = await self._transaction(name, me, number, sequence, commit)
                if ended is None:
                    break
                if ended != me:
                    sequence = 0
                else:
                    sequence += 1
                me = ended

    async def _transaction(
        self, name: str, me: Producer, number: int, sequence: int, commit: bool
    ) -> Producer | None:
        transactions = self.broker.transactions
        await self.pause()
        error, _ = transactions.add_now(name, me, [(TOPIC, 0)])
        if error is not ErrorCode.none:
            return None
        try:
            await self._write(me, number, sequence)
        except Exception:  # refused: of an older epoch, or by the disk
            return None
        self.said[number] = "in doubt"
        await self.pause()
        error, following = await transactions.end(name, me, commit, 2)
        if error is not ErrorCode.none:
            return None
        self.said[number] = "committed" if commit else "aborted"
        return following

    async def _write(self, me: Producer, number: int, sequence: int) -> None:
        partition = self.broker.topics.partitions[TOPIC, 0]
        data = batch(
            [(None, b"%d" % number)],
            timestamps=[self.clock.now_ms()],
            producer=(me.id, me.epoch, sequence),
            attributes=TRANSACTIONAL,
        )
        header = batches.read_header(data)
        partition.log.check_producer(header)
        offset = partition.append(data, header, self.clock.now_ms())
        await partition.durable(offset + 1)

    async def time_outs(self) -> None:
        for _ in range(40):
            await self.pause()
            self.clock.advance(self.dice.choice([0, 0, TIMEOUT_MS // 2, 2 * TIMEOUT_MS]))
            self.broker.transactions.abort_overdue()

    async def expiry(self) -> None:
        for _ in range(10):
            await self.pause()
            self.broker.transactions.forget_expired()


async def run(seed: int, monkeypatch: pytest.MonkeyPatch, refuses: float = 0.0) -> Counter[str]:
    dice = random.Random(seed)
    monkeypatch.setattr(SeededDisk, "dice", dice)
    monkeypatch.setattr(coordinator, "RETRY_SECONDS", 0)
    disk, clock = FaultyDisk(seed), ManualClock()
    settings = {**SETTINGS, "transactional.id.expiration.ms": 10 * TIMEOUT_MS}
    settings["transaction.state.log.num.partitions"] = 2
    async with Broker(ROOT, "127.0.0.1:0", settings, clock=clock, files=disk) as broker:
        await broker.topics.create(TOPIC, 1, {})
        await broker.transactions.init("nobody", TIMEOUT_MS, None)
        broker.disk.refuses = refuses  # type: ignore[attr-defined]
        race = Race(broker, clock, dice)
        work: list[Coroutine[Any, Any, None]] = [race.producer(name) for name in (*NAMES, "one")]
        await asyncio.gather(*work, race.time_outs(), race.expiry())
        broker.disk.refuses = 0.0  # type: ignore[attr-defined]
        clock.advance(100 * TIMEOUT_MS)
        broker.transactions.abort_overdue()
        async with asyncio.timeout(20):
            while any(each.is_prepared for each in broker.transactions.transactions.values()):
                await asyncio.sleep(0)
        judge(race)
    return Counter(race.said.values())


def judge(race: Race) -> None:
    last: dict[bytes, State | None] = {}
    stored = race.broker.transactions._store.replay()
    for _, _, key, value, *_ in (record for _, each in stored for record in each.records):
        if key is None:
            continue
        state = None if value is None else records.read_value("", value).state
        before = last.get(key)
        if state not in STEPS[before]:
            raise AssertionError(f"{before!r} was followed by {state!r}")
        last[key] = state
    seen = visible(race.broker, 0)
    assert len(seen) == len(set(seen))
    for number, said in race.said.items():
        assert said != "committed" or number in seen, f"{number} was committed, and is not there"
        assert said != "aborted" or number not in seen, f"{number} was aborted, and is there"
    log = race.broker.topics.partitions[TOPIC, 0].log
    assert log.last_stable_offset() == log.durable_offset, "a transaction hangs"


def failures(
    monkeypatch: pytest.MonkeyPatch, refuses: float = 0.0
) -> tuple[list[str], Counter[str]]:
    """What goes wrong, and how often the producers were told what."""
    monkeypatch.setattr(broker_module, "DiskThreads", SeededDisk)
    found, said = [], Counter[str]()
    for seed in range(SEEDS):
        try:
            said += asyncio.run(run(seed, monkeypatch, refuses))
        except (AssertionError, TimeoutError) as error:
            found.append(f"seed {seed}: {error!r}")
    return found, said


@pytest.mark.parametrize("refuses", [0.0, 0.03])
def test_whatever_meets_a_transactions_end_is_what_was_said(
    monkeypatch: pytest.MonkeyPatch, refuses: float
) -> None:
    found, said = failures(monkeypatch, refuses)
    assert found == []
    assert min(said["committed"], said["aborted"], said["in doubt"]) > SEEDS // 2, "it shows little"


def test_a_time_out_that_writes_what_it_decided_earlier_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The canary: looked, put off, written without looking again."""
    tasks = set()

    def abort_overdue(self: TransactionCoordinator, names: object = None) -> None:
        now_ms = self._clock.now_ms()
        for known in list(self.transactions.values()):
            if transitions.is_overdue(known, now_ms):
                value = transitions.fence(known, now_ms)
                tasks.add(asyncio.ensure_future(write(self.state, value)))

    async def write(state: StateManager, value: Transaction) -> None:
        state.change(value.id, state.values.get(value.id), value)

    monkeypatch.setattr(TransactionCoordinator, "abort_overdue", abort_overdue)
    found, _ = failures(monkeypatch)
    assert any("PREPARE_COMMIT: 2> was followed by <State.PREPARE_ABORT" in f for f in found), found


def test_a_marker_that_is_waited_for_too_late_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The canary: its write is refused before anybody waits, and another batch gets its offset."""

    async def durable(partition: Partition, next_offset: int) -> None:
        for _ in range(8):  # longer than the disk takes for anything
            await asyncio.sleep(0)
        async with asyncio.timeout(0.5):
            await partition.durable(next_offset)

    monkeypatch.setattr(markers, "promise", durable)
    found, _ = failures(monkeypatch, 0.06)
    told = ("was committed, and is not there", "a transaction hangs")
    assert any(text in each for text in told for each in found), found
