"""One broker and one Spark session for all tests of this folder; names and folders for each."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater.testing
from headwater.pipelines.declarations import DECLARED, REAL_TIME
from headwater.pipelines.loader import Source
from headwater.pipelines.maven import Connector, connector_for
from headwater.pipelines.session import session
from tests.spark.quick import QUICK_ENVIRONMENT, end_java
from tests.spark.run.desk import Desk


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    settings = {
        "num.partitions": 2,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    }
    with headwater.testing.broker(settings=settings) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def connector() -> Connector:
    return connector_for([Source(Path(), Path(), REAL_TIME)], None)


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory, connector: Connector) -> Iterator[SparkSession]:
    end_java()  # jars are for a Java to come
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with pytest.MonkeyPatch.context() as environment:
        for name, value in QUICK_ENVIRONMENT.items():
            environment.setenv(name, value)
        found = session("local[2]", jars=connector.jars, log_file=log)
    yield found
    found.stop()


@pytest.fixture
def desk(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Iterator[Desk]:
    found = Desk(spark, bootstrap, tmp_path)
    yield found
    found.stop()
    DECLARED.clear()


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    stem = request.node.originalname.removeprefix("test_").replace("_", "-")[:30]
    return lambda: f"{stem}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(desk: Desk, new_name: Callable[[], str]) -> str:
    """A topic of two partitions."""
    name = new_name()
    desk.log.ensure_topic(name, {}, partitions=2)
    return name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark on a loaded machine takes its time; a test that waits says for what."""
    for item in items:
        if item.get_closest_marker("timeout") is None and "spark/run" in str(item.path):
            item.add_marker(pytest.mark.timeout(900))
