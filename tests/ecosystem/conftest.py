"""Both servers, each started once: whatever a program does must not depend on which of them it is."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from headwater.testing.apache_kafka import MissingServer
from tests.compat.cluster import TARGETS, Cluster, running
from tests.compat.missing import skip_or_fail

ON_BOTH = "test_streams"
"""The others run on Apache Kafka itself by `make soak`: what they must do is asserted of headwater always."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and callspec.params.get("cluster") == "kafka":
            if "tests/ecosystem" in str(item.path) and ON_BOTH not in item.nodeid:
                item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="session", params=TARGETS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    try:
        server = running(request.param)
        found = server.__enter__()
    except MissingServer as missing:
        skip_or_fail(f"Apache Kafka cannot run here: {missing}")
        raise AssertionError("unreachable") from missing
    yield found
    server.__exit__(None, None, None)


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    stem = request.node.originalname.removeprefix("test_").replace("_", "-")[:40]
    return lambda: f"{stem}-{uuid.uuid4().hex[:8]}"
