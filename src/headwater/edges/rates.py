"""How many requests a second one sender may make: a bucket each, filled steadily; pure.

Called by `guard`. A bucket holds what is granted in `BURST_S` seconds, so that a sender who was quiet may
come with several at once.
"""

from __future__ import annotations

BURST_S = 2.0
SENDERS_MOST = 10_000


class Rates:
    """`per_second` 0: no limit. The senders that were heard of longest ago are forgotten first."""

    def __init__(self, per_second: float, senders_most: int = SENDERS_MOST) -> None:
        self._rate = per_second
        self._size = max(1.0, per_second * BURST_S)
        self._most = senders_most
        self._buckets: dict[str, tuple[float, float]] = {}
        """Sender → (what was left, when)."""

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, sender: str, now: float) -> float:
        """0: go on. Else the seconds after which a request would be granted; this one is not counted."""
        if self._rate <= 0:
            return 0.0
        left, since = self._buckets.pop(sender, (self._size, now))
        left = min(self._size, left + max(0.0, now - since) * self._rate)
        granted = left >= 1.0
        self._buckets[sender] = (left - 1.0 if granted else left, now)
        if len(self._buckets) > self._most:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if granted else (1.0 - left) / self._rate
