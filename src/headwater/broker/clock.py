"""Time, handed in: the broker asks this and nothing else, so that tests can turn it by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the broker needs to know of time."""

    def now_ms(self) -> int:
        """Wall-clock time, for timestamps."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for time-outs."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
