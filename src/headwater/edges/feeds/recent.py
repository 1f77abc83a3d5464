"""The last records of a topic in memory, within a bound of bytes: most clients that come back find theirs.

Written by the feed as records come. Pure. `covers` says whether all that is behind a place is still here.

`Fold` is the state that a keyed topic stands for: the latest record of each key. Kept by a feed once
somebody has asked for a snapshot, and up to date from then on, so that a thousand clients that come share
one. Bounded in bytes: a topic whose state is larger is refused, not half shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from headwater.client.errors import RequestRefused
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


Keep = Callable[[Item], bool]


class Fold:
    """Key → item, in the order of the latest records."""

    def __init__(self, topic: str, bytes_max: int) -> None:
        self._topic, self._bytes_max = topic, bytes_max
        self._items: dict[bytes, Item] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._items)

    def add(self, items: Iterable[Item]) -> None:
        """Raises RequestRefused where the topic has records without a key, or too many with one."""
        for item in items:
            key = item.record.key
            if key is None:
                raise RequestRefused(
                    f"{self._topic} has records without a key, so there is no latest one of each",
                    hint="ask without snapshot, from=beginning or from=end",
                )
            before = self._items.pop(key, None)
            if before is not None:
                self.size -= _held(before)
            if not item.record.is_tombstone:
                self._items[key] = item
                self.size += _held(item)
        if self.size > self._bytes_max:
            raise RequestRefused(
                f"the state of {self._topic} is larger than {self._bytes_max:,} bytes",
                hint="ask for from=beginning and keep the state yourself, or make a view of it",
            )

    def get(self, key: bytes | None) -> Item | None:
        return None if key is None else self._items.get(key)

    def items(self, keep: Keep | None = None) -> list[Item]:
        """As it is now; what comes later does not change the list."""
        found = self._items.values()
        return list(found) if keep is None else [item for item in found if keep(item)]


def _held(item: Item) -> int:
    record = item.record
    return item.size + len(record.key or b"") + len(record.value or b"") + 200
