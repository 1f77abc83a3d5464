"""Fixtures of the compatibility suite: every test runs once per server, in `make test` on Apache Kafka
only the first of each file (tests/reference.py).

`-k headwater` or `-k kafka` picks one of the two; HEADWATER_COMPAT_BOOTSTRAP=host:port runs the
suite against that address instead. Where Java or Maven is missing the Kafka half is skipped, with
the command that installs it in the summary; HEADWATER_REQUIRE_SERVERS=1 makes that a failure.
"""

from __future__ import annotations

import gc
import os
import uuid
import warnings
from collections.abc import Callable, Iterator

import pytest

from headwater.testing.apache_kafka import MissingServer

from .cluster import TARGETS, Cluster, running
from .missing import CANNOT, skip_or_fail
from .wire import Wire


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "known_difference(target, reason): fails on that server only; listed in LEDGER.md",
    )
    # kafka-python reads its schemas in a way that Python 3.11 deprecates; not ours to mend.
    config.addinivalue_line("filterwarnings", "ignore:read_text is deprecated:DeprecationWarning")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" in metafunc.fixturenames:
        address = os.environ.get("HEADWATER_COMPAT_BOOTSTRAP")
        targets = [address] if address else list(TARGETS)
        metafunc.parametrize("cluster", targets, indirect=True, scope="session")


COMPARED_BY_TOOLS = "test_java_tools"
"""One of its tools is run against Apache Kafka always; those of other files, each a JVM or three, by
`make soak` alone. What they must say is asserted of headwater all the same."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and callspec.params.get("cluster") == "kafka":
            uses_tool = "tests/compat" in str(item.path) and "tool" in item.fixturenames
            if uses_tool and COMPARED_BY_TOOLS not in item.nodeid:
                item.add_marker(pytest.mark.soak)
        for mark in item.iter_markers("known_difference"):
            if callspec is not None and callspec.params.get("cluster") == mark.kwargs["target"]:
                item.add_marker(pytest.mark.xfail(strict=True, reason=mark.kwargs["reason"]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", ())]
    reasons = {found[2] for found in skipped if isinstance(found, tuple)}
    lacking = {reason for reason in reasons if CANNOT in reason}
    if lacking:
        terminalreporter.section("NOT EVERYTHING WAS COMPARED", red=True, bold=True)
    for reason in sorted(lacking):
        terminalreporter.line(reason.removeprefix("Skipped: "))


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():  # fetching jars takes a while: let it be seen
            server = running(request.param)
            found = server.__enter__()
    except MissingServer as missing:
        skip_or_fail(f"Apache Kafka cannot run here: {missing}")
        raise AssertionError("unreachable") from missing
    yield found
    server.__exit__(None, None, None)


@pytest.fixture(autouse=True)
def tidy(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").tidy()


@pytest.fixture(autouse=True)
def leaked_sockets(request: pytest.FixtureRequest) -> Iterator[None]:
    """kafka-python leaves sockets to the garbage collector: collect them here, where its
    ResourceWarning is expected, and not in some later test where it would be an error."""
    yield
    if "kafka_python" in request.node.nodeid:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names that no other test uses, and that say in a log which test it was."""
    stem = request.node.originalname.removeprefix("test_").replace("_", "-")[:60]
    return lambda: f"{stem}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(new_name: Callable[[], str]) -> str:
    """A name for a topic; the test creates it as it likes."""
    return new_name()


@pytest.fixture
def group(new_name: Callable[[], str]) -> str:
    return new_name()


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with cluster.wire() as connection:
        yield connection


@pytest.fixture
def new_uuid() -> uuid.UUID:
    return uuid.uuid4()
