"""The log's intervals of megabytes, brought down to the size of a simulation."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def small_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"SAVE_INDEX_BYTES": 700, "SNAPSHOT_BYTES": 1500}
    for name, module in list(sys.modules.items()):
        if name.startswith("headwater.log."):
            for constant in small.keys() & vars(module).keys():
                monkeypatch.setattr(module, constant, small[constant])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A thousand rehearsed disasters need not be reported one by one."""
    logger = logging.getLogger("headwater")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
