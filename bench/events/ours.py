"""headwater.events on headwater's broker, which runs in a process of its own and syncs every commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from bench.events import bank
from bench.events.bank import Deposit, Fill
from bench.events.measure import Commands, Events
from headwater.events import Application, BlockingApplication
from headwater.events.history import Reader
from headwater.project.broker_process import BrokerProcess

FILL = 500


class Ours:
    name = "headwater"

    def __init__(self, folder: Path) -> None:
        self._broker = BrokerProcess(folder / "log")
        self._broker.start()
        self._number = 0

    def close(self) -> None:
        self._broker.stop()
        self._broker.__exit__()

    def _fresh(self) -> str:
        self._number += 1
        return f"accounts-{self._number}"

    def commands(self, clients: int, each: int, outstanding: int = 1) -> Commands:
        """Clients on an event loop; each waits for an answer before it sends the next command."""
        return uvloop.run(self._commands(clients, each, outstanding))

    async def _commands(self, clients: int, each: int, outstanding: int) -> Commands:
        times: list[float] = []
        aggregate = bank.accounts(self._fresh())
        app = Application(aggregate, self._broker.bootstrap, owns="all", partitions=1)
        async with app:

            async def client(number: int, count: int) -> None:
                for n in range(count):
                    began = time.perf_counter()
                    await app.send(f"account-{number * 4 + n % 4}", Deposit(10))
                    times.append(time.perf_counter() - began)

            await asyncio.gather(*(client(n, 50) for n in range(clients)))
            times.clear()
            began = time.perf_counter()
            lanes = range(clients * outstanding)
            await asyncio.gather(*(client(n % clients, each // outstanding) for n in lanes))
            return Commands(len(times), time.perf_counter() - began, times)

    def threads(self, clients: int, each: int) -> Commands:
        """The same from threads."""
        times: list[float] = []
        aggregate = bank.accounts(self._fresh())
        with BlockingApplication(
            aggregate, self._broker.bootstrap, owns="all", partitions=1
        ) as app:

            def client(number: int) -> None:
                for n in range(each):
                    began = time.perf_counter()
                    app.send(f"account-{number * 4 + n % 4}", Deposit(10))
                    times.append(time.perf_counter() - began)

            seconds = run_threads(client, clients)
        return Commands(len(times), seconds, times)

    def history(self, events: int, accounts: int, snapshot_every: int = 0) -> str:
        """A topic with so many events."""
        name = self._fresh()
        with BlockingApplication(
            bank.accounts(name),
            self._broker.bootstrap,
            owns="all",
            partitions=1,
            snapshot_every=snapshot_every,
        ) as app:
            for n in range(0, events, FILL * 4):
                sent = [
                    app.submit(f"account-{(n // FILL + k) % accounts}", Fill(FILL))
                    for k in range(min(4, (events - n) // FILL))
                ]
                for each in sent:
                    each.result()
        return name

    def opening(self, name: str, snapshots: bool) -> Events:
        """The state of one aggregate, by a reader that knows nothing of it."""
        with Reader(bank.accounts(name), self._broker.bootstrap) as reader:
            reader.end()  # connected, as a pool of connections would be
            began = time.perf_counter()
            held = reader.held("account-0", snapshots=snapshots)
            return Events(held.version, time.perf_counter() - began)

    def replay(self, name: str) -> Events:
        """Every event, typed, into a function that keeps the balances."""
        balances: dict[str, int] = {}
        count = 0
        event: Any
        began = time.perf_counter()
        with Reader(bank.accounts(name), self._broker.bootstrap) as reader:
            for _, events in reader.replay():
                count += len(events)
                for event in events:
                    balances[event.id] = balances.get(event.id, 0) + event.data.amount
        return Events(count, time.perf_counter() - began)


def run_threads(client: Callable[[int], None], clients: int) -> float:
    threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
    began = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return time.perf_counter() - began
