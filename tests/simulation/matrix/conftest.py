"""A process that is killed leaves work behind that it had not begun: no warning, whenever it is found."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def what_was_killed_is_gone() -> Iterator[None]:
    """Before the next module's tests, or the end of all: these do not look over it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        gc.collect()
