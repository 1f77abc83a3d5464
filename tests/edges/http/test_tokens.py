"""Tokens and their scopes, and how many requests a sender may make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from headwater.client.log import Log
from headwater.edges.allowance import Allowance, Rates
from headwater.edges.config import Limits
from headwater.edges.tokens import STATUS, Need, Token, Tokens, check, needed
from tests.edges.feeds.clients import following
from tests.edges.running import edges, until

SECRET = "correct horse battery"


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    monkeypatch.setenv("NEXT_TOKEN", SECRET + " staple")
    monkeypatch.setenv("SHORT_TOKEN", "short")


@pytest.mark.parametrize(
    ("scope", "what", "may"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("shop.*", "shop.orders", True),
        ("shop.*", "shopXorders", False),
        ("*", "orders", True),
        ("*", "view:totals", True),
        ("*", STATUS, True),
        ("*", "group:billing", False),
        ("g*", "group:billing", False),
        ("*billing", "group:billing", False),
        ("group:*", "group:billing", True),
        ("group:bill*", "group:billing", True),
        ("group:*", "billing", False),
        ("v*", "view:totals", False),
        ("*s", "view:totals", False),
        ("e*", STATUS, False),
        ("edges:status", STATUS, True),
        ("g*", "groceries", True),
        ("*", "__consumer_offsets", False),
        ("__consumer_offsets", "__consumer_offsets", True),
        ("*", "headwater.keys", False),
        ("__*", "__headwater_keys", False),
        ("__headwater_keys", "__headwater_keys", False),
        ("headwater.*", "headwater.keys", False),
        ("headwater.*", "headwater.keys-of-houses", True),
        ("view:*", "view:totals", True),
        ("view:*", "orders", False),
        ("*.eu", "shop\n.eu", True),
    ],
)
def test_a_scope_covers(scope: str, what: str, may: bool):
    tokens = Tokens({"shop": {"secret": "${SHOP_TOKEN}", "read": [scope], "write": ["w"]}})
    token = tokens.find(SECRET)
    assert token is not None and token.name == "shop"
    assert token.may(Need("read", what)) is may
    assert not token.may(Need("write", what))


def test_who_is_refused_the_keys_of_personal_data_is_not_told_to_ask_for_them():
    def hint(what: str) -> str | None:
        return Token("shop").refused(Need("read", what)).hint

    assert hint("orders") == "add it to read = […] of [edges.tokens.shop]"
    assert hint("__headwater_keys") == hint("headwater.keys") == "no token does"


def test_two_secrets_are_good_while_one_is_replaced_and_no_other():
    tokens = Tokens({"shop": {"secret": ["${SHOP_TOKEN}", "${NEXT_TOKEN}"], "read": ["*"]}})
    assert tokens.find(SECRET) is tokens.find(SECRET + " staple")
    assert tokens.find(SECRET[:-1]) is None
    assert tokens.find("") is None
    assert not Tokens({})


@pytest.mark.parametrize(
    ("method", "path", "need"),
    [
        ("POST", "/topics/orders", Need("write", "orders")),
        ("GET", "/topics/orders", Need("read", "orders")),
        ("GET", "/topics", Need("known", "")),
        ("GET", "/topics/", Need("read", "")),
        ("DELETE", "/topics/orders", Need("write", "orders")),
        ("WEBSOCKET", "/topics/orders", Need("read", "orders")),
        ("GET", "/views/totals/rows/17", Need("read", "view:totals")),
        ("GET", "/metrics", Need("read", STATUS)),
        ("GET", "/anything/else", Need("read", STATUS)),
        ("GET", "//topics/orders", Need("read", STATUS)),
        ("POST", "/hooks/github", None),
        ("GET", "/healthz", None),
        ("GET", "/openapi.json", None),
        ("GET", "/healthz/", Need("read", STATUS)),
        ("GET", "", Need("read", STATUS)),
    ],
)
def test_a_path_needs(method: str, path: str, need: Need | None):
    assert needed(method, path) == need


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"secret": "${SHOP_TOKEN}", "read": ["orders", "view:*", "edges:status"]}, []),
        ({"secret": SECRET, "read": ["*"]}, ["secrets come from the environment"]),
        ({"secret": "${NOWHERE}", "read": ["*"]}, ["export NOWHERE"]),
        ({"secret": "${SHORT_TOKEN}", "read": ["*"]}, ["less than 16"]),
        ({"secret": "${SHOP_TOKEN}"}, ["neither read nor write"]),
        ({"secret": "${SHOP_TOKEN}", "read": "*"}, ["no list"]),
        ({"secret": "${SHOP_TOKEN}", "write": ["a b"], "raed": []}, ["did you mean", "'a b'"]),
    ],
)
def test_a_section_is_checked(section: dict[str, object], said: list[str]):
    complaints = check("shop", section)
    assert len(complaints) == len(said)
    assert all(word in each for word, each in zip(said, complaints, strict=True))


def test_a_sender_may_come_with_several_at_once_and_then_steadily():
    rates = Rates(10)
    assert [rates.wait_s("a", 0.0) for _ in range(20)] == [0.0] * 20
    assert rates.wait_s("a", 0.0) == pytest.approx(0.1)
    assert rates.wait_s("b", 0.0) == 0.0
    assert rates.wait_s("a", 0.05) == pytest.approx(0.05)
    assert rates.wait_s("a", 0.1) == 0.0


def test_without_a_limit_nobody_is_remembered():
    rates = Rates(0)
    assert not any(rates.wait_s(str(number), 0.0) for number in range(1000))
    assert len(rates) == 0


@given(
    st.floats(0.1, 100),
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), max_size=100),
)
def test_nobody_gets_more_than_the_rate_and_the_burst(rate: float, steps: list[tuple[str, float]]):
    rates, now, granted = Rates(rate, senders_most=3), 0.0, {"a": 0, "b": 0, "c": 0}
    for sender, pause in steps:
        now += pause
        wait = rates.wait_s(sender, now)
        assert wait >= 0
        granted[sender] += wait == 0
    assert all(count <= max(1, rate * 2) + rate * now + 1e-6 for count in granted.values())
    assert len(rates) <= 3


def test_bytes_that_were_used_are_waited_for_and_what_is_at_once_is_bounded():
    allowance = Allowance(Limits(requests_per_second=0, bytes_per_second=100, requests_at_once=2))
    assert allowance.begin("a", 0.0) is None
    allowance.used("a", 700, 0.0)  # two seconds' worth were there
    over = allowance.begin("a", 0.0)
    assert over is not None and "bytes" in over.sentence and over.wait_s == 5.0
    assert allowance.begin("b", 0.0) is None
    assert allowance.begin("a", 5.0) is None
    over = allowance.begin("a", 50.0)
    assert over is not None and "at once" in over.sentence
    allowance.end("a")
    assert allowance.begin("a", 50.0) is None
    for sender in ("a", "a", "b"):
        allowance.end(sender)
    assert not allowance._at_once


def test_a_feed_ends_when_the_file_of_its_token_has_another(
    log: Log, topic: Callable[..., str], tmp_path: Path
):
    """Who took the old one would read on for as long as he stays connected."""
    file, name = tmp_path / "token", topic()
    file.write_text(SECRET)
    tokens = {
        "reader": {"secret": f"file:{file}", "read": ["*"]},
        "writer": {"secret": "${NEXT_TOKEN}", "write": ["*"]},
    }
    old = {"Authorization": f"Bearer {SECRET}"}
    with edges(log.bootstrap, {"tokens": tokens}) as running:
        at = f"{running.url.replace('http', 'ws')}/topics/{name}"
        feed = f"{running.url}/topics/{name}"
        with following(feed, old) as reader, connect(at, additional_headers=old) as socket:
            writer = {"Authorization": f"Bearer {SECRET} staple"}
            assert httpx.post(feed, json=1, headers=writer).status_code == 200
            until(lambda: reader.values() == [1], "the record")
            file.write_text(SECRET + " and another")
            with pytest.raises(ConnectionClosed, match="another now"):
                list(socket)
            until(lambda: reader.is_over, "the end of the feed")
            assert "another now" in reader.named("dropped")[0]["reason"]
