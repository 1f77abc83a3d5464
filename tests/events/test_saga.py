"""Transfers between accounts: each step an event, compensated where it cannot be, once whatever repeats."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from headwater.browse.dead_letters.replay import replay
from headwater.browse.dead_letters.survey import open_letters
from headwater.cli.app import run as headwater
from headwater.events import Accepted, Aggregate, Application
from headwater.events.errors import Closed, OwnerFenced
from headwater.events.history import Reader
from headwater.events.saga import Saga, Send
from tests.events import bank
from tests.events.bank import Account, Close, Credit, Deposit, Transfer, TransferStarted
from tests.events.test_verdict import Noted, Put, State, owner


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


class Poison(Exception):
    """What a rule raises that did not think of everything."""


def careless(accounts: Any, mended: bool = False) -> Any:
    """Transfers of thirteen are too much for it, until it is mended."""
    react = bank.transfers(accounts)

    def reacting(event: Any) -> Any:
        if isinstance(event.data, TransferStarted) and event.data.amount == 13 and not mended:
            raise Poison("thirteen")
        return react(event)

    return reacting


async def one_event_is_poison(name: str, bootstrap: str) -> None:
    accounts = bank.accounts(name)
    app: Application[Account] = Application(accounts, bootstrap, owns="all", partitions=1)
    async with app:
        await app.send("alice", Deposit(100))
        for n, amount in enumerate((10, 13, 20), 1):
            await app.send("alice", Transfer(f"alice:{n}", "bob", amount))

        async def arrived() -> bool:
            saga.check()
            left = set((await app.state("alice")).on_the_way)
            return left == {"alice:2"} and saga.buried == 1

        async with Saga("transfers", accounts, careless(accounts), [app], bootstrap) as saga:
            await until(arrived)  # what comes behind it goes on
        assert (await app.state("bob")).balance == 30
        # Mended, the letter is sent back; what the saga had done already is not done again.
        sent = await asyncio.to_thread(
            replay, {"bootstrap.servers": bootstrap}, f"dlq.{name}.saga.transfers"
        )
        assert sent == 1

        async def all_arrived() -> bool:
            mended.check()
            return not (await app.state("alice")).on_the_way

        mended = Saga("transfers", accounts, careless(accounts, True), [app], bootstrap)
        async with mended:
            await until(all_arrived)
        assert (await app.state("bob")).balance == 43
        assert mended.buried == 0


def test_an_event_that_cannot_be_handled_is_a_dead_letter_and_the_saga_goes_on(
    name: str, bootstrap: str
):
    asyncio.run(one_event_is_poison(name, bootstrap))
    with open_letters({"bootstrap.servers": bootstrap}, f"dlq.{name}.saga.transfers") as letters:
        (letter,) = letters.all()
    assert b'"alice:2"' in (letter.value or b"")
    assert letter.reason == "Poison: thirteen"
    with Reader(bank.accounts(name), bootstrap) as reader:  # nothing went into the events
        assert [each.n for each in reader.history("alice")] == list(range(1, 8))


async def target_is_broken(name: str, bootstrap: str) -> None:
    def decide(account: Account, command: Any) -> Any:
        if command == Credit("alice:1", 5):
            raise ZeroDivisionError("five")
        return bank.decide(account, command)

    accounts = bank.accounts(name)
    broken = type(accounts)(name, Account(), decide, bank.apply, bank.COMMANDS, bank.EVENTS)
    async with Application(broken, bootstrap, owns="all", partitions=1) as app:
        await app.send("alice", Deposit(100))
        await app.send("alice", Transfer("alice:1", "bob", 5))
        await app.send("alice", Transfer("alice:2", "bob", 6))

        async def arrived() -> bool:
            saga.check()
            return (await app.state("bob")).balance == 6 and saga.buried == 1

        async with Saga("transfers", broken, bank.transfers(broken), [app], bootstrap) as saga:
            await until(arrived)


def test_a_command_that_its_aggregate_fails_at_is_a_dead_letter_too(name: str, bootstrap: str):
    asyncio.run(target_is_broken(name, bootstrap))


async def fenced(name: str, bootstrap: str) -> None:
    accounts = bank.accounts(name)
    react = bank.transfers(accounts)
    old: Application[Account] = Application(accounts, bootstrap, owns="all", partitions=1)
    new: Application[Account] = Application(accounts, bootstrap, owns="all")
    quick: dict[str, Any] = {"session_timeout_ms": 1000}
    async with old, Saga("transfers", accounts, react, [old], bootstrap, **quick) as first:
        await old.send("alice", Deposit(100))
        async with new:
            await new.send("alice", Transfer("alice:1", "bob", 30))

            async def told() -> bool:
                return first.rejoined > 0

            await until(told)
            with pytest.raises(OwnerFenced):  # not quietly
                first.check()
            async with Saga("transfers", accounts, react, [new], bootstrap, **quick) as second:

                async def ended() -> bool:
                    second.check()
                    return not (await new.state("alice")).on_the_way

                await until(ended)
            assert first._thread.is_alive()
            assert (await new.state("bob")).balance == 30


def test_a_saga_whose_application_is_fenced_says_so_and_leaves_the_work_to_others(
    name: str, bootstrap: str
):
    asyncio.run(fenced(name, bootstrap))


async def shut_first(name: str, bootstrap: str) -> None:
    accounts = bank.accounts(name)
    app: Application[Account] = Application(accounts, bootstrap, owns="all", partitions=1)
    await app.start()
    await app.send("alice", Deposit(100))
    await app.send("alice", Transfer("alice:1", "bob", 30))
    await app.close()
    async with Saga("transfers", accounts, bank.transfers(accounts), [app], bootstrap) as saga:

        async def over() -> bool:
            return not saga._thread.is_alive()

        await until(over)
        with pytest.raises(Closed):
            saga.check()


def test_a_saga_whose_application_was_closed_ends_and_says_why(name: str, bootstrap: str):
    asyncio.run(shut_first(name, bootstrap))


async def test_a_mended_saga_neither_swallows_nor_doubles_a_step(bootstrap: str, name: str):
    def noting(topic: str) -> Aggregate[State]:
        return Aggregate(
            topic,
            State(()),
            lambda state, command: Noted(command.what),
            lambda state, event: State((*state.last, event.what)),
            [Put],
            [Noted],
        )

    source, target = noting(name), noting(f"{name}-target")

    def before(event: Any) -> Any:
        yield Send(target, "x", Put("credit"))
        raise ValueError("not yet")

    def mended(event: Any) -> Any:
        yield Send(target, "x", Put("fee"))
        yield Send(target, "x", Put("credit"))

    async with owner(source, bootstrap) as orders, owner(target, bootstrap) as bank:
        async with Saga("steps", source, before, [bank], bootstrap) as saga:
            await orders.send("o", Put("start"))

            async def buried() -> bool:
                return saga.buried == 1

            await until(buried)
        words = ["deadletters", "replay", f"dlq.{name}.saga.steps", "--bootstrap", bootstrap]
        assert await asyncio.to_thread(headwater, words) == 0
        async with Saga("steps", source, mended, [bank], bootstrap) as saga:

            async def handled() -> bool:
                return saga.handled >= 1

            await until(handled)
        found = (await bank.state("x")).last
        assert sorted(found) == ["credit", "fee"]
