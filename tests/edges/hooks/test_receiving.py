"""POST /hooks/{hook} with a real log: stored before it is acknowledged, once, and nothing unsigned."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.client import ranges
from headwater.client.log import Log
from headwater.client.records import Record
from headwater.edges.hooks.presets import PRESETS
from headwater.edges.hooks.signatures import NotGenuine, sign, verify
from tests.edges.running import Running, edges, process

send = partial(httpx.post, timeout=60)
SECRET = "It's a Secret to Everybody"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


@pytest.fixture
def hooks(log: Log, topic: Callable[..., str]) -> Iterator[tuple[Running, str]]:
    name = topic()
    own = {"topic": name, "secret": "${HOOK_SECRET}"}
    sections = {style: {**own, "style": style} for style in PRESETS}
    sections["keyed"] = {**own, "style": "github", "key": "repository.id"}
    with edges(log.bootstrap, {"hooks": sections}) as running:
        yield running, name


def github(body: bytes, delivery: str = "d-1", **more: str) -> dict[str, str]:
    signature = sign(PRESETS["github"], SECRET, "", 0, body)
    own = {"x-hub-signature-256": signature, "x-github-delivery": delivery}
    return {**own, "x-github-event": "push", "content-type": "application/json", **more}


def records(log: Log, topic: str) -> list[Record]:
    found = ranges.read(log, topic, log.ranges(topic))
    return [record for some in found for record in some]


def test_a_signed_delivery_is_stored_as_it_came_and_once(hooks: tuple[Running, str], log: Log):
    running, topic = hooks
    url, body = f"{running.url}/hooks/github", b'{ "a":  1 }'
    first = send(url, content=body, headers=github(body, traceparent="00-1-2-01"))
    again = send(url, content=body, headers=github(body))
    other = send(url, content=body, headers=github(body, "d-2"))
    assert first.json() == {"topic": topic, "partition": 0, "offset": 0, "duplicate": False}
    assert again.json() == {**first.json(), "duplicate": True}
    assert not other.json()["duplicate"]
    one, two = records(log, topic)
    assert (one.value, one.key, two.value) == (body, None, body)
    assert dict(one.headers) == {
        "content-type": b"application/json",
        "traceparent": b"00-1-2-01",
        "x-github-delivery": b"d-1",
        "x-github-event": b"push",
    }


def test_the_same_stripe_event_with_another_count_in_it_is_the_same_delivery(
    hooks: tuple[Running, str], log: Log
):
    running, topic = hooks
    for pending in (2, 1):
        body = json.dumps({"id": "evt_1", "pending_webhooks": pending}).encode()
        said = sign(PRESETS["stripe"], SECRET, "", int(time.time()), body)
        answer = send(
            f"{running.url}/hooks/stripe", content=body, headers={"stripe-signature": said}
        )
        assert answer.status_code == 200
    assert [json.loads(each.value or b"")["pending_webhooks"] for each in records(log, topic)] == [
        2
    ]


def test_what_is_not_signed_changed_or_old_is_refused_and_not_stored(
    hooks: tuple[Running, str], log: Log
):
    running, topic = hooks

    def post(hook: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
        return send(f"{running.url}/hooks/{hook}", content=content, headers=headers)

    old = sign(PRESETS["stripe"], SECRET, "", int(time.time()) - 1000, b'{"id":"1"}')
    refused = [
        (post("github", b"{}", {}), 401, "there is no header"),
        (post("github", b"{} ", github(b"{}")), 401, "is not of this body"),
        (post("stripe", b'{"id":"1"}', {"stripe-signature": old}), 401, "s from now"),
        (post("github", b"{}", github(b"{}", "")), 400, "has no id in x-github-delivery"),
        (post("keyed", b"{}", github(b"{}")), 422, "no field 'repository.id'"),
        (post("nobody", b"{}", {}), 404, "there is no hook 'nobody'"),
    ]
    for answer, status, sentence in refused:
        assert (answer.status_code, sentence in answer.json()["detail"]) == (status, True)
        assert answer.headers["content-type"] == "application/problem+json"
    assert records(log, topic) == []


def test_a_field_of_the_body_becomes_the_key(hooks: tuple[Running, str], log: Log):
    running, topic = hooks
    body = b'{"repository": {"id": 17}}'
    answer = send(f"{running.url}/hooks/keyed", content=body, headers=github(body))
    assert answer.status_code == 200
    assert records(log, topic)[0].key == b"17"


@pytest.mark.parametrize("body", [b'{"repository": {"id": "\\ud800"}}', b"[" * 100_000])
def test_a_signed_body_that_no_key_can_be_made_of_is_refused_in_a_sentence(
    hooks: tuple[Running, str], log: Log, body: bytes
):
    running, topic = hooks
    answer = send(f"{running.url}/hooks/keyed", content=body, headers=github(body))
    assert answer.status_code == 422 and "no field 'repository.id'" in answer.json()["detail"]
    assert records(log, topic) == []


def test_slack_is_told_that_we_are_there(hooks: tuple[Running, str], log: Log):
    running, topic = hooks
    body, now = b'{"type":"url_verification","challenge":"3eZbrw1aB"}', int(time.time())
    headers = {
        "x-slack-signature": sign(PRESETS["slack"], SECRET, "", now, body),
        "x-slack-request-timestamp": str(now),
    }
    answer = send(f"{running.url}/hooks/slack", content=body, headers=headers)
    assert answer.json() == {"challenge": "3eZbrw1aB"}
    assert records(log, topic) == []
    deep = b'{"type":"url_verification","challenge":' + b"[" * 100_000
    headers["x-slack-signature"] = sign(PRESETS["slack"], SECRET, "", now, deep)
    answer = send(f"{running.url}/hooks/slack", content=deep, headers=headers)
    assert answer.status_code == 200 and not answer.json()["duplicate"]


def test_a_delivery_that_is_sent_again_after_a_kill_is_stored_once(
    log: Log, topic: Callable[..., str], tmp_path: Path
):
    name = topic()
    document: Any = (
        f'[edges.hooks.h]\ntopic = "{name}"\nstyle = "github"\nsecret = "${{HOOK_SECRET}}"\n'
    )
    with process(tmp_path, document, log.bootstrap) as running:
        url, body = f"{running.url}/hooks/h", b'{"n": 1}'
        first = send(url, content=body, headers=github(body))
        running.kill()
        running.start()
        again = send(url, content=body, headers=github(body))
    assert (first.json()["duplicate"], again.json()["duplicate"]) == (False, True)
    assert [each.value for each in records(log, name)] == [body]


def test_a_body_is_read_only_when_it_is_known_whose_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("read before its signature was looked at")

    monkeypatch.setattr(json, "loads", never)
    for name in ("stripe", "slack"):
        style = PRESETS[name]
        said = sign(style, "another secret", "", int(time.time()), b"[]")
        headers = {style.header: said, style.timestamp_header or "-": str(int(time.time()))}
        with pytest.raises(NotGenuine):
            verify(style, [SECRET], headers, b"[]", time.time())


def test_a_packed_body_is_unpacked_once_its_signature_is_right(
    hooks: tuple[Running, str], log: Log
) -> None:
    running, topic = hooks
    url, body = f"{running.url}/hooks/github", b'{"a": 1}'
    packed = {"content-encoding": "gzip"}
    bomb, crumbs = gzip.compress(bytes(32 * 1024**2)), gzip.compress(b"") * 5000
    for strange in (bomb, crumbs, b"no gzip at all"):
        assert send(url, content=strange, headers={**github(b""), **packed}).status_code == 401
    assert send(url, content=bomb, headers={**github(bomb), **packed}).status_code == 413
    assert send(url, content=crumbs, headers={**github(crumbs), **packed}).status_code == 400
    sent = gzip.compress(body)
    whole = send(url, content=sent, headers={**github(sent, "packed"), **packed})
    assert (whole.status_code, [each.value for each in records(log, topic)]) == (200, [body])


def test_the_id_of_a_packed_delivery_is_read_in_what_was_packed(
    hooks: tuple[Running, str],
) -> None:
    running, _ = hooks
    sent, style = gzip.compress(b'{"id": "evt_packed"}'), PRESETS["stripe"]
    said = sign(style, SECRET, "", int(time.time()), sent)
    headers = {style.header: said, "content-encoding": "gzip", "content-type": "application/json"}
    answers = [
        send(f"{running.url}/hooks/stripe", content=sent, headers=headers).json() for _ in "12"
    ]
    assert [each["duplicate"] for each in answers] == [False, True]


def test_no_token_takes_a_hooks_deliveries_by_its_name(
    log: Log, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "a token of some length")
    name = topic()
    document = {
        "hooks": {name: {"topic": name, "secret": "${HOOK_SECRET}", "style": "github"}},
        "tokens": {"hook": {"secret": "${TOKEN}", "write": ["*"]}},
    }
    with edges(log.bootstrap, document) as running:
        mine = {"Authorization": "Bearer a token of some length", "Idempotency-Key": "d-1"}
        assert send(f"{running.url}/topics/{name}", json={}, headers=mine).status_code == 200
        answer = send(f"{running.url}/hooks/{name}", content=b"{}", headers=github(b"{}"))
    assert answer.status_code == 200 and answer.json()["duplicate"] is False
