"""Ranges of offsets to tasks. Pure: the same ranges and numbers give the same tasks, anywhere, any time.

`pieces` decides, once, how many tasks a range gets; a stream keeps that in its position. `divide` applies
it. `limit` is Spark's rule for `maxOffsetsPerTrigger`: each partition gets its share of what waits;
`limit_bytes` is the same for bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

from headwater.spark.numbers import TopicPartition


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


def limit_bytes(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    most: int,
    record_bytes: Mapping[TopicPartition, float],
) -> dict[TopicPartition, int]:
    """Ends that together hold about `most` bytes more than `start`, where records have these sizes."""
    counts = {place: end[place] - start[place] for place in end if end[place] > start[place]}
    total = sum(count * record_bytes.get(place, 0.0) for place, count in counts.items())
    if total <= most:
        return dict(end)
    return limit(start, end, max(1, int(sum(counts.values()) * most / total)))
