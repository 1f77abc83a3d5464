"""What holds for every test: how hard property tests try, and what is only for `make soak`."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

SOAK = os.environ.get("HEADWATER_SOAK") == "1"

# No deadline: the machine is shared, and a slow example is not a wrong one. A failure prints what
# is needed to run it again.
settings.register_profile("quick", deadline=None, print_blob=True)
settings.register_profile(
    "soak",
    deadline=None,
    print_blob=True,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("soak" if SOAK else "quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SOAK:
        return
    skip = pytest.mark.skip(reason="a long run: make soak")
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(skip)
