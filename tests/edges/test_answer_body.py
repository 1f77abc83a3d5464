"""Answers on their way out: counted until their client has taken them, and ended where it takes nothing."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from headwater.edges import rest
from headwater.edges.feeds import hub_of
from headwater.edges.memory_share import MemoryShare
from tests.edges.running import Running, edges, until
from tests.edges.slow import slow_client

RECORD = b"\x01" * 900_000
"""Six times as long in JSON: more than the kernel keeps for a client that takes nothing."""


def page(running: Running, topic: str) -> tuple[str, MemoryShare]:
    return f"{running.url}/topics/{topic}?limit=1", hub_of(running.context).pages


def consumer(running: Running, topic: str) -> tuple[str, MemoryShare]:
    new = {"format": "string", "auto.offset.reset": "earliest"}
    made = httpx.post(f"{running.url}/consumers/g-{topic}", json=new, timeout=60)
    base = made.json()["base_uri"]
    reads = httpx.post(f"{base}/subscription", json={"topics": [topic]}, timeout=60)
    assert reads.status_code == 204
    return f"{base}/records?timeout=30000&max_bytes=1", rest.instances_of(running.context).answers


WAYS = pytest.mark.parametrize("way", [page, consumer])
Way = Callable[[Running, str], tuple[str, MemoryShare]]


@WAYS
def test_an_answer_counts_until_it_has_been_taken(log: Log, topic: Callable[..., str], way: Way):
    name = topic()
    publish(log, name, Draft(None, RECORD))
    with edges(log.bootstrap) as running:
        url, held = way(running, name)
        with slow_client(url) as client:
            assert held.bytes == client.length > len(RECORD)
            assert client.take_all() == client.length
            until(lambda: held.bytes == 0, "that it counts no more")


@WAYS
def test_an_answer_that_nobody_takes_is_ended(log: Log, topic: Callable[..., str], way: Way):
    name = topic()
    publish(log, name, Draft(None, RECORD))
    with edges(log.bootstrap, {"limits": {"slow_seconds": 1}}) as running:
        url, held = way(running, name)
        with slow_client(url) as client:
            until(lambda: held.bytes == 0, "that it counts no more")
            assert client.take_all() < client.length


def test_pages_that_wait_to_be_taken_are_bounded_together(log: Log, topic: Callable[..., str]):
    name = topic()
    publish(log, name, Draft(None, RECORD))
    with edges(log.bootstrap) as running:
        url, held = page(running, name)
        held.most = 2 * len(httpx.get(url, timeout=60).content)
        with slow_client(url) as client:
            other = httpx.get(url, timeout=60)
            assert other.status_code == 429
            assert int(other.headers["retry-after"]) > 0
            client.take_all()
        until(lambda: held.bytes == 0, "that it counts no more")
        assert httpx.get(url, timeout=60).status_code == 200
