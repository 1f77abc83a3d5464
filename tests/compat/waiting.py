"""Waiting for a condition, with a deadline that says what was waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 100.0
"""What is to happen happens within this time, on a loaded machine too; usually it takes moments."""
AT_ONCE_SECONDS = 40.0
"""Whoever is answered within this time did not wait for what would have come after `LONG_MS`."""
LONG_MS = 90_000


def until(
    question: Callable[[], T], what: str, timeout: float = PATIENCE_SECONDS, pause: float = 0.02
) -> T:
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + timeout
    while not (answer := question()):
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}; last answer {answer!r}"
        time.sleep(pause)
    return answer
