"""[edges.alerts.NAME]: what may stand there, and every mistake told."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.edges.alerts.config import Command, Mail, ToTopic, check, read

GOOD: dict[str, Any] = {"on": "group:billing", "when": "lag > 100", "to": "topic:told"}
MAIL = {
    **GOOD,
    "to": "mailto:a@b.example, c@d.example",
    "smtp": "smtp://mail:2525",
    "from": "x@y.z",
}
HTTP = {**GOOD, "to": "https://shop.example/", "secret": "${HOOK_SECRET}"}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")


def test_who_is_told_may_be_of_four_kinds():
    for section in (GOOD, MAIL, HTTP, {**GOOD, "to": "command:page 'the ops' now"}):
        assert check("late", section) == []
    assert read("late", GOOD).to == ToTopic("told")
    mail = read("late", {**MAIL, "user": "u", "password": "${HOOK_SECRET}"}).to
    assert isinstance(mail, Mail)
    assert (mail.receivers, mail.password) == (("a@b.example", "c@d.example"), "s3cret")
    command = read("late", {**GOOD, "to": "command:page 'the ops' now"}).to
    assert command == Command(("page", "the ops", "now"))


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({**GOOD, "on": "billing"}, 'is no "topic:NAME"'),
        ({**GOOD, "on": "topic:orders"}, "is about view:NAME or group:NAME, not about a topic"),
        ({**GOOD, "when": "lag"}, "is no rule"),
        ({**GOOD, "where": ["a=1"]}, "it reads no records"),
        ({**GOOD, "to": "pager:me"}, "is no https://"),
        ({**GOOD, "to": "command:'x"}, "cannot be read"),
        ({**GOOD, "to": "command:"}, "names no program"),
        ({**GOOD, "to": "topic:a b"}, "is no name of a topic"),
        ({**GOOD, "secret": "${HOOK_SECRET}"}, "is for to = https://"),
        ({**GOOD, "every_s": 0}, "is no number above 0"),
        ({**GOOD, "wen": "x"}, "did you mean 'when'?"),
        ({**GOOD, "to": 5}, "is no text in quotes"),
        ({**MAIL, "to": "mailto:ops"}, "is no address for mail"),
        ({**MAIL, "from": "a@b.c\nBcc: x@y.z"}, "characters that cannot be shown"),
        ({**MAIL, "user": "u", "password": "${HOOK_SECRET}"}, "would send the password in clear"),
        ({**MAIL, "smtp": "mail:25"}, 'is no "smtp://HOST:PORT"'),
        ({**MAIL, "user": "u"}, "belong together"),
        ({**MAIL, "smtp": "smtps://mail", "user": "u", "password": "p"}, "password is no"),
        ({**HTTP, "to": "https://10.0.0.1/"}, "private address"),
        (
            {"on": "topic:o", "when": "matches", "to": "topic:t", "grep": "/(/"},
            "regular expression",
        ),
    ],
)
def test_a_mistake_is_told_with_what_mends_it(section: dict[str, Any], complaint: str):
    said = check("late", section)
    assert len(said) == 1
    assert complaint in said[0]


def test_mail_needs_a_server_and_a_sender_and_http_a_secret():
    assert len(check("late", {**GOOD, "to": "mailto:a@b.c"})) == 2
    assert "lacks `secret" in check("late", {**GOOD, "to": "https://shop.example/"})[0]
