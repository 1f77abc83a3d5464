"""Transfers between accounts: each step an event, compensated where it cannot be, once whatever repeats."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from headwater.events import Accepted, Application
from headwater.events.history import Reader
from headwater.events.saga import Saga
from tests.events import bank
from tests.events.bank import Account, Close, Deposit, Transfer


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.02)


async def transferred(name: str, bootstrap: str) -> None:
    accounts = bank.accounts(name)
    app: Application[Account] = Application(accounts, bootstrap, owns="all", partitions=2)
    async with app:
        await app.send("alice", Deposit(100))
        await app.send("carol", Close())
        answer = await app.send("alice", Transfer("alice:1", "bob", 30), correlation="rent")
        assert isinstance(answer, Accepted)
        await app.send("alice", Transfer("alice:2", "carol", 20))

        async def ended() -> bool:
            saga.check()
            return not (await app.state("alice")).on_the_way

        react = bank.transfers(accounts)
        async with Saga("transfers", accounts, react, [app], bootstrap) as saga:
            await until(ended)
            handled = saga.handled
        assert (await app.state("alice")).balance == 70
        assert (await app.state("bob")).balance == 30
        # Another runner that starts from the beginning does everything again, to no effect.
        async with Saga("transfers", accounts, react, [app], bootstrap) as again:
            again._settings["group.id"] = "nobody"
            versions = {id: (await app.held(id)).version for id in ("alice", "bob", "carol")}
        repeated = Saga("transfers", accounts, react, [app], bootstrap)
        repeated._settings["group.id"] = f"{name} from the start"
        async with repeated:

            async def handled_again() -> bool:
                repeated.check()
                return repeated.handled >= handled

            await until(handled_again)
        assert versions == {id: (await app.held(id)).version for id in versions}


def test_a_transfer_arrives_or_comes_back_and_repeating_changes_nothing(name: str, bootstrap: str):
    asyncio.run(transferred(name, bootstrap))
    with Reader(bank.accounts(name), bootstrap) as reader:
        history = reader.history("alice")
        kinds = Counter(type(each.event).__name__ for each in history)
        assert kinds["TransferCompleted"] == kinds["TransferCancelled"] == 1
        cancelled = next(e for e in history if isinstance(e.event, bank.TransferCancelled))
        assert cancelled.event.why == "the account is closed"
        assert cancelled.who == "saga transfers" and cancelled.causation.startswith(name)
        credit = reader.history("bob")[0]
        assert credit.correlation == "rent"  # the same from the first step to the last
