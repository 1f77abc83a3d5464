"""All subscriptions as a view of their topic: nothing counts that was taken back, and no change is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from headwater.browse import audit
from headwater.client import publisher
from headwater.client.errors import NotThere
from headwater.client.log import Log
from headwater.client.records import Record
from headwater.edges.config import read
from headwater.edges.server import made_context
from headwater.edges.subscriptions import entry as entries
from headwater.edges.subscriptions import history, topic_view
from headwater.edges.subscriptions.entry import Entry, Salt
from headwater.edges.subscriptions.runner import Runner
from headwater.edges.subscriptions.settings import Settings
from headwater.edges.subscriptions.topic_view import TopicView
from tests.edges.running import edges, until
from tests.edges.subscriptions.test_api import good
from tests.edges.webhooks.receiver import receiver

Topic = Callable[..., str]
KEY = "a key of at least thirty-two characters"


@pytest.fixture
def runner(log: Log, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    monkeypatch.setenv("HOOKS_KEY", KEY)
    section: dict[str, Any] = {"key": "${HOOKS_KEY}"}
    settings, mistakes = read({"subscriptions": section})
    assert not mistakes
    context = made_context(settings, None, log.bootstrap, {})
    with context.log:
        yield Runner(context, Settings(section))


def entry(name: str, id: str, topic: str = "orders") -> Entry:
    salt = Salt(Settings({"key": KEY}).key_id, f"the salt of {id}")
    return Entry(name, id, topic, "https://receiver.example/", (salt,), start="beginning")


def record(offset: int, name: str, value: Entry | None) -> Record:
    said = None if value is None else msgspec.json.encode(value)
    return Record("__headwater_webhooks", 0, offset, 0, name.encode(), said, ())


async def test_nothing_is_delivered_for_what_was_deleted_further_on_in_the_topic(
    runner: Runner,
) -> None:
    view = runner.directory._view
    await view._took([record(0, "gone", entry("gone", "0000000a"))], 1, False)
    await runner._follow()
    assert not runner.is_running(entry("gone", "0000000a")), "the topic was not read to its end"
    await view._took([record(1, "gone", None)], 2, True)
    await runner._follow()
    assert not runner.is_running(entry("gone", "0000000a"))


async def test_a_broker_that_is_slow_is_not_taken_for_an_empty_topic(
    log: Log, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    publisher.publish(log, name, publisher.Draft(b"k", b"one"))
    monkeypatch.setattr(topic_view, "follow", lambda *words, **more: iter([[]] * 20))
    taken: list[Record] = []
    view = TopicView(log, name, {}, taken.extend)
    await view.run()
    assert view.is_current and [each.value for each in taken] == [b"one"]


@pytest.fixture
def url(log: Log, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of edges that run, with nothing left behind."""
    monkeypatch.setenv("HOOKS_KEY", KEY)
    section = {"key": "${HOOKS_KEY}", "allow_private": True}
    with edges(log.bootstrap, {"subscriptions": section}) as running:
        yield running.url
        for each in httpx.get(f"{running.url}/webhooks", timeout=60).json()["webhooks"]:
            httpx.delete(f"{running.url}/webhooks/{each['name']}?discard=true", timeout=60)


async def test_of_secrets_that_are_replaced_at_once_none_that_was_given_out_is_lost(
    url: str, topic: Topic
) -> None:
    with receiver(secret=None) as inbox:
        said = {"name": "both", "topic": topic(), "to": inbox.url, "paused": True}
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            assert (await client.post("/webhooks", json=said)).status_code == 201
            turns = (client.post("/webhooks/both/secret", json={}) for _ in range(2))
            secrets = [each.json()["secret"] for each in await asyncio.gather(*turns)]
            assert (await client.post("/webhooks/both/ping")).json()["delivered"]
        assert [good(inbox.taken[0], each) for each in secrets] == [True, True]


def test_a_topic_that_somebody_deletes_is_made_again_and_nothing_else_goes_with_it(
    log: Log, topic: Topic, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_view, "LOOK_S", 0.1)
    said = {"name": "before", "topic": topic(), "to": "http://127.0.0.1:9/"}
    with httpx.Client(base_url=url, timeout=60) as client:
        assert client.post("/webhooks", json=said).status_code == 201
        letters = [each for each in log.topics() if each.startswith("webhooks.before.")]
        assert len(letters) == 2
        for name in (entries.TOPIC, history.TOPIC):
            log.admin.delete_topics([name])[name].result()
        until(lambda: client.get("/webhooks").json().get("webhooks") == [], "an empty topic", 60)
        assert client.post("/webhooks", json={**said, "name": "after"}).status_code == 201
        assert client.post("/webhooks/after/ping").status_code == 200
        until(
            lambda: len(client.get("/webhooks/after/deliveries").json()["deliveries"]) == 1,
            "the history",
            60,
        )
        assert {*letters} <= {*log.topics()}, "what could not be delivered is kept"


async def test_who_deletes_one_deletes_none_that_was_made_under_its_name_meanwhile(
    runner: Runner,
) -> None:
    runner._context.appender.start()
    reading = asyncio.create_task(runner.directory.run())
    try:
        first, second = entry("name", "0000000b"), entry("name", "0000000c")
        await runner.directory.add(first)
        await runner.directory.remove(first, "a test")
        await runner.directory.add(second)
        with pytest.raises(NotThere, match="another one by now"):
            await runner.directory.remove(first, "a test")
        assert await runner.directory.named("name") == second
        await runner.directory.remove(second, "a test")
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await runner._context.appender.close()


async def test_of_two_edges_that_make_one_name_at_once_exactly_one_does(
    url: str, log: Log, topic: Topic
) -> None:
    source = topic()
    section = {"key": "${HOOKS_KEY}", "allow_private": True}
    with edges(log.bootstrap, {"name": "others", "subscriptions": section}) as other:
        async with httpx.AsyncClient(timeout=60) as client:
            for place in (url, other.url):  # the routes of one process are made one after the other
                assert (await client.get(f"{place}/webhooks")).status_code == 200
            for number in range(5):
                said = {
                    "name": f"twice-{number}",
                    "topic": source,
                    "to": "https://a.example/",
                    "paused": True,
                }
                asked = [
                    client.post(f"{each}/webhooks", json={**said, "timeout_s": timeout_s})
                    for timeout_s, each in ((5, url), (6, other.url))
                ]
                answers = await asyncio.gather(*asked)
                assert sorted(each.status_code for each in answers) == [201, 409]
                (won,) = (each.json() for each in answers if each.status_code == 201)
                for place in (url, other.url):
                    found = await client.get(f"{place}/webhooks/{said['name']}")
                    assert found.json()["timeout_s"] == won["timeout_s"]


async def test_who_makes_changes_or_deletes_one_stands_in_the_audit(
    url: str, log: Log, topic: Topic
) -> None:
    said = {
        "name": "in-the-audit",
        "topic": topic(),
        "to": "https://a.example/planted?key=planted",
        "paused": True,
    }
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for method, path, body in (
            ("POST", "/webhooks", said),
            ("PATCH", "/webhooks/in-the-audit", {"parallel": 2}),
            ("POST", "/webhooks/in-the-audit/secret", {}),
            ("DELETE", "/webhooks/in-the-audit", None),
        ):
            answer = await client.request(method, path, json=body)
            assert answer.status_code < 300, answer.text
    found = [each for each in audit.newest(log, 100) if each.name == "in-the-audit"]
    told = ["delete", "rotate", "change", "create"]
    assert [each.what for each in found] == told
    assert {each.kind for each in found} == {"webhook"}
    assert {(each.principal, each.host) for each in found} == {("User:ANONYMOUS", "127.0.0.1")}
    assert found[0].details["to"] == "https://a.example/***"
