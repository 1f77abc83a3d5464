"""Two edges at one log: of different names they share the partitions, of one name the second takes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import NewPartitions

from headwater.client import groups
from headwater.client.log import Log
from tests.edges.running import Running, edges, until
from tests.edges.webhooks.receiver import SECRET, receiver

KEYS = 16


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


def document(edges_name: str, topic: str, url: str) -> dict[str, Any]:
    own = {"from": f"topic:{topic}", "to": url, "secret": "${HOOK_SECRET}", "allow_private": True}
    section = {**own, "start": "beginning", "parallel": 4}
    return {"name": edges_name, "webhooks": {topic: section}}


def put(log: Log, topic: str, numbers: range) -> None:
    producer = log.new_producer()
    for number in numbers:
        for key in range(KEYS):
            producer.produce(topic, b"%d" % number, b"key-%d" % key)
    assert producer.flush(60) == 0


def status(running: Running, topic: str) -> dict[str, Any]:
    found = httpx.get(f"{running.url}/status", timeout=30).json()
    return dict(found["services"][f"webhooks.{topic}"])


def test_partitions_change_hands_without_loss_or_reordering(log: Log, topic: Callable[..., str]):
    name = topic(partitions=4)
    group = f"headwater.webhook.{name}"

    def holders() -> set[str]:
        members = groups.named(log, group).members
        return {(each.instance_id or "").split(".")[0] for each in members if each.partitions}

    put(log, name, range(10))
    with receiver() as got:
        with edges(log.bootstrap, document("one", name, got.url)) as first:
            until(lambda: got.taken, "the first delivery")
            with edges(log.bootstrap, document("two", name, got.url)) as second:
                until(lambda: holders() == {"one", "two"}, "that both have partitions")
                put(log, name, range(10, 20))
                until(lambda: status(first, name)["delivered"] > 0, "deliveries of the one")
                until(lambda: status(second, name)["delivered"] > 0, "deliveries of the other")
                until(lambda: len(got.taken) >= 20 * KEYS, "all deliveries")
        arrived: dict[str, list[int]] = {}
        for request in got.got:
            arrived.setdefault(request.key, []).append(int(request.body))
    # Where an answer takes longer than a partition may wait to be let go, one comes twice; never out of turn.
    assert {key: sorted(set(got)) for key, got in arrived.items()} == {
        f"key-{key}": list(range(20)) for key in range(KEYS)
    }
    assert all(got == sorted(got) for got in arrived.values()), arrived


def test_a_second_process_of_the_same_name_takes_over_and_the_first_says_so(
    log: Log, topic: Callable[..., str]
):
    name = topic()
    put(log, name, range(2))
    with receiver() as got, edges(log.bootstrap, document("one", name, got.url)) as first:
        until(lambda: len(got.taken) == 2 * KEYS, "the deliveries")
        with edges(log.bootstrap, document("one", name, got.url)) as second:
            until(lambda: "last_failure" in status(first, name), "the fence")
            assert "another process has taken over as one" in status(first, name)["last_failure"]
            put(log, name, range(2, 4))
            until(lambda: len(got.taken) >= 4 * KEYS, "the deliveries of the second")
            assert "last_failure" not in status(second, name)


@pytest.mark.soak  # it waits for two sessions to end, of ten seconds each
def test_another_topic_and_more_partitions_are_read_after_a_restart(
    log: Log, topic: Callable[..., str]
):
    """A static member that comes back is given what it had, whatever it asks for."""
    first, second = topic(), topic()
    put(log, first, range(1))
    put(log, second, range(1))
    with receiver() as got:
        with edges(log.bootstrap, document("one", first, got.url)):
            until(lambda: len(got.taken) == KEYS, "the deliveries of one topic")
        moved = document("one", second, got.url)
        moved["webhooks"] = {first: moved["webhooks"][second]}
        with edges(log.bootstrap, moved):
            until(lambda: len(got.taken) == 2 * KEYS, "the deliveries of the other")
        more = log.admin.create_partitions([NewPartitions(second, 2)])
        more[second].result()
        until(lambda: len(log.partitions(second)) == 2, "the second partition")
        producer = log.new_producer()
        producer.produce(second, b"7", b"new", partition=1)
        assert producer.flush(60) == 0
        with edges(log.bootstrap, moved):
            until(lambda: len(got.taken) == 2 * KEYS + 1, "the new partition's")
    assert got.taken[-1].key == "new"
