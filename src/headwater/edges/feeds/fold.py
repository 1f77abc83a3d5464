"""The state that a keyed topic stands for: the latest record of each key. Pure.

Kept by a feed once somebody has asked for a snapshot, and up to date from then on, so that a thousand
clients that come share one. Bounded in bytes: a topic whose state is larger is refused, not half shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwater.browse.errors import Refused
from headwater.edges.feeds.wires import Item

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
        """Raises Refused where the topic has records without a key, or too many with one."""
        for item in items:
            key = item.record.key
            if key is None:
                raise Refused(
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
            raise Refused(
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
