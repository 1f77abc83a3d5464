"""Webhook subscriptions by API: a whole life over HTTP, signed deliveries, and who may not."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from headwater.browse.audit import EDGE_CHANGES
from headwater.client import groups, publisher, ranges
from headwater.client.log import Log
from headwater.edges.config import Edges, read
from headwater.edges.hooks.presets import STANDARD
from headwater.edges.hooks.signatures import verify
from headwater.edges.rights import Rights
from headwater.edges.subscriptions import entry as entries
from headwater.edges.subscriptions import history, upkeep
from headwater.edges.subscriptions.directory import Directory
from headwater.edges.subscriptions.routes import PINGS_MAX
from headwater.edges.subscriptions.settings import Settings, check
from headwater.edges.tokens import Need
from headwater.edges.webhooks import letters
from headwater.fair_queue import FairQueue
from tests.edges.running import Running, edges, until
from tests.edges.webhooks.looking import end_of, has_member
from tests.edges.webhooks.receiver import Receiver, Request, receiver

Topic = Callable[..., str]
KEY = "a key of at least thirty-two characters"
OTHER = "another key of at least thirty-two ones"
SECRETS = {name: f"{name} correct horse battery" for name in ("ann", "bob", "cat", "eve")}
TOKENS = {
    "ann": {"admin": ["webhook:*"], "read": ["*"]},
    "bob": {"read": ["*", "webhook:*"]},
    "cat": {"admin": ["webhook:*"], "read": ["*"]},
    "eve": {"admin": ["webhook:*", "*"], "read": ["nothing"]},
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKS_KEY", KEY)
    monkeypatch.setenv("OTHER_KEY", OTHER)
    for name, secret in SECRETS.items():
        monkeypatch.setenv(f"TOKEN_{name.upper()}", secret)


@contextmanager
def served(log: Log, **more: Any) -> Iterator[tuple[Running, httpx.Client]]:
    section = {"key": "${HOOKS_KEY}", "allow_private": True, **more.pop("section", {})}
    with (
        edges(log.bootstrap, {"subscriptions": section, **more}) as running,
        httpx.Client(base_url=running.url, timeout=60) as client,
    ):
        try:
            yield running, client
        finally:
            for each in client.get("/webhooks", headers=by("ann")).json().get("webhooks", ()):
                name = each["name"]
                assert (
                    client.delete(f"/webhooks/{name}?discard=true", headers=by("ann")).status_code
                    == 204
                )


def by(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[name]}"}


def tokens() -> dict[str, Any]:
    return {n: {**each, "secret": f"${{TOKEN_{n.upper()}}}"} for n, each in TOKENS.items()}


def put(log: Log, topic: str, *values: str, key: str | None = None) -> None:
    for value in values:
        draft = publisher.Draft(None if key is None else key.encode(), value.encode())
        publisher.publish(log, topic, draft)


def made(client: httpx.Client, name: str, topic: str, to: str, **more: Any) -> dict[str, Any]:
    answer = client.post("/webhooks", json={"name": name, "topic": topic, "to": to, **more})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def good(request: Request, secret: str) -> bool:
    try:
        now = int(request.headers["webhook-timestamp"])
        verify(STANDARD, [secret], request.headers, request.body, now)
    except Exception:
        return False
    return True


def got(inbox: Receiver, count: int) -> list[Request]:
    until(lambda: len(inbox.taken) >= count, f"{count} deliveries")
    return inbox.taken


def test_a_subscription_delivers_at_once_is_paused_resumed_changed_and_ends(log: Log, topic: Topic):
    name = topic()
    put(log, name, "before")
    with (
        receiver(secret=None) as inbox,
        receiver(secret=None) as second,
        served(log) as (running, client),
    ):
        said = made(client, "life", name, inbox.url)
        secret = said["secret"]
        assert secret.startswith("whsec_")
        put(log, name, "one")
        assert [each.body for each in got(inbox, 1)] == [b"one"], "from the end at its making on"
        assert good(inbox.taken[0], secret) and not good(inbox.taken[0], "whsec_AAAA")
        shown = client.get("/webhooks/life").json()
        assert "secret" not in shown and secret not in client.get("/webhooks").text
        assert shown["topic"] == name and not shown["paused"]

        assert client.patch("/webhooks/life", json={"paused": True}).json()["paused"]
        until(lambda: running.context.status.services.keys().isdisjoint(_lives(running)), "a pause")
        put(log, name, "two")
        changed = client.patch("/webhooks/life", json={"paused": False, "to": second.url})
        assert changed.status_code == 200
        assert [each.body for each in got(second, 1)] == [b"two"]
        assert len(inbox.taken) == 1

        assert client.delete("/webhooks/life").status_code == 204
        assert client.get("/webhooks/life").status_code == 404
        left = [each for each in log.topics() if each.startswith("webhooks.life.")]
        until(
            lambda: not [each for each in log.topics() if each.startswith("webhooks.life.")],
            f"{left} gone",
        )
        until(lambda: not [n for n in groups.consumer_names(log) if ".life." in n], "no group")


def _lives(running: Running) -> set[str]:
    return {each for each in running.context.status.services if each.startswith("webhooks.life.")}


def test_a_secret_is_replaced_while_both_sign_and_then_the_old_one_is_gone(log: Log, topic: Topic):
    name = topic()
    with receiver(secret=None) as inbox, served(log) as (_, client):
        old = made(client, "turn", name, inbox.url)["secret"]
        answer = client.post("/webhooks/turn/secret", json={"overlap_s": 3600}).json()
        new = answer["secret"]
        assert new != old and answer["old_secret_until_ms"] is not None
        put(log, name, "one")
        (first,) = got(inbox, 1)
        assert good(first, old) and good(first, new)
        assert len(first.headers["webhook-signature"].split()) == 2
        third = client.post("/webhooks/turn/secret", json={"overlap_s": 0}).json()["secret"]
        put(log, name, "two")
        last = got(inbox, 2)[-1]
        assert good(last, third) and not good(last, new) and not good(last, old)
        assert client.post("/webhooks/turn/secret", json={"overlap_s": -1}).status_code == 422


def test_subscriptions_and_their_secrets_survive_a_restart_and_reach_other_processes(
    log: Log, topic: Topic
):
    name = topic()
    own = {"key": "${HOOKS_KEY}", "allow_private": True}
    with receiver(secret=None) as inbox:
        with (
            edges(log.bootstrap, {"subscriptions": own}) as first,
            edges(log.bootstrap, {"name": "b", "subscriptions": own}) as other,
            httpx.Client(base_url=first.url, timeout=60) as client,
        ):
            secret = made(client, "kept", name, inbox.url)["secret"]
            at = f"{other.url}/webhooks/kept"
            until(lambda: httpx.get(at).status_code == 200, "the other process' word")
            assert client.patch("/webhooks/kept", json={"paused": True}).status_code == 200
        keys = {"key": ["${OTHER_KEY}", "${HOOKS_KEY}"]}
        with served(log, section=keys) as (_, client):
            assert client.patch("/webhooks/kept", json={"paused": False}).status_code == 200
            put(log, name, "one")
            assert good(got(inbox, 1)[0], secret), "made by the older key of two"
            newer = client.post("/webhooks/kept/secret", json={"overlap_s": 0}).json()["secret"]
            put(log, name, "two")
            assert good(got(inbox, 2)[1], newer)
            assert client.patch("/webhooks/kept", json={"paused": True}).status_code == 200
        with served(log) as (_, client):
            assert client.get("/webhooks").json() == {"webhooks": []}
    assert log.ranges(entries.TOPIC)[0][1] > 0
    assert secret not in _all(log, entries.TOPIC) and newer not in _all(log, entries.TOPIC)


def test_nothing_is_sent_unsigned_where_the_key_is_missing(log: Log, topic: Topic):
    name = topic()
    with receiver(secret=None) as inbox:
        with (
            edges(
                log.bootstrap, {"subscriptions": {"key": "${OTHER_KEY}", "allow_private": True}}
            ) as running,
            httpx.Client(base_url=running.url, timeout=60) as client,
        ):
            made(client, "lost", name, inbox.url)
        with served(log) as (_, client):
            said = client.post("/webhooks/lost/ping").json()
            assert not said["delivered"] and "key" in said["reason"] and not inbox.got


def _all(log: Log, name: str) -> str:
    from headwater.client import ranges

    found = ranges.read(log, name, log.ranges(name))
    return "".join((each.value or b"").decode() for some in found for each in some)


def test_deliveries_are_told_tried_out_and_sent_again(log: Log, topic: Topic):
    name = topic()
    is_well = [False]
    answer = lambda request: 200 if is_well[0] or b"ping" in request.body else 500  # noqa: E731
    with receiver(answer, None) as inbox, served(log) as (_, client):
        made(client, "told", name, inbox.url, attempts=2)
        ping = client.post("/webhooks/told/ping").json()
        assert ping["delivered"] and json.loads(inbox.taken[0].body)["type"] == "headwater.ping"
        put(log, name, '{"n": 1}', key="k")

        def failed() -> list[dict[str, Any]]:
            at = "/webhooks/told/deliveries?failed=true"
            found: list[dict[str, Any]] = client.get(at).json()["deliveries"]
            return found

        until(lambda: len(failed()) == 2, "two failed attempts")
        assert failed()[0]["delivery"] == f"{name}-0-0" and "500" in failed()[0]["reason"]
        letters = "webhooks.told.", ".dead-letters"
        (dead,) = [n for n in log.topics() if n.startswith(letters[0]) and n.endswith(letters[1])]
        until(lambda: end_of(log, dead) == 1, "a dead letter")
        assert client.delete("/webhooks/told").status_code == 409
        is_well[0] = True
        again = client.post(f"/webhooks/told/deliveries/{name}-0-0/again")
        assert again.status_code == 202
        until(lambda: any(each.id == f"{name}-0-0" for each in inbox.taken), "once more")
        assert client.post(f"/webhooks/told/deliveries/{name}-0-7/again").status_code == 422
        assert (
            client.post("/webhooks/told/deliveries/__headwater_keys-0-0/again").status_code == 422
        )
        newest = "/webhooks/told/deliveries?limit=1"
        until(lambda: client.get(newest).json()["deliveries"][0]["delivered"], "its line")


def test_who_lacks_a_scope_neither_sees_nor_makes_nor_turns_one(log: Log, topic: Topic):
    name = topic()
    with receiver(secret=None) as inbox, served(log, tokens=tokens()) as (_, client):
        new = {"name": "mine", "topic": name, "to": inbox.url, "paused": True}
        assert client.post("/webhooks", json=new).status_code == 401
        assert client.post("/webhooks", json=new, headers=by("bob")).status_code == 403
        assert client.post("/webhooks", json=new, headers=by("eve")).status_code == 403
        assert client.post("/webhooks", json=new, headers=by("ann")).status_code == 201
        seen = client.get("/webhooks", headers=by("bob")).json()["webhooks"]
        assert [each["name"] for each in seen] == ["mine"] and seen[0]["made_by"] == "ann"
        turned = {"to": "https://evil.example/"}
        for who in ("bob", "eve"):  # eve may administer webhooks, and not read the topic
            assert client.patch("/webhooks/mine", json=turned, headers=by(who)).status_code == 403
            assert client.delete("/webhooks/mine", headers=by(who)).status_code == 403
            for path in ("secret", "ping", f"deliveries/{name}-0-0/again"):
                answer = client.post(f"/webhooks/mine/{path}", headers=by(who))
                assert answer.status_code == 403, path
        own = {**new, "name": "own", "topic": "__headwater_changes"}
        assert client.post("/webhooks", json=own, headers=by("ann")).status_code == 403


def test_who_may_only_look_is_not_shown_a_secret_in_the_address(log: Log, topic: Topic):
    to = "https://receiver.example:8443/services/planted?room=1&token=planted"
    with served(log, tokens=tokens()) as (_, client):
        new = {"name": "mine", "topic": topic(), "to": to, "paused": True}
        made = client.post("/webhooks", json=new, headers=by("ann"))
        assert (made.status_code, made.json()["to"]) == (201, to)
        for who, seen in (("ann", to), ("bob", "https://receiver.example:8443/***")):
            assert client.get("/webhooks/mine", headers=by(who)).json()["to"] == seen
            (one,) = client.get("/webhooks", headers=by(who)).json()["webhooks"]
            assert one["to"] == seen

        def audit() -> bytes:
            return b"".join(_values(log, EDGE_CHANGES))

        until(lambda: b"receiver.example" in audit(), "the audit")
        assert b"planted" not in audit()


def test_a_subscription_ends_with_its_makers_right(log: Log, topic: Topic):
    """Whose right was taken away had records of the topic sent to him for good."""
    name, some = topic(), tokens()
    with receiver(secret=None) as inbox:
        with edges(log.bootstrap, _of(some)) as running:
            new = {"name": "his", "topic": name, "to": inbox.url}
            made = httpx.post(f"{running.url}/webhooks", json=new, headers=by("cat"), timeout=60)
            assert made.status_code == 201
            put(log, name, "while he may")
            until(lambda: inbox.bodies() == [b"while he may"], "the delivery")
        some["cat"]["read"] = ["nothing"]
        with edges(log.bootstrap, _of(some)) as running:
            status = running.context.status.services

            def state() -> Any:
                return next(
                    (each for n, each in status.items() if n.startswith("webhooks.his.")), None
                )

            until(lambda: state() is not None, "what is told of it")
            assert "cat may not" in (state().trouble or "")
            put(log, name, "when he may not")
            # Somebody who may read the topic answers for it from now on, and nothing was lost.
            with httpx.Client(base_url=running.url, timeout=60) as client:
                assert client.patch("/webhooks/his", json={}, headers=by("cat")).status_code == 403
                assert inbox.bodies() == [b"while he may"]
                assert client.patch("/webhooks/his", json={}, headers=by("ann")).status_code == 200
                until(lambda: inbox.bodies()[1:] == [b"when he may not"], "the delivery")
                assert state().doing == "running" and state().trouble is None
                assert client.delete("/webhooks/his", headers=by("ann")).status_code == 204


@pytest.mark.parametrize(
    ("who", "may"),
    [("ann", True), ("gone", False), ("", False), ("oidc:kim", True), ("oidc:lee", True)],
)
def test_rights_are_those_of_the_file(who: str, may: bool):
    issuer = {"groups": {"ops": {"admin": ["webhook:*"]}}, "principals": {"kim": {"read": ["x"]}}}
    some, _ = read({"tokens": tokens()})
    known = dataclasses.replace(some, oidc=issuer)
    assert Rights(known).may(who, Need("admin", "webhook:a")) is may
    assert Rights(Edges()).may(who, Need("admin", "webhook:a"))
    assert Rights(known).may(who, Need("read", "x")) is (who in ("ann", "oidc:kim"))


def _of(some: dict[str, Any]) -> dict[str, Any]:
    return {"subscriptions": {"key": "${HOOKS_KEY}", "allow_private": True}, "tokens": some}


def _values(log: Log, topic: str) -> list[bytes]:
    if topic not in log.topics():
        return []
    return [
        each.value or b"" for some in ranges.read(log, topic, log.ranges(topic)) for each in some
    ]


REFUSED: list[tuple[dict[str, Any], int]] = [
    ({"to": "http://169.254.169.254/latest"}, 422),
    ({"to": "https://[::ffff:127.0.0.1]/"}, 422),
    ({"to": "https://127.0.0.1/"}, 422),
    ({"to": "http://shop.example/"}, 422),
    ({"to": "file:/etc/passwd"}, 422),
    ({"to": "https://x.example/${HOME}\r\nHost: y"}, 422),
    ({"to": "https://x.example/" + "a" * 3000}, 422),
    ({"to": "https://ann:secret@x.example/"}, 422),
    ({"to": 7}, 422),
    ({"name": "a/b"}, 422),
    ({"name": ""}, 422),
    ({"name": "n" * 65}, 422),
    ({"topic": "nowhere"}, 404),
    ({"topic": "__headwater_keys"}, 403),
    ({"topic": "headwater.keys"}, 403),
    ({"where": ["a=1"] * 11}, 422),
    ({"where": ["a" * 501]}, 422),
    ({"parallel": 10_000}, 422),
    ({"timeout_s": 1e9}, 422),
    ({"attempts": 0}, 422),
    ({"start": "never"}, 422),
    ({"secret": "whsec_mine"}, 422),
    ({"headers": {"x": "${HOME}"}}, 422),
    ({"allow_private": True}, 422),
]


def test_what_must_not_be_is_refused(log: Log, topic: Topic):
    there = topic()
    with served(log, section={"allow_private": False}) as (_, client):
        for given, status in REFUSED:
            new = {"name": "n", "topic": there, "to": "https://x.example/", **given}
            answer = client.post("/webhooks", json=new)
            assert answer.status_code == status, (given, answer.text)
        for body in (b"{", b"[]", b"\xff", b"[" * 50_000, b'"' + b"x" * 100_000 + b'"'):
            assert client.post("/webhooks", content=body).status_code in (413, 422), body[:20]
        assert client.get("/webhooks").json() == {"webhooks": []}


def test_their_number_is_bounded_in_all_and_for_each_token(log: Log, topic: Topic):
    name, limits = topic(), {"most": 3, "most_per_token": 2}
    both = {**tokens(), "eve": {**tokens()["ann"], "secret": "${TOKEN_EVE}"}}
    with served(log, section=limits, tokens=both) as (_, client):

        def status(who: str, number: int) -> int:
            new = {"name": f"n{number}", "topic": name, "to": "https://x.example/", "paused": True}
            return client.post("/webhooks", json=new, headers=by(who)).status_code

        assert [status("ann", n) for n in (1, 2, 3)] == [201, 201, 409]
        assert status("eve", 2) == 409, "the name is taken"
        assert [status("eve", n) for n in (4, 5)] == [201, 409]


def test_a_forged_record_of_the_topic_is_left_out(log: Log, topic: Topic):
    settings = Settings({"key": "${HOOKS_KEY}", "allow_private": False})
    salt = entries.new_salt(settings)
    with (
        receiver(secret=None) as inbox,
        served(log, section={"allow_private": False}) as (running, client),
    ):
        client.get("/webhooks")
        forged = entries.Entry("evil", "00000000", topic(), inbox.url, (salt,), start="beginning")
        own = entries.Entry("keys", "00000001", "__headwater_keys", "https://x.example/", (salt,))
        for each in (forged, own):
            value = entries.msgspec.json.encode(each)
            put_raw(log, entries.TOPIC, each.name, value)
        put_raw(log, entries.TOPIC, "noise", b"\xff{")
        put_raw(log, entries.TOPIC, "large", b'"' + b"x" * 100_000 + b'"')
        state = running.context.status.of("subscriptions.directory")
        until(lambda: state.as_json().get("unreadable", 0) >= 4, "four bad records")
        assert client.get("/webhooks").json() == {"webhooks": []} and not inbox.got
        for name in ("evil", "keys", "noise", "large"):
            put_raw(log, entries.TOPIC, name, None)


def put_raw(log: Log, topic: str, key: str, value: bytes | None) -> None:
    publisher.publish(log, topic, publisher.Draft(key.encode(), value))


def test_the_history_is_bounded(log: Log, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history, "SUBSCRIPTIONS_MAX", 3)
    with edges(log.bootstrap) as running:
        kept = history.History(log, running.context.appender)
    made_up = [
        history.Attempt(f"s{n % 5}", f"d{n}", 1, n, 0, True) for n in range(history.KEPT * 10)
    ]
    records = [_record(each) for each in made_up]
    kept._take(records)
    assert len(kept._kept) == 3
    assert all(len(each) <= history.KEPT for each in kept._kept.values())
    kept._take([_record_of(b"\xff"), _record_of(b"{}"), _record_of(b"[" * 100_000)])
    kept.note(made_up[1])
    for _ in range(history.KEPT + 5):
        kept.note(made_up[0])
    assert kept.facts() == {"waiting": history.KEPT + 1, "not_written": 5}
    assert list(kept._waiting["s1"]) == [made_up[1]], "nobody's is dropped for another's"
    taken, kept._waiting = kept._waiting, {}
    kept.note(made_up[5])
    kept._put_back(taken)
    assert len(kept._waiting["s0"]) == history.KEPT and kept._waiting["s0"][-1] == made_up[5]
    assert kept.facts()["not_written"] == 6


def _record(attempt: history.Attempt) -> Any:
    return _record_of(entries.msgspec.json.encode(attempt))


def _record_of(value: bytes) -> Any:
    from headwater.client.records import Record

    return Record(history.TOPIC, 0, 0, 0, None, value)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({}, "key is no"),
        ({"key": "plain"}, "key is no"),
        ({"key": "${NOWHERE}"}, "export NOWHERE"),
        ({"key": "${TOKEN_ANN}"}, "less than 32"),
        ({"key": "${HOOKS_KEY}", "most": 0}, "most = 0"),
        ({"key": "${HOOKS_KEY}", "most": True}, "most = True"),
        ({"key": "${HOOKS_KEY}", "mots": 1}, "did you mean"),
        ({"key": "${HOOKS_KEY}", "allow_private": 1}, "neither true nor false"),
        (7, "lines of its own"),
    ],
)
def test_a_section_with_a_mistake_is_told(section: Any, said: str):
    assert any(said in each for each in check("", section)), check("", section)
    assert not check("", {"key": "${HOOKS_KEY}"})


def test_what_never_ran_leaves_nothing_to_clear_away(log: Log, topic: Topic):
    settings = Settings({"key": "${HOOKS_KEY}"})
    salt = entries.new_salt(settings)
    idle = entries.Entry("idle", "0000000a", topic(), "https://x.example/", (salt,))
    upkeep._remove(log, idle, upkeep.group_of(idle))


def test_who_deletes_one_that_is_just_being_prepared_leaves_nothing(
    log: Log, topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    began, go_on, over = threading.Event(), threading.Event(), threading.Event()
    ensure = letters.ensure

    def slow(*words: Any, **settings: str) -> None:
        began.set()
        go_on.wait(60)
        ensure(*words, **settings)
        over.set()

    monkeypatch.setattr(letters, "ensure", slow)

    def left() -> list[str]:
        return [n for n in (*log.topics(), *groups.consumer_names(log)) if ".hasty." in n]

    with receiver(secret=None) as inbox, served(log) as (_, client):
        made(client, "hasty", topic(), inbox.url)
        assert began.wait(60)
        assert client.delete("/webhooks/hasty").status_code == 204
        until(lambda: not left(), "what was there is cleared away")
        go_on.set()
        assert over.wait(60)
        until(lambda: not left(), "and what is made until its end, too")


def test_deletions_that_pile_up_are_sent_away(log: Log, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upkeep, "AT_ONCE_MAX", 0)
    with served(log) as (_, client):
        new = {"name": "n", "topic": "orders", "to": "https://x.example/"}
        assert client.post("/webhooks", json=new).status_code == 429


def test_who_tries_out_and_deletes_much_holds_up_nobody_else(
    log: Log, topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    name, go_on, known = topic(), threading.Event(), upkeep._remove

    def answer(request: Request) -> int:
        assert b"slow" not in request.body or go_on.wait(60)
        return 200

    def remove(log: Log, entry: entries.Entry, group: str) -> None:
        assert not entry.name.startswith("slow") or go_on.wait(60)
        known(log, entry, group)

    monkeypatch.setattr(upkeep, "_remove", remove)
    monkeypatch.setattr(upkeep, "AT_ONCE_MAX", 1)
    with (
        receiver(answer, None) as inbox,
        served(log, tokens=tokens()) as (_, client),
        ThreadPoolExecutor(PINGS_MAX) as threads,
    ):
        try:
            for who, each in (("ann", "slow"), ("ann", "slow-too"), ("cat", "quick")):
                client.headers.update(by(who))
                made(client, each, name, inbox.url)
            for _ in range(PINGS_MAX):
                threads.submit(client.post, "/webhooks/slow/ping", headers=by("ann"))
            until(lambda: len(inbox.got) == PINGS_MAX, "as many as may be at once")
            much = client.post("/webhooks/slow/ping", headers=by("ann"))
            assert (much.status_code, "one sender" in much.text) == (429, True), much.text
            other = client.post("/webhooks/quick/ping", headers=by("cat"))
            assert other.status_code == 200 and other.json()["delivered"], other.text

            gone = client.delete("/webhooks/slow-too", headers=by("ann"))
            assert gone.status_code == 204
            much = client.delete("/webhooks/slow", headers=by("ann"))
            assert much.status_code == 429, much.text
            assert client.delete("/webhooks/quick", headers=by("cat")).status_code == 204
        finally:
            go_on.set()
        until(lambda: client.delete("/webhooks/slow", headers=by("ann")).status_code == 204, "it")


def test_who_changes_much_holds_up_nobody_elses_changes(
    log: Log, topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    name, go_on, order = topic(), threading.Event(), list[str]()
    many = 20
    with (
        receiver(lambda request: 200, None) as inbox,
        served(log, tokens=tokens()) as (_, client),
        ThreadPoolExecutor(many + 1) as threads,
    ):
        for who, each in (("ann", "much"), ("cat", "little")):
            client.headers.update(by(who))
            made(client, each, name, inbox.url)
        known = Directory._once
        turns = list[FairQueue]()

        async def once(self: Directory, name: str, decide: Any) -> Any:
            turns.append(self._turns)
            order.append(name)
            while not go_on.is_set():
                await asyncio.sleep(0.01)  # until all are there
            return await known(self, name, decide)

        monkeypatch.setattr(Directory, "_once", once)
        try:
            change = {"json": {"parallel": 2}}
            for _ in range(many):
                threads.submit(client.patch, "/webhooks/much", headers=by("ann"), **change)
            until(lambda: turns and len(turns[0]._waiting) == many - 1, "all of hers")
            mine = threads.submit(client.patch, "/webhooks/little", headers=by("cat"), **change)
            until(lambda: len(turns[0]._waiting) == many, "and his")
        finally:
            go_on.set()
        assert mine.result().status_code == 200
    assert order.index("little") <= 2, order


def test_without_the_section_there_is_no_interface(log: Log):
    with edges(log.bootstrap) as running:
        assert httpx.get(f"{running.url}/webhooks").status_code == 404
        assert "/webhooks" not in httpx.get(f"{running.url}/openapi.json").json()["paths"]


def test_members_are_there_for_each(log: Log, topic: Topic):
    name = topic()
    with receiver(secret=None) as inbox, served(log) as (_, client):
        made(client, "member", name, inbox.url)
        group = until(
            lambda: next((n for n in groups.consumer_names(log) if ".member." in n), None), "it"
        )
        until(lambda: has_member(log, group), "a member")
        assert end_of(log, name) == 0
