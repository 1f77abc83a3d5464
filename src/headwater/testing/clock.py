"""A clock that stands still until a test moves it.

Takes the place of `headwater.broker.clock.SystemClock` and of any `now_ms` function of the log:

    clock = ManualClock()
    log.stage(data, header, clock.now_ms())
    clock.advance(7 * 24 * 60 * 60 * 1000)   # a week later, at once
"""

from __future__ import annotations

EPOCH_MS = 1_700_000_000_000
"""Where it starts unless told otherwise: in November 2023, so that timestamps look like real ones."""


class ManualClock:
    """Wall-clock milliseconds and monotonic seconds that move together, only by `advance`; `set` is what
    somebody does to a machine whose clock was wrong."""

    def __init__(self, now_ms: int = EPOCH_MS) -> None:
        self._started_ms = now_ms
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Wall-clock time, for timestamps."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds since this clock was made, for time-outs."""
        return (self._now_ms - self._started_ms) / 1000

    def advance(self, ms: int) -> int:
        """Let `ms` milliseconds pass; returns the new wall-clock time."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        self._now_ms += ms
        return self._now_ms

    def set(self, now_ms: int) -> None:
        """Set the wall clock, forward or back; no time passes."""
        self._started_ms += now_ms - self._now_ms
        self._now_ms = now_ms
