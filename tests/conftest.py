"""What holds for every test: how hard property tests try, and what is only for `make soak`.

`make test` always tries the same examples: what landed yesterday passes today, and whoever broke
something knows that it was they. `make soak` tries many more, others each time; the seed is in the
first lines of its output, and `--hypothesis-seed=` (with HEADWATER_SOAK=1) tries those again.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import selectors
import socket
import sys
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import breadth, reference, spreading

# Keys of personal data would else make a master key in the folder of whoever runs the tests.
os.environ["HEADWATER_MASTER_KEY"] = "5e" * 32

# Until all tests are collected there is no garbage to speak of; looking for it takes a quarter of the time.
gc.disable()

SOAK = os.environ.get("HEADWATER_SOAK") == "1"


class PollAsSelect:
    """`select` as py4j waits for Java's callbacks by it, without a limit to the number of a file: a worker
    that has run other tests before may have more than 1,024 open, and a query then waited for ever."""

    @staticmethod
    def select(
        reading: list[socket.socket], _writing: object, _wrong: object, timeout_s: float | None
    ) -> tuple[list[object], list[object], list[object]]:
        with selectors.PollSelector() as poll:
            for each in reading:
                poll.register(each, selectors.EVENT_READ)
            return [key.fileobj for key, _ in poll.select(timeout_s)], [], []


with contextlib.suppress(ModuleNotFoundError):  # only Spark's parts need it
    from py4j import java_gateway

    java_gateway.select = PollAsSelect

# No deadline, no complaint about slowness: the machine is shared, and a slow example is not a wrong
# one. No database: what a run tries depends on no earlier one. A failure prints what is needed to
# run it again.
settings.register_profile(
    "quick",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak",
    derandomize=False,
    database=None,
    deadline=None,
    print_blob=True,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("soak" if SOAK else "quick")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Before Hypothesis reads it; with several workers they all get this one.
    if SOAK and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(64))


def pytest_report_header(config: pytest.Config) -> str | None:
    return f"soak: --hypothesis-seed={config.option.hypothesis_seed}" if SOAK else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return spreading.scheduler(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """All modules are there to stay: without them, the look at the end of each file for what it left open
    takes a moment instead of a third of a second."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    breadth.mark(items)
    items.sort(key=lambda item: spreading.rank(item.nodeid))
    if SOAK:
        return
    reference.leave_to_soak(items)
    skip = pytest.mark.skip(reason="a long run: make soak")
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def no_test_sees_the_views_of_another() -> Iterator[None]:
    """A pipeline file declares views for the whole process, whether a test loads it or imports it at its
    head: each test begins and ends with none."""
    _undeclare()
    yield
    _undeclare()


@pytest.fixture(autouse=True, scope="module")
def what_a_file_leaves_open_is_its_own_failure() -> Iterator[None]:
    """A socket that nobody closed warns when it is collected, which would else be in some later test."""
    yield
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always")
        gc.collect()
    if left:
        pytest.fail("left open: " + "; ".join(sorted({str(each.message) for each in left})))


def _undeclare() -> None:
    module = sys.modules.get("headwater.pipelines.declarations")
    if module is not None:
        module.DECLARED.clear()
