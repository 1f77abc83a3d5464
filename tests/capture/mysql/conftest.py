"""One MariaDB and one broker for all tests of this folder; a database and topics for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from headwater import testing
from headwater.broker.broker import Broker
from tests.capture.mysql.captured import Setting
from tests.capture.mysql.server import MariaDB, remove_template, require_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def installed() -> Iterator[None]:
    require_server()
    yield
    remove_template()


@pytest.fixture(scope="session")
def server(installed: None) -> Iterator[MariaDB]:
    running = MariaDB()
    yield running
    running.close()


@pytest.fixture
def own_server(installed: None) -> Iterator[MariaDB]:
    """A server that the test may kill, reset or set up as it likes."""
    running = MariaDB()
    yield running
    running.close()


@pytest.fixture(scope="session")
def log() -> Iterator[Broker]:
    with testing.broker(settings={"num.partitions": "3"}) as running:
        yield running


@pytest.fixture
def setting(server: MariaDB) -> Iterator[Setting]:
    """A database of its own."""
    made = Setting(server, f"shop{next(_numbers)}")
    yield made
    made.close()


@pytest.fixture
def own_setting(own_server: MariaDB) -> Iterator[Setting]:
    made = Setting(own_server, f"shop{next(_numbers)}")
    yield made
    made.close()
