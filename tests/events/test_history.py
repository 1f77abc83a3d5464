"""States of now and of then, snapshots that may be thrown away, histories that a person can read."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headwater import testing
from headwater.broker import internal_topics
from headwater.cli.app import run as headwater
from headwater.client.position import Position
from headwater.events import Accepted, BlockingApplication
from headwater.events.errors import EventsError
from headwater.events.history import Reader
from headwater.events.owner import Owner
from tests.events import bank
from tests.events.bank import Deposit, Withdraw
from tests.events.test_verdict import Put, State, adding, owner


def test_the_history_says_who_what_when_and_why(name: str, bootstrap: str):
    accounts = bank.accounts(name)
    with BlockingApplication(accounts, bootstrap, owns="all", partitions=2) as app:
        app.send("alice", Deposit(10), who="teller 3", why="payday", correlation="march")
        app.send("bob", Deposit(1))
        app.send("alice", Withdraw(4), who="alice", causation="letter 5", command_id="w")
    with Reader(accounts, bootstrap) as reader:
        found = reader.history("alice")
        first, second = str(found).splitlines()
        assert first.endswith("1  Deposited(amount=10)  by teller 3  because payday")
        assert second.endswith("2  Withdrawn(amount=4)  by alice")
        assert found[0].correlation == "march"
        assert (found[1].causation, found[1].correlation) == ("letter 5", "w")


def test_as_of_is_the_state_at_any_earlier_moment(name: str, bootstrap: str):
    accounts = bank.accounts(name)
    start = int(time.time() * 1000) + 60_000
    clock = [start]
    with BlockingApplication(accounts, bootstrap, owns="all", partitions=1) as app:
        (owner,) = app.application._owners.values()
        owner.desk.now_ms = lambda: clock[0]
        for step in range(5):
            app.send("alice", Deposit(1))
            app.send("bob", Deposit(100))
            clock[0] += 1000 if step != 2 else -5000  # a clock that goes back changes no order
    with Reader(accounts, bootstrap) as reader:
        balances = [
            reader.as_of("alice", ms).balance for ms in range(start - 1000, start + 4000, 500)
        ]
        assert balances == [0, 0, 1, 1, 2, 2, 5, 5, 5, 5]
        assert balances == sorted(balances)
        at = [each.at for each in reader.history("alice")]
        assert at == sorted(at)
        assert reader.as_of("alice", at[1]).balance == 2


def owner_of(app: BlockingApplication[Any]) -> Owner:
    (owner,) = app.application._owners.values()
    return owner


def test_snapshots_spare_the_reading_and_are_never_the_truth(name: str, bootstrap: str):
    accounts = bank.accounts(name)
    options: dict[str, Any] = {"owns": "all", "partitions": 1}
    with BlockingApplication(accounts, bootstrap, snapshot_every=50, **options) as app:
        answers = [app.submit(f"a{n % 7}", Deposit(n + 1)) for n in range(200)]
        assert all(isinstance(each.result(), Accepted) for each in answers)
    expected = {f"a{k}": sum(n + 1 for n in range(200) if n % 7 == k) for k in range(7)}
    with Reader(accounts, bootstrap) as reader:
        for id, balance in expected.items():
            assert reader.state(id).balance == balance
            assert reader.state(id, snapshots=False).balance == balance

    folded: list[object] = []

    def counting(account: bank.Account, event: Any) -> bank.Account:
        folded.append(event)
        return bank.apply(account, event)

    def reopened(apply: Any, fingerprint: str | None = None, fold: int = 1) -> int:
        folded.clear()
        again = type(accounts)(
            name, bank.Account(), bank.decide, apply, bank.COMMANDS, bank.EVENTS, fold=fold
        )
        if fingerprint is not None:
            object.__setattr__(again, "fingerprint", fingerprint)
        with BlockingApplication(again, bootstrap, **options) as app:
            found = {id: app.state(id).balance for id in expected}
            assert found == expected
        return len(folded)

    assert reopened(counting, accounts.fingerprint) < 200  # from the snapshots
    assert reopened(counting) == 200  # another fold: they are not used
    assert reopened(counting, fold=2) == 200


def test_a_new_owner_remembers_commands_from_before_the_snapshot(name: str, bootstrap: str):
    accounts = bank.accounts(name)
    options: dict[str, Any] = {"owns": "all", "partitions": 1}
    with BlockingApplication(accounts, bootstrap, snapshot_every=5, **options) as app:
        for n in range(40):
            app.send("alice", Deposit(1), command_id=f"c{n}")
    with BlockingApplication(accounts, bootstrap, window=1_000, **options) as app:
        for n in range(40):
            again = app.send("alice", Deposit(1), command_id=f"c{n}")
            assert isinstance(again, Accepted) and again.repeated and again.version == n + 1
        assert app.state("alice").balance == 40


def test_a_replay_goes_on_from_any_position(name: str, bootstrap: str):
    accounts = bank.accounts(name)
    with BlockingApplication(accounts, bootstrap, owns="all", partitions=2) as app:
        for n in range(20):
            app.send(f"a{n % 4}", Deposit(1))
        with Reader(accounts, bootstrap) as reader:
            seen, position = 0, Position()
            for at, events in reader.replay():
                position = at
                seen += len(events)
            assert seen == 20
            answer = app.send("a1", Deposit(1))
            assert isinstance(answer, Accepted)
            assert not position.covers(answer.position)
            rest = list(reader.replay(position))
            assert [event.id for _, events in rest for event in events] == ["a1"]
            assert rest[-1][0].covers(answer.position)


def test_long_partitions_are_read_in_compiled_code_with_the_same_result(
    name: str, bootstrap: str, monkeypatch: Any
):
    from headwater.events import partition_reader

    accounts = bank.accounts(name)
    with BlockingApplication(accounts, bootstrap, owns="all", partitions=1) as app:
        for _ in range(3):
            answers = [app.submit(f"a{n % 3}", Deposit(n)) for n in range(100)]
            for each in answers:
                each.result()
    with Reader(accounts, bootstrap) as reader:
        plain = reader.history("a1"), [events for _, events in reader.replay()]
        monkeypatch.setattr(partition_reader, "LONG", 1)
        fast = reader.history("a1"), [events for _, events in reader.replay()]
    assert fast[0] == plain[0] and len(plain[0]) == 99
    flat = [[each for events in found[1] for each in events] for found in (plain, fast)]
    assert flat[0] == flat[1] and len(flat[0]) == 300


def test_time_is_that_of_the_owner(name: str, bootstrap: str):
    before = time.time()
    accounts = bank.accounts(name)
    with BlockingApplication(accounts, bootstrap, owns="all", partitions=1) as app:
        app.send("alice", Deposit(1))
    with Reader(accounts, bootstrap) as reader:
        (entry,) = reader.history("alice")
        assert before - 1 <= entry.at.timestamp() <= time.time() + 1


async def test_a_history_that_lost_its_start_is_not_folded(bootstrap: str, name: str):
    aggregate = adding(name)
    async with owner(aggregate, bootstrap) as bank:
        for _ in range(5):
            await bank.send("alice", Put(10))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(name, 0, 5)]).values():
        await asyncio.to_thread(future.result, 10)
    with pytest.raises(EventsError):
        async with owner(aggregate, bootstrap) as bank:
            await bank.state("alice")
    with Reader(aggregate, bootstrap) as reader, pytest.raises(EventsError):
        reader.state("alice")


async def test_a_hole_is_taken_only_where_an_excision_explains_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(internal_topics, "TESTIMONY", frozenset())  # so that it can be lost
    with testing.broker() as broker:
        aggregate = adding("sums")
        async with owner(aggregate, broker.bootstrap) as bank:
            first = await bank.send("alice", Put(1))
            for amount in (10, 100):
                await bank.send("alice", Put(amount))
            await bank.send("bob", Put(7))
        assert isinstance(first, Accepted)
        words = ["--offsets", f"0:{first.next_offset}-{first.next_offset}", "--yes"]
        words += ["--bootstrap", broker.bootstrap]
        assert await asyncio.to_thread(headwater, ["excise", "sums", *words]) == 0
        async with owner(aggregate, broker.bootstrap) as bank:
            assert (await bank.held("alice")) == (State(100, 101), 3)
        with Reader(aggregate, broker.bootstrap) as reader:
            assert reader.state("alice").total == 101
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (deleted,) = admin.delete_topics(["__headwater_audit"]).values()
        await asyncio.to_thread(deleted.result, 10)
        with pytest.raises(EventsError, match="event 3 of alice follows event 1"):
            async with owner(aggregate, broker.bootstrap) as bank:
                await bank.state("alice")
        with Reader(aggregate, broker.bootstrap) as reader:
            assert reader.state("bob").total == 7
            with pytest.raises(EventsError, match="event 3 of alice follows event 1"):
                reader.state("alice")
