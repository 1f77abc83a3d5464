"""One broker process and one Spark session for all tests of the sink; a topic for each test."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.testing.apache_kafka import MissingServer
from tests.compat.cluster import Cluster, running
from tests.compat.missing import skip_or_fail
from tests.spark.sink.sessions import session


@pytest.fixture(scope="session")
def log() -> Iterator[Cluster]:
    with running("headwater") as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[Cluster]:
    try:
        server = running("kafka")
        found = server.__enter__()
    except MissingServer as missing:
        skip_or_fail(f"Apache Kafka cannot run here: {missing}")
        raise AssertionError("unreachable") from missing
    yield found
    server.__exit__(None, None, None)


@pytest.fixture(params=["headwater", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Either server, one after the other."""
    found: Cluster = request.getfixturevalue("log" if request.param == "headwater" else "kafka")
    return found


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = session()
    yield found
    found.stop()


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    stem = request.node.originalname.removeprefix("test_").replace("_", "-")[:40]
    return lambda: f"{stem}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
