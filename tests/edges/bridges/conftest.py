"""One RabbitMQ and one Mosquitto for the folder, real ones; each test has names of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from headwater.testing.kafka_jars import MissingServer
from headwater.testing.mosquitto import Mosquitto, mosquitto
from headwater.testing.rabbitmq import RabbitMQ, rabbitmq

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """That no other test of this run has."""
    return f"bridged{next(_numbers)}"


@pytest.fixture(scope="session")
def rabbit() -> Iterator[RabbitMQ]:
    yield from or_absent(rabbitmq)


@pytest.fixture(scope="session")
def mqtt() -> Iterator[Mosquitto]:
    # It would keep a thousand for a session that is away, and drop the rest.
    yield from or_absent(partial(mosquitto, {"max_queued_messages": 0}))


def or_absent(start: Callable[..., object]) -> Iterator[object]:
    """HEADWATER_REQUIRE_SERVERS=1 (as in CI) makes what is missing a failure."""
    try:
        with start() as server:  # type: ignore[attr-defined]
            yield server
    except MissingServer as missing:
        if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing))
        pytest.skip(f"NOT TESTED: {missing}")
