"""What holds for every test: how hard property tests try, and what is only for `make soak`.

`make test` always tries the same examples: what landed yesterday passes today, and whoever broke
something knows that it was they. `make soak` tries many more, others each time; the seed is in the
first lines of its output, and `--hypothesis-seed=` (with HEADWATER_SOAK=1) tries those again.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import spreading

# Keys of personal data would else make a master key in the folder of whoever runs the tests.
os.environ["HEADWATER_MASTER_KEY"] = "5e" * 32

SOAK = os.environ.get("HEADWATER_SOAK") == "1"

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: spreading.rank(item.nodeid))
    if SOAK:
        return
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


def _undeclare() -> None:
    module = sys.modules.get("headwater.pipelines.declarations")
    if module is not None:
        module.DECLARED.clear()
