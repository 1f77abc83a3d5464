"""The last minutes of a stream as one number: count, sum, average, least, most; pure.

Sixty buckets, whatever comes: memory does not grow with the rate, and a record leaves the window at most a
sixtieth of its length too late. Time is that of the records; what is older than the window is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

BUCKETS = 60


@dataclass(slots=True)
class _Bucket:
    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")


class Window:
    def __init__(self, length_s: float) -> None:
        self._length_ms = length_s * 1000
        self._bucket_ms = max(1.0, self._length_ms / BUCKETS)
        self._buckets: dict[int, _Bucket] = {}

    def add(self, at_ms: float, value: float, now_ms: float) -> None:
        if at_ms <= now_ms - self._length_ms:
            return
        number = int(min(at_ms, now_ms) // self._bucket_ms)  # clocks of senders may be ahead
        bucket = self._buckets.setdefault(number, _Bucket())
        bucket.count += 1
        bucket.total += value
        bucket.least, bucket.most = min(bucket.least, value), max(bucket.most, value)

    def value(self, fold: str, now_ms: float) -> float | None:
        """None where there is nothing to take an average, the least or the most of."""
        first = (now_ms - self._length_ms) // self._bucket_ms
        self._buckets = {at: each for at, each in self._buckets.items() if at > first}
        found = self._buckets.values()
        count = sum(each.count for each in found)
        if fold == "count":
            return count
        total = sum(each.total for each in found)
        if fold == "sum":
            return total
        if not count:
            return None
        if fold == "avg":
            return total / count
        return min(each.least for each in found) if fold == "min" else max(e.most for e in found)
