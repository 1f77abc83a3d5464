"""A command is decided once for its aggregate: however often and late it is sent, with any id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.events import Accepted, BlockingApplication, Refused
from headwater.events.errors import DecideFailed
from headwater.events.history import Reader
from tests.events import bank
from tests.events.bank import Deposit, Withdraw
from tests.events.test_application import running

ODD = [
    'with "quotes"',
    "back\\slash",
    "line\nbreak",
    "tab\tand \x01\x1f",
    "nul\0",
    "é, ß, 日本語, 🎭",
    "e\u0301 is not é",
    '{"command":"x"}',
    "\\u0041",
    "</script>",
    " ",
]


def later(app: BlockingApplication[Any], ms: int = 60_000) -> Callable[[], None]:
    """Lets time pass at the owner, and more commands than it remembers come in."""
    (owner,) = app.application._owners.values()
    now = owner.desk.now_ms() + ms

    def passes() -> None:
        nonlocal now
        now += ms
        owner.desk.now_ms = lambda: now
        for _ in range(30):
            app.send("somebody", Deposit(1))

    return passes


def test_a_command_that_was_found_in_the_log_is_found_there_again(name: str, bootstrap: str):
    with running(name, bootstrap, window=10, partitions=1) as app:
        passes = later(app)
        (owner,) = app.application._owners.values()
        sent: dict[str, Any] = {"command_id": "a", "sent_at_ms": owner.desk.now_ms()}
        first = app.send("alice", Deposit(5), **sent)
        assert isinstance(first, Accepted)
        for _ in range(4):
            passes()
            again = app.send("alice", Deposit(5), **sent)
            assert isinstance(again, Accepted) and again.repeated
            assert again.position == first.position
        assert app.state("alice").balance == 5
        assert not owner.desk.ledger.cleared  # nothing gathers


def test_a_refusal_and_a_command_with_nothing_to_do_are_found_again_too(name: str, bootstrap: str):
    with running(name, bootstrap, window=10, partitions=1) as app:
        passes = later(app)
        (owner,) = app.application._owners.values()
        at = owner.desk.now_ms()
        no = app.send("alice", Withdraw(5), command_id="no", sent_at_ms=at)
        idle = app.send("alice", bank.Complete("none"), command_id="idle", sent_at_ms=at)
        assert isinstance(no, Refused) and isinstance(idle, Accepted)
        app.send("alice", Deposit(100))
        for _ in range(3):
            passes()
            again = app.send("alice", Withdraw(5), command_id="no", sent_at_ms=at)
            assert isinstance(again, Refused) and again.repeated
            found = app.send("alice", bank.Complete("none"), command_id="idle", sent_at_ms=at)
            assert isinstance(found, Accepted) and found.repeated and found.events == 0
            with Reader(bank.accounts(name), bootstrap) as reader:  # a view can wait for it
                assert reader.end().covers(found.position)
        assert app.state("alice").balance == 100


@pytest.mark.parametrize("command_id", ODD)
def test_any_text_may_be_an_id(command_id: str, name: str, bootstrap: str):
    with running(name, bootstrap, window=10, partitions=1) as app:
        passes = later(app)
        (owner,) = app.application._owners.values()
        sent: dict[str, Any] = {"command_id": command_id, "sent_at_ms": owner.desk.now_ms()}
        app.send("alice", Deposit(5), **sent)
        passes()
        again = app.send("alice", Deposit(5), **sent)
        assert isinstance(again, Accepted) and again.repeated
        assert app.state("alice").balance == 5


def test_a_command_that_fails_leaves_nothing_behind(name: str, bootstrap: str):
    def decide(account: bank.Account, command: Any) -> Any:
        if command == Deposit(13):
            raise ZeroDivisionError("thirteen")
        return bank.decide(account, command)

    aggregate = bank.accounts(name)
    broken = type(aggregate)(name, bank.Account(), decide, bank.apply, bank.COMMANDS, bank.EVENTS)
    with BlockingApplication(broken, bootstrap, owns="all", partitions=1, window=10) as app:
        passes = later(app)
        (owner,) = app.application._owners.values()
        at = owner.desk.now_ms()
        passes()
        for n in range(3):
            with pytest.raises(DecideFailed):
                app.send("alice", Deposit(13), command_id=f"bad {n}", sent_at_ms=at)
        assert not owner.desk.ledger.cleared


def test_the_same_id_for_another_aggregate_is_another_command(name: str, bootstrap: str):
    with running(name, bootstrap, window=10, partitions=1) as app:
        passes = later(app)
        (owner,) = app.application._owners.values()
        sent: dict[str, Any] = {"command_id": "transfer-1", "sent_at_ms": owner.desk.now_ms()}
        app.send("a", Deposit(10))
        debit, credit = app.send("a", Withdraw(10), **sent), app.send("b", Deposit(10), **sent)
        assert isinstance(debit, Accepted) and isinstance(credit, Accepted)
        assert not credit.repeated
        assert (app.state("a").balance, app.state("b").balance) == (0, 10)
        for _ in range(2):
            passes()
            assert app.send("a", Withdraw(10), **sent).repeated
            assert app.send("b", Deposit(10), **sent).repeated
        assert (app.state("a").balance, app.state("b").balance) == (0, 10)
    with running(name, bootstrap) as next_owner:
        assert next_owner.send("b", Deposit(10), command_id="transfer-1").repeated
        assert not next_owner.send("d", Deposit(10), command_id="transfer-1").repeated


def test_the_same_id_for_two_aggregates_at_once_gets_two_answers_from_another_process(
    name: str, bootstrap: str
):
    options: dict[str, Any] = {"owns": "group", "partitions": 1}
    with running(name, bootstrap, **options), running(name, bootstrap, owns="none") as client:
        waiting = {
            id: client.submit(id, Deposit(n), command_id="both")
            for n, id in enumerate(("a", "b", "c"), 1)
        }
        for id, each in waiting.items():
            found = each.result(60)
            assert isinstance(found, Accepted) and found.aggregate == id
    with Reader(bank.accounts(name), bootstrap) as reader:
        assert [reader.state(id).balance for id in ("a", "b", "c")] == [1, 2, 3]
