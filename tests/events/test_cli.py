"""`headwater events` and what `headwater forget` refuses."""

from __future__ import annotations

import json

import pytest

from headwater.cli.app import run as headwater
from headwater.client.errors import RequestRefused
from headwater.events import BlockingApplication
from headwater.events.errors import BadTopic
from tests.events import bank
from tests.events.bank import Deposit, Withdraw

accounts = bank.accounts("cli-accounts")


@pytest.fixture(scope="module", autouse=True)
def _filled(bootstrap: str) -> None:
    with BlockingApplication(accounts, bootstrap, owns="all", partitions=3) as app:
        app.send("alice", Deposit(10), who="teller", why="payday", correlation="march")
        app.send("alice", Withdraw(3))


def test_a_history_is_printed_for_people_and_for_scripts(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
):
    words = ["events", "history", "cli-accounts", "alice", "--bootstrap", bootstrap]
    assert headwater(words) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("1  Deposited(amount=10)  by teller  because payday")
    assert second.endswith("2  Withdrawn(amount=3)")
    assert headwater([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["data"] for each in found] == [{"amount": 10}, {"amount": 3}]
    assert found[0]["correlation"] == "march"
    with pytest.raises(RequestRefused, match="no event of 'nobody'"):
        headwater(["events", "history", "cli-accounts", "nobody", "--bootstrap", bootstrap])
    with pytest.raises(BadTopic, match="no topic 'nothing'"):
        headwater(["events", "history", "nothing", "alice", "--bootstrap", bootstrap])


def test_a_state_of_now_and_of_then_is_printed(bootstrap: str, capsys: pytest.CaptureFixture[str]):
    words = ["events", "state", "tests.events.test_cli:accounts", "alice"]
    assert headwater([*words, "--bootstrap", bootstrap]) == 0
    assert json.loads(capsys.readouterr().out)["balance"] == 7
    assert headwater([*words, "--as-of", "2020-01-01T00:00", "--bootstrap", bootstrap]) == 0
    assert json.loads(capsys.readouterr().out)["balance"] == 0
    assert headwater([*words, "--as-of", "soon", "--bootstrap", bootstrap]) == 2
    assert headwater(["events", "state", "json:dumps", "alice", "--bootstrap", bootstrap]) == 2
    assert "is no Aggregate" in capsys.readouterr().err


def test_forgetting_asks_first_and_wants_topics_that_exist(bootstrap: str):
    with pytest.raises(RequestRefused, match="permanently unreadable"):
        headwater(["forget", "alice", "--bootstrap", bootstrap])
    with pytest.raises(RequestRefused, match="no topic 'nothing'"):
        headwater(["forget", "alice", "--yes", "--topic", "nothing", "--bootstrap", bootstrap])
