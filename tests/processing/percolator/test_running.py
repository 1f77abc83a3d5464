"""Search on the stream over a broker and Spark: any batches, a kill, bad queries and removed ones."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

import headwater as hw
from headwater.processing import percolator
from headwater.testing.rehearsal import Rehearsal
from tests.conftest import SOAK
from tests.processing.killing import forget_the_last_commit

WORDS = [f"w{n}" for n in range(12)]
SEEDS = range(20) if SOAK else [3]


class Stored(NamedTuple):
    """A query as of a second: words that must and must not occur. No must: it is removed."""

    second: int
    id: str
    must: str | None
    must_not: str = ""

    @property
    def value(self) -> bytes | None:
        if self.must is None:
            return None
        return json.dumps({"query": f"+{self.must} -{self.must_not}"}).encode()


class Document(NamedTuple):
    second: int
    id: int
    words: list[str]


def history(seed: int, length: int) -> list[Stored | Document]:
    choice = random.Random(seed)
    found: list[Stored | Document] = []
    for number in range(length):
        second = 10 * number
        if choice.random() < 0.4:
            must = None if choice.random() < 0.3 else choice.choice(WORDS)
            found.append(Stored(second, f"q{choice.randrange(6)}", must, choice.choice(WORDS)))
        else:
            found.append(Document(second, number, choice.choices(WORDS, k=4)))
    return found


def expected(records: list[Stored | Document]) -> list[tuple[str, int]]:
    found, force = [], {}
    for each in records:
        if isinstance(each, Stored):
            force[each.id] = each
        else:
            for query in force.values():
                if query.must in each.words and query.must_not not in each.words:
                    found.append((query.id, each.id))
    return sorted(found)


def alerts() -> Any:
    articles = hw.stream("articles", schema="id BIGINT, title STRING, body STRING")
    return percolator.match(articles, "saved", keep="id", fields=["title", "body"])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_batches_and_a_kill_find_what_one_batch_finds(headwater_test: Rehearsal, seed: int):
    records, choice = history(seed, 300 if SOAK else 50), random.Random(seed)
    hw.view("alerts")(alerts)
    headwater_test.topic("saved")
    producer = Producer({"bootstrap.servers": headwater_test.bootstrap, "log_level": 0})
    cuts = sorted(choice.sample(range(5, len(records)), 10 if SOAK else 2))
    start_ms = headwater_test.clock.now_ms()
    for number, each in enumerate(records):
        headwater_test.clock.advance(start_ms + 1000 * each.second - headwater_test.clock.now_ms())
        if number in cuts:
            headwater_test.run("alerts")
        if number == cuts[-1]:
            forget_the_last_commit(headwater_test, "alerts")
        store(producer, headwater_test, each)
    for key, value in ((b"q1", b'{"query": "+("}'), (b"q2", b"no JSON"), (None, b'{"query": "x"}')):
        producer.produce("saved", value, key, timestamp=headwater_test.clock.now_ms())
    assert producer.flush(60) == 0
    headwater_test.run("alerts")
    found = {
        "stream": headwater_test.changes("alerts"),
        "batch": headwater_test.batch("alerts"),
    }
    for how, rows in found.items():
        assert sorted((row["query"], row["id"]) for row in rows) == expected(records), how
    letters = headwater_test.records("dlq.headwater-alerts")
    reasons = sorted(dict(each.headers())["__dlq.errors.message"].decode() for each in letters)
    assert len(reasons) == 3, reasons
    assert "a stored query must be a JSON object" in reasons[0]
    assert "must have a key" in reasons[1]
    assert "cannot search for '+('" in reasons[2]


def store(producer: Producer, rehearsal: Rehearsal, each: Stored | Document) -> None:
    if isinstance(each, Document):
        title, body = " ".join(each.words[:2]), " ".join(each.words[2:])
        rehearsal.send("articles", {"id": each.id, "title": title, "body": body})
        return
    producer.produce("saved", each.value, each.id, timestamp=rehearsal.clock.now_ms())
    assert producer.flush(60) == 0
