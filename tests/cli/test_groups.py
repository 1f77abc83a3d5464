"""`headwater groups`, `lag` and the shell's completion, with a broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from headwater.testing import broker
from tests.cli.conftest import Ran
from tests.cli.inside import Inside


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with broker() as running:
        yield running.bootstrap


@pytest.fixture
def run(capsys, monkeypatch, bootstrap: str) -> Callable[..., Ran]:
    monkeypatch.setenv("HEADWATER_BOOTSTRAP", bootstrap)
    return Inside(capsys, monkeypatch)


@pytest.fixture
def billing(run) -> Iterator[str]:
    """A group that has read nothing of ten records."""
    run("topics", "create", "orders", "--if-missing")
    if run("tail", "orders", "--no-follow").out == "":
        run("produce", "orders", stdin=b"\n".join(b"%d" % i for i in range(10)))
    ran = run("groups", "reset", "billing", "--to", "beginning", "--topic", "orders", "--yes")
    assert ran.code == 0, ran.err
    yield "billing"
    run("groups", "delete", "billing", "--yes")


def test_a_group_is_listed_shown_moved_and_deleted(run, billing):
    (row,) = json.loads(run("groups", "list", "--json").out)
    assert row == {"group": "billing", "state": "empty", "members": 0, "topics": 1, "lag": 10}
    assert "orders          0  0          10   10   -" in run("groups", "show", "billing").out
    ran = run("groups", "reset", "billing", "--to", "7", "--dry-run")
    assert ran.out.endswith("1 partition of billing would move\n")
    assert json.loads(run("groups", "show", "billing", "--json").out)["lag"] == 10
    assert run("groups", "reset", "billing", "--shift", "4", "--yes").code == 0
    assert json.loads(run("groups", "show", "billing", "--json").out)["lag"] == 6
    assert run("groups", "delete", "billing", "--yes").out == "Deleted group billing\n"
    assert run("groups", "list").out.startswith("No consumer groups")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["reset", "billing"], 2, "give one of --to and --shift"),
        (["reset", "billing", "--to", "1", "--shift", "1"], 2, "give one of --to and --shift"),
        (["reset", "billing", "--to", "3"], 2, "nobody is there to be asked; say --yes"),
        (["reset", "billing", "--to", "soon", "--yes"], 1, "neither an offset nor a time"),
        (["reset", "nobody", "--to", "3", "--yes"], 1, "has no committed offsets; name the topics"),
        (["show", "nobody"], 1, "there is no group 'nobody'; headwater groups list shows"),
        (["delete", "nobody", "--yes"], 1, "there is no group 'nobody'"),
        (["delete", "billing"], 2, "nobody is there to be asked; say --yes"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run, billing, words, code, sentence):
    ran = run("groups", *words)
    assert (ran.code, ran.out) == (code, "")
    assert sentence in ran.err
    assert ran.err.count("\n") == 1


def test_lag_is_told_and_an_alarm_is_exit_code_3(run, billing):
    assert run("lag").out == "GROUP    TOPIC   LAG\nbilling  orders   10\n"
    assert json.loads(run("lag", "billing", "--partitions", "--json").out) == [
        {
            "group": "billing",
            "topic": "orders",
            "lag": 10,
            "partition": 0,
            "committed": 0,
            "end": 10,
        }
    ]
    assert run("lag", "--alert", "10").code == 0
    ran = run("lag", "--alert", "9", "--watch")
    assert ran.code == 3
    assert ran.err == "headwater: billing is 10 behind in orders, more than 9\n"
    assert run("lag", "--topic", "others").out == "No group has committed an offset\n"
    assert run("lag", "nobody").code == 1


def test_the_shell_completes_topics_and_groups(run, billing, monkeypatch):
    def offered(words: str) -> list[str]:
        monkeypatch.setenv("_HEADWATER_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        return run().out.split()

    assert offered("headwater tail o") == ["orders"]
    assert offered("headwater groups show ") == ["billing"]
    assert offered("headwater topics describe x") == []
    assert offered("headwater ta") == ["tail"]
    monkeypatch.setenv("HEADWATER_BOOTSTRAP", "127.0.0.1:1")
    assert offered("headwater tail o") == []


def test_topics_are_listed_at_length(run, billing):
    (row,) = json.loads(run("topics", "list", "--long", "--json").out)
    assert row.pop("bytes") > 0
    assert row == {
        "topic": "orders",
        "partitions": 1,
        "offsets": 10,
        "cleanup": "delete",
        "retention_ms": 604_800_000,
    }
    assert run("topics", "list", "-l").out.splitlines()[1].endswith("delete   7 d")
