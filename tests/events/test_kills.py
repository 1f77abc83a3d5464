"""Owners are killed, and put to sleep, at random: every rule holds at every step, each command counts once.

Many clients send deposits, withdrawals and transfers to a bank whose owners die with -9, or stop and wake
up as zombies when others have taken over. Which, and after how many answers, comes from the seed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headwater.events import Accepted, Application, Refused
from headwater.events.errors import OutcomeUnknown
from headwater.events.history import Reader
from tests.conftest import SOAK
from tests.events import bank
from tests.events.bank import Close, Deposit, Transfer, Withdraw

ROOT = Path(__file__).parents[2]
ACCOUNTS = [f"account-{n}" for n in range(12)]
CLIENTS = 10
COMMANDS = 150 if SOAK else 20
OWNERS = 2
KILLS = 30 if SOAK else 3
DEADLINE_S = 600 if SOAK else 100


class Owners:
    """Processes that own, and what is done to them."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self._command = [sys.executable, "-m", "tests.events.owner_process", name, bootstrap]
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


def any_command(chance: random.Random, sender: str, number: int) -> Any:
    amount = chance.randint(1, 60)
    kind = chance.random()
    if kind < 0.45:
        return Deposit(amount)
    if kind < 0.7:
        return Withdraw(amount)
    if kind < 0.72:
        return Close()
    to = chance.choice(ACCOUNTS)
    return Transfer(f"{sender}:{number}:{chance.getrandbits(32)}", to, amount)


async def client(
    app: Application[Any], number: int, seed: int, answered: dict[str, Any], progress: Any
) -> None:
    chance = random.Random(f"{seed} {number}")
    for n in range(COMMANDS):
        id, command_id = chance.choice(ACCOUNTS), f"client {number} command {n}"
        command = any_command(chance, id, n)
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
        await progress()


async def run(name: str, bootstrap: str, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    total = CLIENTS * COMMANDS
    moments = sorted(chance.sample(range(total // 20, total * 9 // 10), KILLS))
    answered: dict[str, Any] = {}
    owners = Owners(name, bootstrap)

    async def progress() -> None:
        while moments and len(answered) >= moments[0]:
            moments.pop(0)
            owners.harm(chance)

    try:
        for _ in range(OWNERS):
            owners.start()
        app = Application(bank.accounts(name), bootstrap, owns="none", partitions=4)
        async with app, asyncio.timeout(DEADLINE_S):
            clients = (client(app, n, seed, answered, progress) for n in range(CLIENTS))
            await asyncio.gather(*clients)
            assert not moments
            owners.wake()
            await _transfers_have_ended(name, bootstrap)
    finally:
        owners.close()
    return answered


async def _transfers_have_ended(name: str, bootstrap: str) -> None:
    def open_transfers() -> int:
        with Reader(bank.accounts(name), bootstrap) as reader:
            return sum(len(reader.state(id).on_the_way) for id in ACCOUNTS)

    while await asyncio.to_thread(open_transfers):
        await asyncio.sleep(0.1)


SEEDS = range(random.randrange(1 << 30), (1 << 31), 1 << 30) if SOAK else [7]


@pytest.mark.timeout(900 if SOAK else 150)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_rule_holds_whoever_is_killed(name: str, bootstrap: str, seed: int):
    answered = asyncio.run(run(name, bootstrap, seed))
    check(name, bootstrap, answered, CLIENTS * COMMANDS)


def check(name: str, bootstrap: str, answered: dict[str, Any], total: int) -> None:
    """The history against the rules, and against what the clients were told."""
    assert len(answered) == total
    states: dict[str, bank.Account] = {}
    versions: Counter[str] = Counter()
    events: Counter[str] = Counter()
    into = out = 0
    with Reader(bank.accounts(name), bootstrap) as reader:
        for _, found in reader.replay():
            for each in found:
                versions[each.id] += 1
                events[each.command] += 1
                assert each.n == versions[each.id]
                before = states.get(each.id, bank.Account())
                after = states[each.id] = bank.apply(before, each.data)
                assert after.balance >= 0, (each.id, each.n)
                if before.closed:  # only what was on the way may still end
                    assert isinstance(each.data, bank.TransferCompleted | bank.TransferCancelled)
                into += each.data.amount if isinstance(each.data, bank.Deposited) else 0
                out += each.data.amount if isinstance(each.data, bank.Withdrawn) else 0
        for id in ACCOUNTS:  # snapshots never change what the events say
            assert reader.state(id) == reader.state(id, snapshots=False)
            assert reader.state(id) == states.get(id, bank.Account())
    for command_id, answer in answered.items():
        if isinstance(answer, Accepted):
            assert events[command_id] == answer.events, command_id
        else:
            assert isinstance(answer, Refused)
            assert events[command_id] == 0, command_id
    assert max(events.values()) == 1
    assert sum(each.balance for each in states.values()) == into - out
    assert not any(each.on_the_way for each in states.values())
