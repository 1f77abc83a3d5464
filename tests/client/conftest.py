"""One broker in this process for the folder, and a `Log` on it; each test has its own topics."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from headwater.client.log import Log
from headwater.testing import broker

SETTINGS = {"log.cleaner.enable": True, "log.cleaner.backoff.ms": 50}
_numbers = itertools.count()
_producers: WeakKeyDictionary[Log, dict[Any, Producer]] = WeakKeyDictionary()


@pytest.fixture(scope="session")
def log() -> Iterator[Log]:
    with broker(settings=SETTINGS) as running, Log(running.bootstrap) as log:
        yield log


@pytest.fixture
def topic(log: Log) -> Callable[..., str]:
    """Make a topic with a name of its own."""

    def make(partitions: int = 1, **settings: Any) -> str:
        return make_topic(log, partitions, **settings)

    return make


def make_topic(log: Log, partitions: int = 1, **settings: Any) -> str:
    name = f"t{next(_numbers)}"
    config = {key.replace("_", "."): str(value) for key, value in settings.items()}
    made = NewTopic(name, partitions, 1, config=config)
    log.admin.create_topics([made])[name].result()
    until(lambda: name in log.admin.list_topics(timeout=60).topics, "the topic")
    return name


def put(log: Log, topic: str, records: list[dict[str, Any]], **settings: Any) -> None:
    # Kept: librdkafka lets half a second pass before a new idempotent producer asks for its id.
    mine = _producers.setdefault(log, {})
    producer = mine.get(tuple(sorted(settings.items())))
    if producer is None:
        producer = mine[tuple(sorted(settings.items()))] = log.new_producer(**settings)
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(60) == 0


def until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.02)  # between two looks
    return found
