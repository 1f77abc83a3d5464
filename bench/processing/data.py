"""The events of the benchmark: the same rows for every contestant, in topics of headwater's broker.

A row is `{"k": "k17", "x": 3, "ms": …, "at": "…"}`: one per millisecond of event time, keys at
random, x from 0 to 9. Its record has the same key and the same time, for contestants that go by
these.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

START_MS = 1_767_225_600_000
PARTITIONS = 2
WORDS = 20_000
"""Of the language that documents and stored queries are written in; some are common, most are not."""


@dataclass(frozen=True)
class Event:
    key: str
    x: int
    ms: int

    def value(self) -> bytes:
        at = dt.datetime.fromtimestamp(self.ms / 1000, dt.UTC).isoformat()
        return json.dumps({"k": self.key, "x": self.x, "ms": self.ms, "at": at}).encode()


def events(rows: int, keys: int, seed: int) -> Iterator[Event]:
    choice = random.Random(seed)
    for number in range(rows):
        yield Event(f"k{choice.randrange(keys)}", choice.randrange(10), START_MS + number)


def documents(count: int, seed: int) -> list[str]:
    """Texts of twenty words each; the n-th word of the language is as common as 1/n."""
    choice = random.Random(seed)
    words = [f"w{number}" for number in range(WORDS)]
    weights = [1 / (number + 1) for number in range(WORDS)]
    chosen = choice.choices(words, weights, k=count * 20)
    return [" ".join(chosen[n : n + 20]) for n in range(0, len(chosen), 20)]


def queries(count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs of words that must both be there, not among the commonest."""
    choice = random.Random(seed)
    return [
        (f"w{choice.randrange(50, WORDS)}", f"w{choice.randrange(10, 2_000)}") for _ in range(count)
    ]


def create(bootstrap: str, names: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result()


def write(bootstrap: str, topic: str, records: Iterator[tuple[str, bytes, int]]) -> int:
    """Append (key, value, time in ms); returns how many."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    count = 0
    for key, value, ms in records:
        count += 1
        while True:
            try:
                producer.produce(topic, value, key, timestamp=ms)
                break
            except BufferError:
                producer.poll(0.1)
        if count % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    assert left == 0, f"{left} records were not written"
    return count
