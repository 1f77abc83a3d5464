"""The two servers that the Spark tests share, each started once and only if a test asks for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from headwater.testing.apache_kafka import MissingServer
from tests.compat.cluster import Cluster, running
from tests.compat.missing import skip_or_fail


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
    """Either server: what is read and written must not depend on it."""
    found: Cluster = request.getfixturevalue("log" if request.param == "headwater" else "kafka")
    return found


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    stem = request.node.originalname.removeprefix("test_").replace("_", "-")[:40]
    return lambda: f"{stem}-{uuid.uuid4().hex[:8]}"
