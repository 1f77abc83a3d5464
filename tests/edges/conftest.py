"""One broker in this process for the folder, and edges on it; each test has its own topics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from headwater.client.log import Log
from headwater.testing import broker
from tests.edges.running import until

_numbers = itertools.count()


@pytest.fixture(scope="session")
def log() -> Iterator[Log]:
    with broker() as running, Log(running.bootstrap) as log:
        yield log


@pytest.fixture
def topic(log: Log) -> Callable[..., str]:
    """Make a topic with a name of its own: `topic(partitions=3, cleanup_policy="compact")`."""

    def make(partitions: int = 1, **settings: Any) -> str:
        name = f"t{next(_numbers)}"
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        log.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
        until(lambda: name in log.admin.list_topics(timeout=60).topics, "the topic")
        return name

    return make
