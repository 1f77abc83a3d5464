"""Which topics there are: asked once in a while, also for those that are not there; each in its own line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

import headwater.edges
from headwater.client.errors import BrokerUnreachable, NotThere, translated
from headwater.client.log import Log
from headwater.edges.caller import SENDER
from headwater.edges.topics import ABSENT_MAX, ABSENT_S, KNOWN_S, Topics, is_gone

Make = Callable[..., str]


class Counted:
    """A log that counts what it is asked, and can be made to wait."""

    def __init__(self, log: Log, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self._known, self.go_on = log.partitions, threading.Event()
        self.go_on.set()
        patch.setattr(log, "partitions", self.partitions)

    def partitions(self, name: str) -> list[int]:
        self.asked.append(name)
        assert self.go_on.wait(60)
        return self._known(name)


async def test_what_is_not_there_is_asked_for_once_in_a_second(
    log: Log, topic: Make, monkeypatch: pytest.MonkeyPatch
):
    counted, now = Counted(log, monkeypatch), [0.0]
    topics, name = Topics(log, lambda: now[0]), topic()
    for _ in range(5):
        with pytest.raises(NotThere, match="there is no topic 'misspelt'"):
            await topics.find("misspelt")
        assert (await topics.find(name)).partitions == (0,)
    assert sorted(counted.asked) == sorted(["misspelt", name])
    now[0] = ABSENT_S
    with pytest.raises(NotThere):
        await topics.find("misspelt")
    assert counted.asked.count("misspelt") == 2
    now[0] = KNOWN_S
    await topics.find(name)
    assert counted.asked.count(name) == 2
    topics.close()


async def test_one_looks_again_for_all_who_write_to_a_topic(
    log: Log, topic: Make, monkeypatch: pytest.MonkeyPatch
):
    counted, now = Counted(log, monkeypatch), [0.0]
    topics, name = Topics(log, lambda: now[0]), topic()
    await topics.find(name)
    now[0] = KNOWN_S

    async def find(sender: str) -> int:
        SENDER.set(sender)
        return len((await topics.find(name)).partitions)

    tasks = [asyncio.create_task(find(f"token {number}")) for number in range(50)]
    assert await asyncio.gather(*tasks) == [1] * 50
    assert counted.asked == [name, name]
    topics.close()


async def test_a_topic_that_was_made_is_there_at_once_for_who_made_it(log: Log, topic: Make):
    topics = Topics(log, lambda: 0.0)
    name = f"t{int(topic()[1:]) + 1}"
    with pytest.raises(NotThere):
        await topics.find(name)
    assert topic() == name
    topics.forget(name)
    assert (await topics.find(name)).partitions == (0,)
    topics.close()


async def test_any_number_of_names_is_remembered_within_a_bound(log: Log):
    topics = Topics(log, lambda: 0.0)
    for number in range(ABSENT_MAX + 50):
        with pytest.raises(NotThere):
            await topics.find(f"absent-{number}")
    assert len(topics.absent) == ABSENT_MAX
    topics.close()


async def test_a_name_that_no_topic_can_have_is_not_there(log: Log):
    topics = Topics(log)
    for name in ("", "a b", "x" * 300, "..", "\ud800", "a\0b", "é"):
        with pytest.raises(NotThere):
            await topics.find(name)
    topics.close()


async def test_nobody_waits_in_the_line_of_another(
    log: Log, topic: Make, monkeypatch: pytest.MonkeyPatch
):
    counted, topics, name = Counted(log, monkeypatch), Topics(log), topic()
    counted.go_on.clear()

    async def find(sender: str, wanted: str) -> int:
        SENDER.set(sender)
        return len((await topics.find(wanted)).partitions)

    names = [*(f"absent-{number}" for number in range(20)), name]
    greedy = [asyncio.create_task(find("greedy", each)) for each in names]
    mine = [asyncio.create_task(find("other", name)) for _ in range(3)]
    while name not in counted.asked:
        await asyncio.sleep(0.01)  # between two looks
    assert counted.asked.count(name) == 1  # one look for three that ask
    assert len(counted.asked) == 3  # and two of the greedy one's
    counted.go_on.set()
    assert await asyncio.gather(*mine) == [1, 1, 1]
    await asyncio.gather(*greedy, return_exceptions=True)
    topics.close()


_OWN = {  # what the process does for itself, and not for somebody who asks
    "alerts", "bridges", "multicast", "tracing", "udp", "webhooks",
    "app.py", "appender.py", "metrics.py", "idempotency/appender.py",
    "subscriptions/directory.py",
}  # fmt: skip


def test_no_request_waits_in_the_loops_own_threads():
    """A few who ask for what is slow would have them all: see `workers`."""
    root = Path(headwater.edges.__file__).parent
    found = [
        path.relative_to(root).as_posix()
        for path in sorted(root.rglob("*.py"))
        if "to_thread(" in path.read_text() or "run_in_executor(None" in path.read_text()
    ]
    assert [each for each in found if each not in _OWN and each.split("/")[0] not in _OWN] == []


def test_a_record_that_librdkafka_had_in_hand_as_its_topic_went_is_no_refusal():
    error = KafkaError(KafkaError._DESTROY)
    assert is_gone(error), "the topic is looked for again"
    assert isinstance(translated(error, "appending", "here:1"), BrokerUnreachable)
