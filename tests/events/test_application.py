"""Commands and answers: accepted with a position, refused with a reason, decided once, by one owner."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headwater import testing
from headwater.events import Accepted, Application, BlockingApplication, Refused
from headwater.events.errors import (
    BadDefinition,
    BadTopic,
    DecideFailed,
    EventsError,
    OwnerFenced,
    UnknownEvent,
)
from headwater.events.history import Reader
from headwater.project.ports import free_port
from tests.events import bank
from tests.events.bank import Deposit, Withdraw


def running(name: str, bootstrap: str, **options: Any) -> BlockingApplication[bank.Account]:
    return BlockingApplication(
        bank.accounts(name), bootstrap, **{"owns": "all", "partitions": 2} | options
    )


def test_a_command_is_answered_with_position_or_reason(name: str, bootstrap: str):
    with running(name, bootstrap) as app:
        first = app.send("alice", Deposit(10))
        second = app.send("alice", Withdraw(4))
        refused = app.send("alice", Withdraw(7))
        assert isinstance(first, Accepted) and isinstance(second, Accepted)
        assert (first.version, second.version) == (1, 2)
        assert second.position.covers(first.position)
        assert refused == Refused("overdraft")
        assert app.state("alice") == bank.Account(6)
    with Reader(bank.accounts(name), bootstrap) as reader:
        assert reader.end().covers(second.position)
        assert [each.n for each in reader.history("alice")] == [1, 2]


def test_a_command_sent_twice_is_decided_once_also_by_the_next_owner(name: str, bootstrap: str):
    with running(name, bootstrap) as app:
        accepted = app.send("alice", Deposit(10), command_id="a")
        refused = app.send("alice", Withdraw(20), command_id="b")
        again = app.send("alice", Deposit(10), command_id="a")
        assert isinstance(accepted, Accepted) and isinstance(again, Accepted)
        assert again.repeated and again.position == accepted.position
        app.send("alice", Deposit(90))
    with running(name, bootstrap) as app:
        # It would be accepted now, had it not been refused before.
        later = app.send("alice", Withdraw(20), command_id="b")
        assert isinstance(later, Refused) and later.reason == refused.reason and later.repeated
        again = app.send("alice", Deposit(10), command_id="a")
        assert isinstance(again, Accepted) and again.position == accepted.position
        assert app.state("alice").balance == 100


def test_a_command_beyond_the_window_is_found_in_the_log(name: str, bootstrap: str):
    with running(name, bootstrap, window=10, partitions=1) as app:
        sent_at_ms = 1_000_000  # long ago: what is in memory does not reach so far
        first = app.send("alice", Deposit(10), command_id="a", sent_at_ms=sent_at_ms)
        no = app.send("alice", Withdraw(50), command_id="b", sent_at_ms=sent_at_ms)
        for _ in range(40):
            app.send("bob", Deposit(1))
        ledger = app.application._owners[0].desk.ledger
        ledger._decided.clear()  # as after more than the window, and half a minute
        ledger.remembered_from_ms = ledger.last_ms
        again = app.send("alice", Deposit(10), command_id="a", sent_at_ms=sent_at_ms)
        assert isinstance(again, Accepted) and again.position == first.position  # type: ignore[union-attr]
        app.send("alice", Deposit(100))
        ledger._decided.clear()
        again = app.send("alice", Withdraw(50), command_id="b", sent_at_ms=sent_at_ms)
        assert isinstance(again, Refused) and again.reason == no.reason  # type: ignore[union-attr]
        new = app.send("alice", Deposit(1), command_id="c", sent_at_ms=sent_at_ms)
        assert isinstance(new, Accepted) and not new.repeated
        assert app.state("alice").balance == 111


def test_an_expected_version_must_be_the_present_one(name: str, bootstrap: str):
    with running(name, bootstrap) as app:
        app.send("alice", Deposit(10), expected_version=0)
        refused = app.send("alice", Deposit(10), expected_version=0)
        assert refused == Refused("expected version 0, found 1", "version")
        assert isinstance(app.send("alice", Deposit(1), expected_version=1), Accepted)


def test_many_callers_at_once_are_decided_one_after_another(name: str, bootstrap: str):
    async def main() -> list[Any]:
        app = Application(bank.accounts(name), bootstrap, owns="all", partitions=2)
        async with app:
            await app.send("alice", Deposit(100))
            sent = [app.send("alice", Withdraw(10)) for _ in range(30)]
            found = await asyncio.gather(*sent)
            assert (await app.state("alice")).balance == 0
            return found

    found = asyncio.run(main())
    assert sum(isinstance(each, Accepted) for each in found) == 10
    versions = sorted(each.version for each in found if isinstance(each, Accepted))
    assert versions == list(range(2, 12))


def test_an_older_owner_is_fenced_and_can_write_nothing(name: str, bootstrap: str):
    with running(name, bootstrap) as old:
        old.send("alice", Deposit(10))
        with running(name, bootstrap) as new:
            new.send("alice", Deposit(5))
            # The old one knows 10, would refuse 12, and must not: nor may it accept.
            with pytest.raises(OwnerFenced):
                old.send("alice", Withdraw(12))
            with pytest.raises((OwnerFenced, EventsError)):
                old.send("alice", Withdraw(1))
            assert isinstance(new.send("alice", Withdraw(12)), Accepted)
            assert new.state("alice").balance == 3


def test_a_broken_rule_writes_nothing_and_harms_nobody_else(name: str, bootstrap: str):
    def decide(account: bank.Account, command: Any) -> Any:
        if command == Deposit(13):
            raise ZeroDivisionError("thirteen")
        return bank.decide(account, command)

    aggregate = bank.accounts(name)
    broken = type(aggregate)(name, bank.Account(), decide, bank.apply, bank.COMMANDS, bank.EVENTS)
    with BlockingApplication(broken, bootstrap, owns="all", partitions=1) as app:
        app.send("alice", Deposit(1))
        with pytest.raises(DecideFailed, match="ZeroDivisionError: thirteen"):
            app.send("alice", Deposit(13))
        app.send("alice", Deposit(2))
        assert app.held("alice") == (bank.Account(3), 2)


def test_events_larger_than_a_batch_are_refused_and_the_rest_goes_on(name: str, bootstrap: str):
    with running(name, bootstrap, partitions=1) as app:
        app.send("alice", Deposit(5))
        with pytest.raises(EventsError, match="larger than a batch"):
            app.send("alice", bank.Transfer("t" * 2_000_000, "bob", 1))
        assert isinstance(app.send("alice", Deposit(1)), Accepted)
        assert app.state("alice").balance == 6


def test_a_broker_that_restarts_loses_nothing_and_repeats_nothing(name: str, tmp_path: Path):
    listen = f"127.0.0.1:{free_port()}"
    with testing.broker(tmp_path, listen=listen):
        app = running(name, listen, partitions=1)
        app.send("alice", Deposit(1))
    waiting = [app.submit("alice", Deposit(1)) for _ in range(20)]
    with testing.broker(tmp_path, listen=listen):
        answers = [each.result(60) for each in waiting]
        assert sorted(each.version for each in answers) == list(range(2, 22))  # type: ignore[union-attr]
        assert app.state("alice").balance == 21
        app.close()
        with Reader(bank.accounts(name), listen) as reader:
            assert len(reader.history("alice")) == 21


def test_owners_of_a_group_share_the_partitions_and_forward(name: str, bootstrap: str):
    options = {"owns": "group", "partitions": 4, "session_timeout_ms": 5000}
    ids = [f"account-{n}" for n in range(20)]
    with running(name, bootstrap, **options) as one:
        for id in ids:
            assert isinstance(one.send(id, Deposit(1), command_id=f"first {id}"), Accepted)
        with running(name, bootstrap, **options) as two:
            wait_until(lambda: bool(one.owned) and bool(two.owned))
            for id in ids:  # from either side, whoever owns it
                assert isinstance(one.send(id, Deposit(2)), Accepted)
                assert isinstance(two.send(id, Withdraw(1)), Accepted)
                again = two.send(id, Deposit(1), command_id=f"first {id}")
                assert isinstance(again, Accepted) and again.repeated
            assert isinstance(two.send(ids[0], Withdraw(100)), Refused)
            wait_until(lambda: len(one.owned | two.owned) == 4 and not one.owned & two.owned)
        with running(name, bootstrap, owns="none") as client:
            assert isinstance(client.send(ids[0], Deposit(5)), Accepted)
            with pytest.raises(EventsError, match="owned by another process"):
                client.state(ids[0])
    with Reader(bank.accounts(name), bootstrap) as reader:
        assert [reader.state(id).balance for id in ids] == [7] + [2] * 19


def wait_until(condition: Any, deadline_s: float = 60) -> None:
    ready = threading.Event()
    for _ in range(int(deadline_s / 0.02)):
        if condition():
            return
        ready.wait(0.02)
    raise AssertionError("it did not happen in time")


def test_topics_that_would_lose_history_are_refused(name: str, bootstrap: str):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    compacted = {"cleanup.policy": "compact", "retention.ms": "-1"}
    for topic, config, said in (
        (f"{name}-1", compacted, "compacted by key"),
        (f"{name}-2", {"retention.ms": "1000"}, "retention.ms=1000"),
    ):
        admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(60)
        with pytest.raises(BadTopic, match=said):
            running(topic, bootstrap)


def test_only_declared_commands_are_taken(name: str, bootstrap: str):
    @dataclass
    class Rob:
        amount: int

    with running(name, bootstrap) as app, pytest.raises(BadDefinition, match="no command Rob"):
        app.send("alice", Rob(1))


def test_a_fold_that_fails_on_history_is_told_to_every_caller(name: str, bootstrap: str):
    accounts = bank.accounts(name)
    with BlockingApplication(accounts, bootstrap, owns="all", partitions=1) as app:
        app.send("alice", Deposit(13))

    def superstitious(account: bank.Account, event: Any) -> bank.Account:
        assert event.amount != 13, "not this one"
        return bank.apply(account, event)

    wrong = type(accounts)(
        name, bank.Account(), bank.decide, superstitious, bank.COMMANDS, bank.EVENTS
    )
    with (
        BlockingApplication(wrong, bootstrap, owns="all") as app,
        pytest.raises(EventsError, match="cannot be taken over: AssertionError: not this one"),
    ):
        app.send("alice", Deposit(1))


def test_an_answer_that_is_lost_is_found_in_the_log(name: str):
    """The batch arrives, its answer does not: whoever sent it hears of it once, and it counts once."""
    with testing.broker() as kafka, running(name, kafka.bootstrap, partitions=1) as app:
        app.send("alice", Deposit(1))
        for n in range(5):
            lost = kafka.faults.lose_answer("Produce", topic=name)
            waiting = [app.submit("alice", Deposit(1)) for _ in range(3)]
            found = [each.result(60) for each in waiting]
            assert lost.struck == 1
            assert all(isinstance(each, Accepted) for each in found)
            assert app.state("alice").balance == 1 + 3 * (n + 1)
        with Reader(bank.accounts(name), kafka.bootstrap) as reader:
            assert [each.n for each in reader.history("alice")] == list(range(1, 17))


def test_whoever_sends_a_command_that_the_owner_does_not_know_is_told(name: str, bootstrap: str):
    """The sender is of a newer version than the owner."""
    newer = bank.accounts(name)
    older = dataclasses.replace(newer, commands=[bank.Withdraw])
    with (
        BlockingApplication(older, bootstrap, owns="group", partitions=1) as owner,
        BlockingApplication(newer, bootstrap, owns="none") as client,
    ):
        with pytest.raises(UnknownEvent, match="knows no command Deposit"):
            client.send("alice", Deposit(1))
        assert client.send("alice", bank.Withdraw(1)) == Refused("overdraft")
        assert owner.owned == {0}


def test_what_is_no_command_becomes_a_dead_letter_and_stops_nobody(name: str, bootstrap: str):
    accounts = bank.accounts(name)
    with BlockingApplication(accounts, bootstrap, owns="group", partitions=1) as owner:
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(accounts.inbox, b"nonsense", b"alice", 0)
        producer.flush(60)
        with BlockingApplication(accounts, bootstrap, owns="none") as client:
            assert isinstance(client.send("alice", Deposit(1)), Accepted)
        assert owner.owned == {0}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "letters"})
    consumer.assign([TopicPartition(accounts.letters, 0, 0)])
    letter = consumer.poll(30)
    consumer.close()
    assert letter is not None and letter.value() == b"nonsense"
    said = dict(letter.headers() or [])
    assert said["__dlq.errors.topic"] == accounts.inbox.encode()
    assert b"not understood" in said["__dlq.errors.message"]  # type: ignore[operator]
