"""How much one sender may use: requests, bytes, both at once; pure. Called by `guard`.

A bucket each, filled steadily. It holds what is granted in `BURST_S` seconds, so that a sender who was quiet
may come with several at once.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

BURST_S = 2.0
SENDERS_MOST = 10_000
AT_ONCE_WAIT_S = 1.0


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

    def wait_s(self, sender: str, now: float, cost: float = 1.0) -> float:
        """0: go on. Else the seconds after which it would be granted; this one is not counted."""
        if self._rate <= 0:
            return 0.0
        left = self._left(sender, now)
        granted = left >= cost
        self._keep(sender, left - cost if granted else left, now)
        return 0.0 if granted else (cost - left) / self._rate

    def used(self, sender: str, cost: float, now: float) -> None:
        """What was not asked for before, as nobody knew it; it may be more than was left."""
        if self._rate > 0 and cost:
            self._keep(sender, self._left(sender, now) - cost, now)

    def _left(self, sender: str, now: float) -> float:
        left, since = self._buckets.pop(sender, (self._size, now))
        return min(self._size, left + max(0.0, now - since) * self._rate)

    def _keep(self, sender: str, left: float, now: float) -> None:
        self._buckets[sender] = (left, now)
        if len(self._buckets) > self._most:
            del self._buckets[next(iter(self._buckets))]


class TooMuch(NamedTuple):
    sentence: str
    wait_s: float


class SenderLimits(Protocol):
    """Of [edges.limits]; 0: no limit."""

    @property
    def requests_per_second(self) -> float: ...
    @property
    def bytes_per_second(self) -> float: ...
    @property
    def requests_at_once(self) -> int: ...


class Allowance:
    """What each sender may use, and how much of it is in use."""

    def __init__(self, limits: SenderLimits) -> None:
        self._requests = Rates(limits.requests_per_second)
        self._bytes = Rates(limits.bytes_per_second)
        self._at_once_max = limits.requests_at_once
        self._at_once: Counter[str] = Counter()

    def begin(self, sender: str, now: float) -> TooMuch | None:
        """A request. None: it may go on, and `end` must follow."""
        if self._at_once_max and self._at_once[sender] >= self._at_once_max:
            return TooMuch("too many requests of one sender at once", AT_ONCE_WAIT_S)
        if wait_s := self._bytes.wait_s(sender, now, 0.0):
            return TooMuch("too many bytes from and to one sender", wait_s)
        if wait_s := self._requests.wait_s(sender, now):
            return TooMuch("too many requests from one sender", wait_s)
        self._at_once[sender] += 1
        return None

    def used(self, sender: str, size: int, now: float) -> None:
        """Bytes of a body or an answer, of a request that has begun."""
        self._bytes.used(sender, size, now)

    def end(self, sender: str) -> None:
        self._at_once[sender] -= 1
        if not self._at_once[sender]:
            del self._at_once[sender]
