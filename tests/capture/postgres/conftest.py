"""One PostgreSQL and one broker for all tests of this folder; a database and topics for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from headwater import testing
from headwater.broker.broker import Broker
from tests.capture.postgres.running import Setting
from tests.capture.postgres.server import PostgresServer, postgres

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres() as running:
        yield running


@pytest.fixture(scope="session")
def log() -> Iterator[Broker]:
    with testing.broker(settings={"num.partitions": "3"}) as running:
        yield running


@pytest.fixture
def setting(server: PostgresServer, log: Broker) -> Iterator[Setting]:
    """A database of its own and a capture's settings for it."""
    name = f"shop{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    made = Setting(server, log.bootstrap, name)
    yield made
    made.remove()
