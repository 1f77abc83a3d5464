"""Webhooks out, from a real log to a real receiver: order, retries, breaker, dead letters and replay."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from headwater.browse.dead_letters.replay import replay
from headwater.browse.dead_letters.survey import open_letters
from headwater.client import groups
from headwater.client.log import Log
from tests.edges.running import edges, until
from tests.edges.webhooks.looking import end_of, has_member
from tests.edges.webhooks.receiver import SECRET, Request, receiver

Topics = Callable[..., str]
QUICK = {"first_wait_s": 0.01, "longest_wait_s": 0.05, "breaker_wait_s": 0.01}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


def section(topic: str, url: str, **more: Any) -> dict[str, Any]:
    own = {"from": f"topic:{topic}", "to": url, "secret": "${HOOK_SECRET}", "allow_private": True}
    return {"start": "beginning", **own, **QUICK, **more}


def put(log: Log, topic: str, records: list[tuple[str | None, str]], **words: Any) -> None:
    producer = log.new_producer()
    for key, value in records:
        producer.produce(topic, value.encode(), None if key is None else key.encode(), **words)
    assert producer.flush(60) == 0


def test_records_are_delivered_signed_with_all_that_they_carry(log: Log, topic: Topics):
    name = topic()
    headers = [("traceparent", b"00-1-2-01"), ("ce_type", "größer".encode()), ("private", b"x")]
    put(log, name, [("k ü", '{"n":1}')], headers=headers)
    log.producer.produce(name, None, b"gone")
    log.producer.flush()
    with receiver() as got, edges(log.bootstrap, {"webhooks": {name: section(name, got.url)}}):
        until(lambda: len(got.taken) == 2, "the deliveries")
    first = next(each for each in got.taken if each.key != "gone")
    gone = next(each for each in got.taken if each.key == "gone")
    assert (first.path, first.body, first.id) == ("/hook", b'{"n":1}', f"{name}-0-0")
    assert first.headers["content-type"] == "application/json"
    assert first.headers["headwater-key"] == "k%20%C3%BC"
    assert first.headers["traceparent"] == "00-1-2-01"
    assert first.headers["ce-type"] == "gr%C3%B6%C3%9Fer"
    assert "private" not in first.headers
    assert (gone.body, gone.headers["headwater-tombstone"]) == (b"", "true")


def test_a_key_that_fails_waits_alone_and_goes_on_in_order(log: Log, topic: Topics):
    name = topic(partitions=2)
    failures = iter(range(3))

    def answer(request: Request) -> int:
        return 500 if request.key == "bad" and next(failures, None) is not None else 200

    put(log, name, [(key, f"{key}{n}") for n in range(20) for key in ("bad", "x", "y", "z")])
    with receiver(answer) as got:
        with edges(log.bootstrap, {"webhooks": {name: section(name, got.url)}}) as running:
            until(lambda: len(got.taken) >= 80, "the deliveries")
            status = httpx.get(f"{running.url}/status", timeout=30).json()["services"][
                f"webhooks.{name}"
            ]
        for key in ("bad", "x", "y", "z"):
            own = [body.decode() for body in got.bodies() if body.decode().startswith(key)]
            assert own == [f"{key}{n}" for n in range(20)]
    assert (status["failed_attempts"], status["dead_letters"]) == (3, 0)
    assert status["last_failed_attempt"] == "answered 500: said"
    # Everything is committed, and nothing stands ahead of it.
    assert groups.named(log, f"headwater.webhook.{name}").lag == 0


def test_the_breaker_opens_and_a_receiver_that_comes_back_gets_everything(log: Log, topic: Topics):
    name, back = topic(), threading.Event()
    put(log, name, [(f"k{n}", str(n)) for n in range(50)])
    with receiver(lambda request: 200 if back.is_set() else 503) as got:
        more = {"breaker_failures": 3, "parallel": 2, "breaker_wait_s": 0.02, "attempts": 1000}
        document = {"webhooks": {name: section(name, got.url, **more)}}
        with edges(log.bootstrap, document) as running:

            def state() -> str:
                found = httpx.get(f"{running.url}/status", timeout=30).json()["services"]
                return str(found[f"webhooks.{name}"].get("breaker"))

            until(lambda: state() in ("open", "half-open"), "the open breaker")
            until(lambda: len(got.got) >= 6, "attempts of the open breaker")
            back.set()
            until(lambda: len(got.taken) == 50, "the deliveries")
            until(lambda: state() == "closed", "the closed breaker")
    # One at a time while it was open: far fewer attempts than records that waited.
    assert sorted(int(body) for body in got.bodies()) == list(range(50))


def test_what_is_given_up_lies_among_the_dead_letters_and_can_be_sent_again(
    log: Log, topic: Topics
):
    name, mended = topic(), threading.Event()

    def answer(request: Request) -> int:
        return 200 if mended.is_set() or request.body != b"1" else 400

    put(log, name, [("a", "0"), ("a", "1"), ("a", "2")], headers=[("own", b"kept")])
    dead = f"webhooks.{name}.dead-letters"
    with receiver(answer) as got:
        document = {"webhooks": {name: section(name, got.url, attempts=3, breaker_failures=50)}}
        with edges(log.bootstrap, document):
            until(lambda: got.bodies() == [b"0", b"2"], "the others")
            with open_letters(log.settings, dead) as letters:
                (letter,) = letters.waiting()
            assert (letter.value, letter.key, letter.deliveries) == (b"1", b"a", 3)
            assert (letter.reason, letter.said["record"]) == ("answered 400: said", f"{name}-0-1")
            assert ("own", b"kept") in letter.headers
            mended.set()
            assert replay(log.settings, dead) == 1
            until(lambda: got.bodies() == [b"0", b"2", b"1"], "the letter's delivery")
    assert [each.id for each in got.taken] == [f"{name}-0-{n}" for n in (0, 2, 1)]
    assert log.ranges(name)[0] == (0, 3)  # no other reader of the topic sees it again


def test_gone_is_final_and_redirects_are_not_followed(log: Log, topic: Topics):
    gone, moved = topic(), topic()
    put(log, gone, [("a", "0")])
    put(log, moved, [("a", "0")])
    with (
        receiver(lambda request: 410) as first,
        receiver() as inside,
        receiver(lambda request: (302, {"location": inside.url})) as second,
    ):
        own = {gone: section(gone, first.url), moved: section(moved, second.url, attempts=2)}
        with edges(log.bootstrap, {"webhooks": own}):
            for name, reason in ((gone, "answered 410"), (moved, "redirects are not")):
                dead = f"webhooks.{name}.dead-letters"
                until(lambda dead=dead: end_of(log, dead) == 1, "the dead letter")
                with open_letters(log.settings, dead) as letters:
                    assert reason in next(letters.waiting()).reason
        assert (len(first.got), len(second.got), inside.got) == (1, 2, [])


def test_only_records_that_are_wanted_are_sent_and_a_new_subscription_begins_at_the_end(
    log: Log, topic: Topics
):
    name = topic(partitions=2)
    put(log, name, [("old", '{"status":"paid"}')])
    with receiver() as got:
        more = {"start": "end", "where": ["status=paid"]}
        document = {"webhooks": {name: section(name, got.url, **more)}}
        group = f"headwater.webhook.{name}"
        with edges(log.bootstrap, document):
            until(lambda: has_member(log, group), "the member")
            put(log, name, [("a", '{"status":"new"}'), ("a", '{"status":"paid"}')])
            until(lambda: got.taken, "the delivery")
        put(log, name, [("b", '{"status":"paid"}')])
        with edges(log.bootstrap, document):
            until(lambda: len(got.taken) == 2, "what came meanwhile")
    assert [each.key for each in got.taken] == ["a", "b"]


def test_a_receiver_that_asks_for_rest_gets_it(log: Log, topic: Topics):
    name, asked = topic(), threading.Event()

    def answer(request: Request) -> Any:
        if not asked.is_set():
            asked.set()
            return (429, {"retry-after": "1"})
        return 200

    put(log, name, [(f"k{n}", str(n)) for n in range(5)])
    with receiver(answer) as got:
        document = {"webhooks": {name: section(name, got.url, parallel=1)}}
        with edges(log.bootstrap, document):
            until(lambda: len(got.taken) == 5, "the deliveries")
    first, *rest = [int(each.headers["webhook-timestamp"]) for each in got.got]
    assert len(rest) == 5 and all(each >= first + 1 for each in rest)


def test_a_private_address_is_not_called_unless_that_is_allowed(log: Log, topic: Topics):
    name = topic()
    put(log, name, [("a", "0")])
    with receiver() as got:
        port = got.url.split(":")[2].split("/")[0]
        own = section(name, f"https://localhost:{port}/", attempts=1, allow_private=False)
        with edges(log.bootstrap, {"webhooks": {name: own}}):
            dead = f"webhooks.{name}.dead-letters"
            until(lambda: end_of(log, dead) == 1, "the dead letter")
            with open_letters(log.settings, dead) as letters:
                assert "loopback address" in next(letters.waiting()).reason
    assert got.got == []
