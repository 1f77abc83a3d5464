"""Owners are killed, and put to sleep, at random: every rule holds at every step, each command counts once.

Many clients send deposits, withdrawals, transfers and reservations to a bank and a theatre whose owners die
with -9, or stop and wake up as zombies when others have taken over. Which, and after how many answers, comes
from the seed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headwater import testing
from headwater.events import Accepted, Application, Refused
from headwater.events.errors import OutcomeUnknown
from headwater.events.history import Reader
from tests.conftest import SOAK
from tests.events import bank, theatre
from tests.events.bank import Close, Deposit, Transfer, Withdraw
from tests.events.conftest import QUICK_GROUPS

ROOT = Path(__file__).parents[2]
BANK = bank.accounts("accounts")
ACCOUNTS = [f"account-{n}" for n in range(12)]
SEATS = [f"hamlet/{n}" for n in range(6)]
CLIENTS = 10
COMMANDS = 150 if SOAK else 20
OWNERS = 2
KILLS = 30 if SOAK else 3
DEADLINE_S = 600


class Owners:
    """Processes that own, and what is done to them."""

    def __init__(self, bootstrap: str) -> None:
        self._command = [sys.executable, "-m", "tests.events.owner_process", bootstrap]
        self._running: list[subprocess.Popen[bytes]] = []
        self._asleep: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        env = {**os.environ, "PYTHONWARNINGS": "error"}
        self._running.append(subprocess.Popen(self._command, cwd=ROOT, env=env))

    def harm(self, chance: random.Random) -> None:
        """Kill one, or put it to sleep; another takes its place."""
        victim = self._running.pop(chance.randrange(len(self._running)))
        self.wake()
        if chance.random() < 0.4:
            victim.send_signal(signal.SIGSTOP)
            self._asleep.append(victim)
        else:
            _kill(victim)
        self.start()

    def wake(self) -> None:
        """Zombies go on as if nothing had happened; later they are ended."""
        for each in self._asleep:
            each.send_signal(signal.SIGCONT)
            self._running.append(each)
        self._asleep.clear()

    def close(self) -> None:
        for each in [*self._running, *self._asleep]:
            _kill(each)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(30)


def any_command(chance: random.Random, number: int) -> tuple[str, Any]:
    """To whom, and what."""
    if chance.random() < 0.25:
        card = "declined" if chance.random() < 0.4 else "4000"
        hold = theatre.Hold(f"{number}-{chance.getrandbits(40)}", f"client {number}", card)
        return chance.choice(SEATS), hold
    id, amount, kind = chance.choice(ACCOUNTS), chance.randint(1, 60), chance.random()
    if kind < 0.45:
        return id, Deposit(amount)
    if kind < 0.7:
        return id, Withdraw(amount)
    if kind < 0.72:
        return id, Close()
    transfer = f"{id}:{number}:{chance.getrandbits(40)}"
    return id, Transfer(transfer, chance.choice(ACCOUNTS), amount)


async def client(
    apps: dict[bool, Application[Any]],
    number: int,
    seed: int,
    answered: dict[str, Any],
    progress: Callable[[], None],
) -> None:
    chance = random.Random(f"{seed} {number}")
    for n in range(COMMANDS):
        id, command = any_command(chance, number)
        app, command_id = apps[isinstance(command, theatre.Hold)], f"client {number} command {n}"
        while True:
            try:
                found = await app.send(id, command, command_id=command_id, timeout_s=20)
            except OutcomeUnknown:
                continue  # the same id again: decided once
            break
        answered[command_id] = found
        if chance.random() < 0.1:  # a network may deliver twice
            again = await app.send(id, command, command_id=command_id, timeout_s=60)
            assert type(again) is type(found)
        progress()


async def run(bootstrap: str, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    total = CLIENTS * COMMANDS
    moments = sorted(chance.sample(range(total // 20, total * 9 // 10), KILLS))
    answered: dict[str, Any] = {}
    owners = Owners(bootstrap)

    def progress() -> None:
        while moments and len(answered) >= moments[0]:
            moments.pop(0)
            owners.harm(chance)

    try:
        for _ in range(OWNERS):
            owners.start()
        money: Application[Any] = Application(BANK, bootstrap, owns="none", partitions=2)
        office: Application[Any] = Application(theatre.seats, bootstrap, owns="none", partitions=2)
        async with money, office, asyncio.timeout(DEADLINE_S):
            apps = {False: money, True: office}
            clients = (client(apps, n, seed, answered, progress) for n in range(CLIENTS))
            await asyncio.gather(*clients)
            assert not moments
            owners.wake()
            await until(lambda: not in_the_middle(bootstrap))
    finally:
        owners.close()
    return answered


def in_the_middle(bootstrap: str) -> bool:
    """Whether a transfer is on its way, or a seat is held and not yet sold."""
    with Reader(BANK, bootstrap) as reader:
        if any(reader.state(id).on_the_way for id in ACCOUNTS):
            return True
    with Reader(theatre.seats, bootstrap) as reader:
        return any(reader.state(id).status == "held" for id in SEATS)


async def until(condition: Callable[[], bool]) -> None:
    check: Callable[[], Awaitable[bool]] = lambda: asyncio.to_thread(condition)  # noqa: E731
    while not await check():
        await asyncio.sleep(0.1)


REMEMBERING: dict[str, object] = {}
FORGETFUL: dict[str, object] = {
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
}
"""A broker that forgets who owned sooner than a zombie wakes up."""
SEEDS = range(random.randrange(1 << 30), (1 << 31), 1 << 30) if SOAK else [7]


@pytest.mark.timeout(3600 if SOAK else 900)
@pytest.mark.parametrize("memory", [REMEMBERING, FORGETFUL], ids=["remembering", "forgetful"])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_rule_holds_whoever_is_killed(seed: int, memory: dict[str, object]):
    with testing.broker(settings=QUICK_GROUPS | memory) as broker:
        answered = asyncio.run(run(broker.bootstrap, seed))
        assert len(answered) == CLIENTS * COMMANDS
        events = check_the_bank(broker.bootstrap) + check_the_theatre(broker.bootstrap)
    for command_id, answer in answered.items():
        if isinstance(answer, Accepted):
            assert events[command_id] == answer.events, command_id
        else:
            assert isinstance(answer, Refused)
            assert events[command_id] == 0, command_id
    assert max(events.values()) == 1


def check_the_bank(bootstrap: str) -> Counter[str]:
    """No overdraft at any step, nothing after the end, and the money is still there."""
    states: dict[str, bank.Account] = {}
    events: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    into = out = 0
    with Reader(BANK, bootstrap) as reader:
        for _, found in reader.replay():
            for each in found:
                before, after = step(states, versions, each, BANK)
                events[each.command] += 1
                assert after.balance >= 0, (each.id, each.n)
                if before.closed:  # only what was on the way may still end
                    assert isinstance(each.data, bank.TransferCompleted | bank.TransferCancelled)
                into += each.data.amount if isinstance(each.data, bank.Deposited) else 0
                out += each.data.amount if isinstance(each.data, bank.Withdrawn) else 0
        for id in ACCOUNTS:  # snapshots never change what the events say
            assert reader.state(id) == reader.state(id, snapshots=False)
            assert reader.state(id) == states.get(id, bank.Account())
    assert sum(each.balance for each in states.values()) == into - out
    assert not any(each.on_the_way for each in states.values())
    return events


def check_the_theatre(bootstrap: str) -> Counter[str]:
    """No seat is sold twice, or to somebody for whom it was not held; who paid sits, or has it back."""
    states: dict[str, theatre.Seat] = {}
    events: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    paid: dict[str, str] = {}
    with Reader(theatre.seats, bootstrap) as reader:
        for _, found in reader.replay():
            for each in found:
                before, _ = step(states, versions, each, theatre.seats)
                events[each.command] += 1
                assert before.status == ("free" if isinstance(each.data, theatre.Held) else "held")
                if not isinstance(each.data, theatre.Held):
                    assert before.reservation == each.data.reservation
    with Reader(theatre.payments, bootstrap) as reader:
        for _, found in reader.replay():
            for each in found:
                events[each.command] += 1
                if isinstance(each.data, theatre.Charged):
                    paid[each.id] = each.data.seat
                else:
                    del paid[each.id]
    sold = {seat.reservation: id for id, seat in states.items() if seat.status == "sold"}
    assert paid == sold
    return events


def step(
    states: dict[str, Any], versions: Counter[str], event: Any, aggregate: Any
) -> tuple[Any, Any]:
    """The states of an aggregate before and after an event, which must be the next one."""
    before = states.get(event.id, aggregate.initial)
    versions[event.id] += 1
    assert event.n == versions[event.id]
    states[event.id] = aggregate.apply(before, event.data)
    return before, states[event.id]
