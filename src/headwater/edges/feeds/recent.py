"""The last records of a topic in memory, within a bound of bytes: most clients that come back find theirs.

Written by the feed as records come. Pure. `covers` says whether all that is behind a place is still here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from headwater.edges.feeds.wires import Item


class Recent:
    """In the order in which they came; a partition's own order is the log's."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._items: deque[Item] = deque()
        self._size = 0
        self._since: dict[int, int] = {}
        """Partition → everything from this offset on is here."""

    def begin(self, offsets: Mapping[int, int]) -> None:
        """What is read of these partitions from now on starts at these offsets."""
        self._since.update(offsets)

    def add(self, items: Sequence[Item]) -> None:
        self._items.extend(items)
        self._size += sum(item.size for item in items)
        while self._size > self._bytes_max and self._items:
            oldest = self._items.popleft()
            self._size -= oldest.size
            self._since[oldest.record.partition] = oldest.record.offset + 1

    def covers(self, offsets: Mapping[int, int]) -> bool:
        """A partition that nobody has begun with is not covered."""
        return all(
            partition in self._since and offset >= self._since[partition]
            for partition, offset in offsets.items()
        )

    def behind(self, offsets: Mapping[int, int]) -> list[Item]:
        """What comes after these places, in order; only where they are covered."""
        found: list[Item] = []
        for item in reversed(self._items):
            if item.record.offset < offsets.get(item.record.partition, 0):
                if len(offsets) == 1:
                    break  # of one partition everything before is older still
                continue
            found.append(item)
        found.reverse()
        return found
