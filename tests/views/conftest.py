"""One broker, one PostgreSQL and one Spark session for each folder below; a desk for each test."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headwater.testing
from tests.capture.postgres.server import PostgresServer
from tests.capture.postgres.server import postgres as running_postgres
from tests.spark.quick import QUICK_ENVIRONMENT

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with headwater.testing.broker(settings={"num.partitions": 2}) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from headwater.pipelines.session import session

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with pytest.MonkeyPatch.context() as environment:
        for name, value in QUICK_ENVIRONMENT.items():
            environment.setenv(name, value)
        found = session("local[2]", log_file=log)
    yield found
    found.stop()


@pytest.fixture
def desk(spark: object, bootstrap: str, tmp_path: Path) -> Iterator[object]:
    from headwater.pipelines.declarations import DECLARED
    from tests.spark.run.desk import Desk

    found = Desk(spark, bootstrap, tmp_path)  # type: ignore[arg-type]
    yield found
    found.stop()
    DECLARED.clear()


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    stem = request.node.originalname.removeprefix("test_").replace("_", "-")[:30]
    return lambda: f"{stem}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with running_postgres({"wal_level": "replica"}) as running:
        yield running


@pytest.fixture
def database(server: PostgresServer) -> str:
    """The URL of a database of its own."""
    name = f"views{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    return server.url(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark on a loaded machine takes its time; a test that waits says for what."""
    for item in items:
        if item.get_closest_marker("timeout") is None and "tests/views" in str(item.path):
            item.add_marker(pytest.mark.timeout(900))
