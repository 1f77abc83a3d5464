"""examples/timeline: a join of two changing tables in PostgreSQL and Redis, against its recomputation."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from headwater.pipelines.loader import load, read
from headwater.testing.rehearsal import Rehearsal
from tests.capture.postgres.server import PostgresServer, postgres
from tests.conftest import SOAK
from tests.views.redis.server import RedisServer, redis_server

PIPELINES = Path(__file__).parents[3] / "examples" / "timeline" / "pipelines.py"
PEOPLE = [f"p{n}" for n in range(6)]
BATCHES = 30 if SOAK else 2


@pytest.fixture
def sql() -> Iterator[PostgresServer]:
    with postgres({"wal_level": "replica"}) as running:
        yield running


@pytest.fixture
def cache() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


class Network:
    """Who follows whom, and what they post; every change goes to the log."""

    def __init__(self, rehearsal: Rehearsal, seed: int) -> None:
        self.choice = random.Random(seed)
        self.clock = rehearsal.clock
        self.posts: dict[int, dict[str, Any]] = {}
        self.follows: set[tuple[str, str]] = set()
        self._producer = Producer({"bootstrap.servers": rehearsal.bootstrap, "log_level": 0})

    def change(self, times: int) -> None:
        for _ in range(times):
            if self.choice.random() < 0.6:
                self._post(self.choice.randrange(40))
            else:
                self._follow(self.choice.choice(PEOPLE), self.choice.choice(PEOPLE))
        assert self._producer.flush(60) == 0

    def _post(self, id: int) -> None:
        at = self.clock.advance(1000)
        if id in self.posts and self.choice.random() < 0.5:
            del self.posts[id]
            self._send("social.posts", str(id), None)
            return
        author = self.choice.choice(PEOPLE)  # an edited post may even change its author
        self.posts[id] = {"id": id, "author": author, "text": f"at {at}", "posted_at": at}
        self._send("social.posts", str(id), {**self.posts[id], "posted_at": moment(at)})

    def _follow(self, follower: str, author: str) -> None:
        row = {"follower": follower, "author": author}
        if (follower, author) in self.follows:
            self.follows.remove((follower, author))
            self._send("social.follows", json.dumps(row), None)
        else:
            self.follows.add((follower, author))
            self._send("social.follows", json.dumps(row), row)

    def _send(self, topic: str, key: str, row: dict[str, Any] | None) -> None:
        value = None if row is None else json.dumps(row)
        self._producer.produce(topic, value, key, timestamp=self.clock.now_ms())

    def timeline(self) -> set[tuple[str, int, str, str]]:
        """As it must be: recomputed from nothing."""
        return {
            (follower, post["id"], post["author"], post["text"])
            for follower, author in self.follows
            for post in self.posts.values()
            if post["author"] == author
        }


def moment(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat()


@pytest.mark.timeout(900)
def test_the_timeline_follows_posts_and_follows(
    headwater_test: Rehearsal, sql: PostgresServer, cache: RedisServer
):
    load(read([PIPELINES]))
    for topic in ("social.posts", "social.follows"):
        headwater_test.topic(topic, partitions=2)
    network = Network(headwater_test, seed=11)
    for number in range(BATCHES + 1):
        network.change(200 if number == 0 else 40)
        headwater_test.run("timeline", to=sql.url())
        headwater_test.run("timeline_of", to=cache.url)
        wanted = network.timeline()
        with psycopg.connect(sql.url()) as connection:
            rows = connection.execute("SELECT follower, post, author, text FROM timeline")
            assert set(rows.fetchall()) == wanted, f"batch {number}"
        with cache.client() as client:
            for reader in PEOPLE:
                mine = sorted(
                    (network.posts[post]["posted_at"], post)
                    for follower, post, *_ in wanted
                    if follower == reader
                )
                found = client.zrange(f"timeline_of:v1:{reader}", 0, -1)
                assert found == [str(post) for _, post in mine], f"{reader} in batch {number}"
