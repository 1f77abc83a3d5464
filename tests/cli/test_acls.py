"""`headwater acls` as a user meets it."""

from __future__ import annotations

import json

import pytest

from headwater.cli import main
from headwater.testing import broker

SETTINGS = {"authorizer.class.name": "acl", "super.users": "User:ANONYMOUS"}


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch):
    with broker(settings=SETTINGS) as server:
        monkeypatch.setenv("HEADWATER_BOOTSTRAP", server.bootstrap)
        yield server.bootstrap


def test_permissions_are_given_listed_and_taken_back(address, capsys):
    given = ["User:ann", "read", "topic:orders", "group:billing", "--prefixed"]
    assert main(["acls", "allow", *given]) == 0
    assert main(["acls", "deny", "User:*", "delete", "topic:*", "cluster"]) == 0
    assert "User:* may not delete topic:*, cluster" in capsys.readouterr().out
    assert main(["acls", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["permission"], row["resource"], row["names"]) for row in rows] == [
        ("deny", "cluster", "literal"),
        ("deny", "topic:*", "literal"),
        ("allow", "group:billing", "prefixed"),
        ("allow", "topic:orders", "prefixed"),
    ]
    assert main(["acls", "remove", "--principal", "User:ann", "--resource", "topic:orders"]) == 0
    assert "Removed 1 ACL of User:ann" in capsys.readouterr().out
    assert main(["acls", "list", "--principal", "User:ann"]) == 0
    assert "group:billing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ann", "read", "topic:x"], "'ann' is not User:NAME"),
        (["User:ann", "see", "topic:x"], "'see' is not one of"),
        (["User:ann", "read", "orders"], "'orders' is not topic:NAME"),
    ],
)
def test_a_mistake_is_one_sentence(words, sentence, capsys):
    assert main(["acls", "allow", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_without_an_authorizer_there_is_nothing_to_list_or_add(capsys):
    with broker() as server:
        assert main(["acls", "list", "--bootstrap", server.bootstrap]) == 0
        assert "authorizer.class.name" in capsys.readouterr().out
        given = ["User:ann", "read", "topic:x", "--bootstrap", server.bootstrap]
        assert main(["acls", "allow", *given]) == 1
    assert "No Authorizer is configured" in capsys.readouterr().err
