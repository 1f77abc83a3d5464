"""Rates over sliding windows, and a bucket of tokens: pure, with the time handed in.

A `Rate` is the sum of the last `count` windows over the time that they span, as Kafka's: while there are
fewer windows, they count as if they were full, so that a client may burst at first. For a limit of 10
per second and 11 windows of one second:

    time     0 s      1 s      2 s    …    10 s     11 s
    taken    100      0        0           0        0
    rate     100/10   100/10   100/10      100/10   0       (the first window has gone)

So 100 at once are just allowed, and the next unit waits until the rate has come down to the limit.
"""

from __future__ import annotations

from collections import deque


class Rate:
    """Something per second. Times are seconds of one clock that never goes back."""

    __slots__ = ("_count", "_samples", "_seconds")

    def __init__(self, count: int, seconds: float) -> None:
        self._count = count
        self._seconds = seconds
        self._samples: deque[list[float]] = deque()  # [begin, sum], at most `count` + 1 of them

    def record(self, value: float, now: float) -> None:
        """Take `value`; a negative one gives back."""
        if not self._samples or now - self._samples[-1][0] >= self._seconds:
            self._forget(now)
            self._samples.append([now, 0.0])
        self._samples[-1][1] += value

    def value(self, now: float) -> float:
        span = self.span(now)
        return sum(total for _, total in self._samples) / span

    def span(self, now: float) -> float:
        """The seconds that the windows stand for; never less than all but one of them."""
        self._forget(now)
        elapsed = now - self._samples[0][0] if self._samples else 0.0
        full = int(elapsed / self._seconds)
        missing = max(self._count - 1 - full, 0)
        return max(elapsed + missing * self._seconds, 0.001)

    def excess_seconds(self, limit: float, now: float) -> float:
        """How long to wait until the rate is at the limit again; 0 where it is not above."""
        value = self.value(now)
        if value <= limit:
            return 0.0
        if limit <= 0:
            return float("inf")
        return (value - limit) / limit * self.span(now)

    def idle(self, now: float) -> bool:
        self._forget(now)
        return not self._samples

    def _forget(self, now: float) -> None:
        oldest = now - self._count * self._seconds
        while self._samples and self._samples[0][0] <= oldest:
            self._samples.popleft()


class TokenBucket:
    """Fills by `limit` per second up to what `seconds` bring, and may be overdrawn once (KIP-599)."""

    __slots__ = ("_limit", "_seconds", "_tokens", "_when")

    def __init__(self, limit: float, seconds: float, now: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._tokens = limit * seconds
        self._when = now

    def set_limit(self, limit: float, now: float) -> None:
        if limit != self._limit:
            self._refill(now)
            self._limit = limit
            self._tokens = min(self._tokens, limit * self._seconds)

    def take(self, count: float, now: float) -> None:
        self._refill(now)
        self._tokens -= count

    def excess_seconds(self, now: float) -> float:
        """How long until there are tokens again."""
        self._refill(now)
        if self._tokens >= 0:
            return 0.0
        return -self._tokens / self._limit if self._limit > 0 else float("inf")

    def idle(self, now: float) -> bool:
        self._refill(now)
        return self._tokens >= self._limit * self._seconds

    def _refill(self, now: float) -> None:
        full = self._limit * self._seconds
        self._tokens = min(self._tokens + (now - self._when) * self._limit, full)
        self._when = now
