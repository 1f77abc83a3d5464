"""Tokens of an issuer at the edges: who they let in, to what, for how long; each bad one is refused."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from joserfc.jwk import ECKey
from starlette.requests import Request
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from headwater.browse.audit import newest
from headwater.client.log import Log
from headwater.edges import oidc
from headwater.edges.caller import TOKEN
from headwater.edges.config import read
from headwater.edges.errors import BadToken
from headwater.edges.rest.access import acting
from headwater.edges.tokens import Token
from headwater.on_behalf import person_of
from headwater.testing.clock import ManualClock
from headwater.testing.issuer import Issuer, issuer
from tests.edges.feeds.clients import following
from tests.edges.running import Running, edges, until
from tests.oidc.bad_tokens import BAD

GROUPS = {
    "writers": {"write": ["*"]},
    "readers": {"read": ["*", "group:*"]},
    "owners": {"admin": ["made-*"]},
    "members": {"read": ["group:*"]},
}
Topic = Callable[..., str]


@pytest.fixture(scope="module")
def idp() -> Iterator[Issuer]:
    with issuer() as found:
        yield found


def section(idp: Issuer, **more: object) -> dict[str, Any]:
    named = {"groups": GROUPS, "principals": {"robot": {"write": ["*"]}}}
    return {"issuer": idp.url, "audience": ["other", idp.audience], **named, **more}


@pytest.fixture(scope="module")
def running(log: Log, idp: Issuer) -> Iterator[Running]:
    with edges(log.bootstrap, {"oidc": section(idp)}) as found:
        yield found


def by(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def post(running: Running, topic: str, token: str, **more: str) -> httpx.Response:
    headers = {**by(token), **more}
    return httpx.post(f"{running.url}/topics/{topic}", json={"a": 1}, headers=headers, timeout=60)


def test_groups_become_scopes_and_add_up(running: Running, idp: Issuer, topic: Topic):
    name = topic()
    both, one = idp.token(groups=["writers", "readers", "others"]), idp.token(groups=["readers"])
    assert post(running, name, both).status_code == 200
    page = {**by(both), "Accept": "application/json"}
    assert httpx.get(f"{running.url}/topics/{name}", headers=page).status_code == 200
    refused = post(running, name, one)
    assert refused.status_code == 403
    assert "the principal ann may not write" in refused.json()["detail"]
    assert "edges.oidc.groups" in refused.json()["hint"]
    assert post(running, name, idp.token("robot")).status_code == 200
    assert post(running, name, idp.token("ann")).status_code == 403
    assert httpx.post(f"{running.url}/topics/{name}", json={}).status_code == 401


@pytest.mark.parametrize("name", [each for each in BAD if each != "empty"])
def test_a_bad_token_is_refused(running: Running, idp: Issuer, name: str):
    token = BAD[name][0](idp).encode().decode("latin-1")
    headers = {"Authorization": f"Bearer {token}".encode("latin-1")}
    said = httpx.get(f"{running.url}/topics/orders", headers=headers)
    assert said.status_code == 401, said
    assert token not in said.text and idp.url not in said.text


def test_a_refusal_is_told_in_the_log_and_only_now_and_then(caplog: pytest.LogCaptureFixture):
    with issuer() as idp:
        bearers = oidc.Bearers(section(idp), ManualClock().monotonic)

        async def often() -> None:
            for _ in range(50):
                with pytest.raises(BadToken):
                    await bearers.find(idp.token(aud="billing"))

        with caplog.at_level(logging.WARNING):
            asyncio.run(often())
    told = [each for each in caplog.messages if "meant for 'billing'" in each]
    assert 1 <= len(told) <= 2


def test_keys_that_rotate_are_found_and_invented_ones_do_not_drive_the_issuer(
    log: Log, topic: Topic
):
    name = topic()
    with issuer() as idp, edges(log.bootstrap, {"oidc": section(idp)}) as running:
        assert post(running, name, idp.token(groups=["writers"])).status_code == 200
        strange = ECKey.generate_key("P-256", {"kid": "invented"})
        for number in range(30):
            made = idp.signed(idp.claims(f"u{number}", groups=["writers"]), strange)
            assert post(running, name, made).status_code in (401, 429)
        assert idp.asked["/keys"] == 2
        idp.rotate()
        new = idp.token(groups=["writers"])
        # Strangers have used up the question of these ten seconds; then the new key is found.
        until(lambda: post(running, name, new).status_code == 200, "the new key")
        assert idp.asked["/keys"] == 3


def test_what_was_good_is_remembered_within_bounds_and_not_beyond_its_end(idp: Issuer):
    clock = ManualClock()
    bearers = oidc.Bearers(section(idp), clock.monotonic)
    judged: list[str] = []
    real = bearers._validator.identity

    async def counted(text: str) -> Any:
        judged.append(text)
        return await real(text)

    bearers._validator.identity = counted  # type: ignore[method-assign]
    token, short = idp.token(), idp.token(exp=time.time() + 20)

    async def ask() -> None:
        for _ in range(3):
            await bearers.find(token)
            await bearers.find(short)
        assert len(judged) == 2
        clock.advance(21_000)
        await bearers.find(token)
        assert len(judged) == 2
        await bearers.find(short)
        assert len(judged) == 3, "its end has come: it is judged again"
        clock.advance(40_000)
        await bearers.find(token)
        assert len(judged) == 4

    asyncio.run(ask())


def test_the_memory_of_tokens_is_bounded(idp: Issuer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(oidc, "REMEMBERED_MAX", 5)
    bearers = oidc.Bearers(section(idp))

    async def ask() -> None:
        for number in range(12):
            await bearers.find(idp.token(f"u{number}"))

    asyncio.run(ask())
    assert len(bearers._known) == 5


def test_an_issuer_that_is_away_is_503_and_not_a_bad_token(log: Log, topic: Topic):
    name = topic()
    with issuer() as idp:
        idp.failing = True
        with edges(log.bootstrap, {"oidc": section(idp)}) as running:
            said = post(running, name, idp.token(groups=["writers"]))
    assert said.status_code == 503 and said.headers["Retry-After"]
    assert "issuer gives no answer" in said.json()["detail"] and idp.url not in said.text


def test_each_principal_has_limits_and_idempotency_keys_of_its_own(
    log: Log, idp: Issuer, topic: Topic
):
    name = topic()
    document = {"oidc": section(idp), "limits": {"requests_per_second": 0.5}}
    with edges(log.bootstrap, document) as running:
        ann, bob = (idp.token(who, groups=["writers"]) for who in ("ann", "bob"))
        first = post(running, name, ann, **{"Idempotency-Key": "k"})
        assert first.status_code == 200
        assert post(running, name, idp.token("ann", groups=["writers"], jti="2")).status_code == 429
        other = post(running, name, bob, **{"Idempotency-Key": "k"})
        assert other.status_code == 200 and "Idempotent-Replay" not in other.headers
        assert other.json()["offset"] != first.json()["offset"]


def test_no_principal_takes_anothers_idempotency_key_by_its_name(
    running: Running, idp: Issuer, topic: Topic
):
    one, other = topic(), topic()
    ann, forged = (idp.token(who, groups=["writers"]) for who in ("ann", f"ann|{one}"))
    first = post(running, one, ann, **{"Idempotency-Key": f"{other}|k"})
    second = post(running, other, forged, **{"Idempotency-Key": "k"})
    assert (first.status_code, second.status_code) == (200, 200)
    assert "Idempotent-Replay" not in second.headers


def test_a_feed_ends_with_its_token_and_says_so(log: Log, idp: Issuer, topic: Topic):
    name, document = topic(), {"oidc": section(idp, skew_seconds=0)}
    with edges(log.bootstrap, document) as running:
        token = idp.token(groups=["readers"], exp=time.time() + 3)
        with following(f"{running.url}/topics/{name}", by(token)) as reader:
            until(lambda: reader.named("dropped"), "the end of the feed")
            assert "expired" in reader.named("dropped")[0]["reason"]
        token = idp.token(groups=["readers"], exp=time.time() + 3)
        at = f"{running.url.replace('http', 'ws')}/topics/{name}?access_token={token}"
        with connect(at) as socket, pytest.raises(ConnectionClosed, match="expired"):
            list(socket)


def test_what_a_principal_changes_stands_in_the_audit(log: Log, running: Running, idp: Issuer):
    with httpx.Client(base_url=running.url, headers=by(idp.token("ann", groups=["owners"]))) as ann:
        (cluster,) = ann.get("/v3/clusters").json()["data"]
        at = f"/v3/clusters/{cluster['cluster_id']}/topics"
        assert ann.post(at, json={"topic_name": "made-by-ann"}).status_code == 201
        setting = f"{at}/made-by-ann/configs/retention.ms"
        assert ann.put(setting, json={"value": "1000"}).status_code == 204
        assert ann.delete(f"{at}/made-by-ann").status_code == 204
        assert ann.post(at, json={"topic_name": "other"}).status_code == 403
    wanted = "headwater-edges; for=oidc:ann"

    def told() -> bool:
        found = [each for each in newest(log, 50) if each.name == "made-by-ann"]
        return len(found) == 3 and all(each.client_id == wanted for each in found)

    until(told, "three lines in the audit")


def test_no_principal_gives_the_audit_the_name_of_another(log: Log) -> None:
    name = "oidc:ann; for=User:root"
    request = Request({"type": "http", TOKEN: Token(name)})
    assert person_of(acting(request, log).settings["client.id"]) == name
    assert person_of(acting(Request({"type": "http"}), log).settings["client.id"]) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"issuer": "http://login.example"}, "nobody could trust"),
        ({"issuer": None}, "lacks `issuer"),
        ({"audience": None}, "lacks `audience"),
        ({"audience": []}, "neither a text nor a list"),
        ({"audience": ["", "x"]}, "neither a text nor a list"),
        ({"groups": None, "principals": None}, "lets nobody do anything"),
        ({"groups": {"ops": {"secret": "x", "read": ["*"]}}}, "groups.ops has no setting 'secret'"),
        ({"groups": {"ops": {}}}, "groups.ops may neither read nor write"),
        ({"groups": {"ops": {"read": ["__headwater_keys"]}}}, "no token reaches"),
        ({"groups": "ops"}, "write [edges.oidc.groups.NAME]"),
        ({"skew_seconds": 100_000}, "no number of seconds"),
        ({"skew_seconds": True}, "no number of seconds"),
        ({"jwks": "http://login.example/keys"}, "nobody could trust"),
        ({"isuer": "x"}, "did you mean"),
        ({"groups_claim": ""}, "no text in quotes"),
    ],
)
def test_a_section_with_a_mistake_is_told(idp: Issuer, given: dict[str, Any], said: str):
    words = {**section(idp), **given}
    document = {"oidc": {name: value for name, value in words.items() if value is not None}}
    _, mistakes = read(json.loads(json.dumps(document)))
    assert any(where == "edges.oidc" and said in sentence for where, sentence in mistakes), mistakes
    assert not read({"oidc": section(idp)})[1]


def test_no_token_of_the_file_can_be_taken_for_a_principal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_TOKEN", "correct horse battery")
    named = {"oidc:ann": {"secret": "${SHOP_TOKEN}", "read": ["*"]}}
    assert any("begins with oidc:" in sentence for _, sentence in read({"tokens": named})[1])


def test_the_doctor_says_whether_the_keys_can_be_had():
    with issuer() as idp:
        assert oidc.unreachable(section(idp)) is None
        idp.rotate()
        assert oidc.unreachable(section(idp)) is None
        idp.failing = True
        assert "503" in (oidc.unreachable(section(idp)) or "")


def test_a_consumer_has_no_right_that_its_principal_has_lost(
    running: Running, idp: Issuer, topic: Topic
):
    name = topic()
    reader, writer = idp.token(groups=["readers", "writers"]), idp.token(groups=["writers"])
    assert post(running, name, reader).status_code == 200
    with httpx.Client(base_url=running.url, timeout=60) as client:
        kind = {"format": "json", "auto.offset.reset": "earliest"}
        base = client.post("/consumers/lost", json=kind, headers=by(reader)).json()["base_uri"]
        topics = {"topics": [name]}
        at = f"{base}/subscription"
        assert client.post(at, json=topics, headers=by(reader)).status_code == 204
        found = f"{base}/records?timeout=2000"
        until(lambda: client.get(found, headers=by(reader)).json(), "the record")
        # As long as it lasts, a group may be left to whom no topic is open any more.
        less = idp.token(groups=["members"])
        for path in ("records", "offsets", "assignments"):
            for token in (writer, less):
                said = client.get(f"{base}/{path}", headers=by(token))
                assert said.status_code == 403, said.text
        for token in (writer, less):
            assert client.post(f"{base}/offsets", headers=by(token)).status_code == 403
        assert f"read {name}" in client.get(found, headers=by(less)).json()["message"]
        assert client.delete(base, headers=by(less)).status_code == 204
