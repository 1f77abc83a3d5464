"""Ranges of offsets to tasks. Pure: the same ranges and numbers give the same tasks, anywhere, any time.

`pieces` decides, once, how many tasks a range gets; a stream keeps that in its position. `divide` applies
it. `limit` is Spark's rule for `maxOffsetsPerTrigger`: each partition gets its share of what waits;
`Limits` does the same for bytes.

Shares by count let a partition with few records run days ahead of one with many; a watermark follows the
newest record, and the rest would be late. `Advance` searches for one moment instead, as late as the limits
allow, and each partition goes to its first record that is not before it: what is read of the past comes in
the order in which it came when it was new. The times are the records' own, known by leaders (ListOffsets).

    partition 0   ─────────────────┐          ends[0]
    partition 1   ────┐            ┊
                      └╴╴╴╴╴╴╴╴╴╴╴╴┤          nothing there until later: it holds up nobody
    partition 2   ─────────────────┤
                               the moment

Of one millisecond with more records than a batch may have, each partition gets its share by count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headwater.client.constants import TopicPartition

Offsets = Mapping[TopicPartition, int]


class Range(NamedTuple):
    """Offsets [start, end) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def records(self) -> int:
        """At most: compaction and transactions leave fewer."""
        return max(self.end - self.start, 0)


def pieces(
    ranges: list[Range], min_partitions: int | None, records_per_task: int
) -> dict[TopicPartition, int]:
    """How many tasks each range gets, where that is not one."""
    counts = {r[:2]: math.ceil(r.records / records_per_task) for r in ranges}
    if min_partitions is not None and sum(counts.values()) < min_partitions:
        # Spark's rule: in proportion to the size, and none is smaller than before.
        total = sum(r.records for r in ranges)
        for r in ranges:
            share = round(min_partitions * r.records / total)
            counts[r[:2]] = min(max(share, counts[r[:2]], 1), r.records)
    return {place: count for place, count in counts.items() if count > 1}


def divide(ranges: list[Range], counts: Mapping[TopicPartition, int]) -> list[Range]:
    """The tasks, in the order of topics, partitions and offsets; empty ranges have none."""
    found: list[Range] = []
    for each in sorted(ranges):
        count = min(counts.get(each[:2], 1), each.records)
        edges = [each.start + each.records * n // max(count, 1) for n in range(count + 1)]
        found += [each._replace(start=start, end=end) for start, end in itertools.pairwise(edges)]
    return found


def limit(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, int]:
    """Ends that together hold about `most` records more than `start`, shared out by size."""
    sizes = {place: end[place] - start[place] for place in end if end[place] > start[place]}
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    found = dict(end)
    for place, size in sizes.items():
        share = most * size / total
        # At least one, so that no partition starves.
        rows = math.ceil(share) if share < 1 else math.floor(share)
        found[place] = min(start[place] + rows, end[place])
    return found


@dataclass(frozen=True)
class Limits:
    """Of one batch, in records and in bytes; None: as many as there are."""

    records: int | None
    bytes: int | None
    record_bytes: Mapping[TopicPartition, float]
    """The average size of a partition's records."""

    def load(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> float:
        """How full a batch is; above 1 it is too large."""
        counts = {place: max(end[place] - start[place], 0) for place in end}
        count, size = sum(counts.values()), self._bytes(counts)
        return max(count / (self.records or math.inf), size / (self.bytes or math.inf))

    def shared(
        self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Ends within the limits, or about, each partition with its share of what waits."""
        found = dict(end) if self.records is None else limit(start, end, self.records)
        counts = {place: found[place] - start[place] for place in found}
        size = self._bytes({place: max(count, 0) for place, count in counts.items()})
        if self.bytes is None or size <= self.bytes:
            return found
        count = sum(count for count in counts.values() if count > 0)
        return limit(start, found, max(1, int(count * self.bytes / size)))

    def _bytes(self, counts: Mapping[TopicPartition, int]) -> float:
        return sum(count * self.record_bytes.get(place, 0.0) for place, count in counts.items())


# ---- by time -----------------------------------------------------------------------------------------

NEVER_MS = 1 << 62
"""After every record."""
ENOUGH = 0.5
"""A batch of half of what it may have is not worth further questions."""


@dataclass(frozen=True)
class Way:
    """From where to where a batch may go, and what is known of it."""

    start: Offsets
    end: Offsets
    load: Callable[[Offsets], float]
    """How full a batch is that ends there; above 1 it is too large."""
    at: Callable[[int], Offsets]
    """The first offset of each partition that is not before a moment; -1 where none is."""

    def until(self, moment_ms: int) -> dict[TopicPartition, int]:
        found = self.at(moment_ms)
        return {
            place: end if found[place] < 0 else min(max(found[place], self.start[place]), end)
            for place, end in self.end.items()
        }


class Advance:
    """Of one stream, batch after batch; the last one's moment is where the next search begins."""

    def __init__(self) -> None:
        self._moment_ms, self._span_ms = 0, 0

    def ends(
        self, way: Way, now_ms: int, by_count: Callable[[Offsets], Mapping[TopicPartition, int]]
    ) -> Mapping[TopicPartition, int]:
        """Where a batch ends for which `way` as a whole is too long."""
        low, reached = -1, way.start
        high, beyond = NEVER_MS, way.end
        guess, span = self._moment_ms or now_ms, self._span_ms or 1
        while high - low > 1 and way.load(reached) < ENOUGH:
            found = way.until(guess)
            if way.load(found) > 1:
                high, beyond = guess, found
            else:
                low, reached = guess, found
            # In steps that double, from where the last batch was; then by halves.
            guess = min(low + span, high - 1) if high == NEVER_MS else (low + high) // 2
            span *= 2
        if low > self._moment_ms > 0:
            self._span_ms = low - self._moment_ms
        self._moment_ms = max(low, 0)
        return reached if way.load(reached) > 0 else by_count(beyond)
