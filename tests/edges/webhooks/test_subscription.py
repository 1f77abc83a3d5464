"""[edges.webhooks.NAME]: what may stand there, and every mistake told at once."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.edges.webhooks.subscription import check, read

GOOD = {"from": "topic:orders", "to": "https://shop.example/hooks", "secret": "${HOOK_SECRET}"}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    monkeypatch.setenv("API_KEY", "k3y")


def test_a_subscription_has_a_topic_a_receiver_and_a_secret():
    assert check("billing", GOOD) == []
    found = read(
        "billing", {**GOOD, "attempts": 3, "where": ["a=1"], "headers": {"X-Key": "${API_KEY}"}}
    )
    assert (found.topic, found.start, found.parallel) == ("orders", "end", 16)
    assert (found.retrying.attempts, found.filter.where) == (3, ("a=1",))
    assert found.posting.headers == {"x-key": "k3y"}
    assert check("billing", {}) == [f"lacks `{name} = …`" for name in ("from", "to", "secret")]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"from": "orders"}, 'is no "topic:NAME"'),
        ({"to": "http://shop.example/"}, "use https://"),
        ({"to": "https://127.0.0.1/"}, "loopback address"),
        ({"to": 7}, "is no text in quotes"),
        ({"to": "https://${NOWHERE}/"}, "the environment has no NOWHERE"),
        ({"secret": "s3cret"}, "secrets come from the environment"),
        ({"start": "now"}, 'is neither "end" nor "beginning"'),
        ({"where": "a=1"}, "is no list of conditions"),
        ({"where": ["a"]}, "'a' is no condition"),
        ({"atempts": 3}, "did you mean 'attempts'?"),
        ({"attempts": 0}, "is no number above 0"),
        ({"attempts": 2.5}, "is no number above 0"),
        ({"timeout_s": True}, "is no number above 0"),
        ({"allow_private": "yes"}, "is neither true nor false"),
        ({"headers": {"webhook-id": "x"}}, "is no name for a header of your own"),
        ({"headers": {"x-key": "a\nb"}}, "is no plain text"),
        ({"headers": {"x-key": "${NOWHERE}"}}, "the environment has no NOWHERE"),
    ],
)
def test_a_mistake_is_told_with_what_mends_it(change: dict[str, Any], complaint: str):
    said = check("billing", {**GOOD, **change})
    assert len(said) == 1
    assert complaint in said[0]


def test_a_name_becomes_part_of_topics_and_so_is_checked():
    assert "has a name with other than" in check("a b", GOOD)[0]


@pytest.mark.parametrize(
    "to", ["ftp://h/${API_KEY}", "https://h/#${API_KEY}", "https://h:${API_KEY}/", "${API_KEY}"]
)
def test_no_complaint_about_an_address_holds_the_secret_that_it_names(to: str):
    (said,) = check("billing", {**GOOD, "to": to})
    assert to in said and "k3y" not in said
