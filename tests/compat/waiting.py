"""Waiting for a condition, with a deadline that says what was waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(question: Callable[[], T], what: str, timeout: float = 15.0, pause: float = 0.02) -> T:
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + timeout
    while not (answer := question()):
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}; last answer {answer!r}"
        time.sleep(pause)
    return answer
