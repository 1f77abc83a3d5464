"""One MariaDB for the tests of this folder, with a database for each; another for the rough ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

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


@pytest.fixture(scope="module")
def rough_server(installed: None) -> Iterator[MariaDB]:
    running = MariaDB()
    yield running
    running.close()


@pytest.fixture
def own_server(rough_server: MariaDB) -> Iterator[MariaDB]:
    """A server that the test may kill, reset or set up as it likes; for the next one it is as new."""
    yield rough_server
    if rough_server.options or rough_server.process is None:
        rough_server.stop()
        rough_server.options = []
        rough_server.start()
    rough_server.execute(
        "SET GLOBAL binlog_format = ROW, GLOBAL binlog_row_image = FULL",
        "SET GLOBAL binlog_row_metadata = FULL, GLOBAL binlog_expire_logs_seconds = 0",
    )


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
