"""The view of committed offsets: group → topic → partition → the newest durable commit.

`offset_store` writes to it after the journal has reported a record durable, `restore` while the log is
replayed; OffsetFetch reads. Nothing here does I/O.

Transactions (TxnOffsetCommit) lay their pending offsets over this view, per producer id, until their
marker comes (`pending_offsets`); `is_unstable` is what OffsetFetch with `require_stable` asks. A
partition with a pending offset must not expire.

Of the records of a key that count, the one that stands last in the log must tell the offset. A plain
commit or a tombstone counts when it is durable, a transaction's offset when its commit marker is; these
become known in any order, so each has its `order`, which grows as they are appended. What counts ends
the pending ones that stand before it, and nothing else does but their own marker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from headwater.broker.groups.group import Group
from headwater.broker.groups.records import OffsetValue

Key = tuple[str, int]
"""Topic and partition."""
Ordered = tuple[int, OffsetValue]
"""Order and value."""


class GroupOffsets:
    """What one group has committed, and which of its partitions have a commit on the way."""

    __slots__ = ("_orders", "pending", "topics", "writing")

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, OffsetValue]] = {}
        self.writing: Counter[Key] = Counter()
        self.pending: dict[int, dict[Key, list[Ordered]]] = {}
        """Producer id → offsets of its open transaction, the last one of a key last."""
        self._orders: dict[Key, int] = {}

    def get(self, topic: str, partition: int) -> OffsetValue | None:
        return self.topics.get(topic, {}).get(partition)

    def count(self, key: Key, value: OffsetValue | None, order: int = 0) -> None:
        """A record that counts, be it a tombstone (None); not if one that stands behind it does."""
        if order < self._orders.get(key, 0):
            return
        self._end_pending(key, order)
        self._forget(key)
        if value is not None:
            self.topics.setdefault(key[0], {})[key[1]] = value
            self._orders[key] = order

    def drop_topic(self, topic: str) -> list[Key]:
        """It is gone, and with it whatever there is, committed or pending: which of that may the log hold?"""
        keys = [key for key in self.all_keys() if key[0] == topic]
        for values in self.pending.values():
            for key in [key for key in values if key[0] == topic]:
                del values[key]
        for key in keys:
            self._orders.pop(key, None)
        self.topics.pop(topic, None)
        return keys

    def _forget(self, key: Key) -> None:
        self._orders.pop(key, None)
        partitions = self.topics.get(key[0], {})
        partitions.pop(key[1], None)
        if not partitions:
            self.topics.pop(key[0], None)

    def begin(self, keys: list[Key]) -> None:
        self.writing.update(keys)

    def end(self, keys: list[Key]) -> None:
        for key in keys:
            self.writing[key] -= 1
            if not self.writing[key]:
                del self.writing[key]

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Has a transaction an offset for this partition that is neither committed nor aborted?"""
        return any((topic, partition) in offsets for offsets in self.pending.values())

    def holds(self, key: Key) -> bool:
        """Is there anything, committed or on the way there?"""
        return self.get(*key) is not None or key in self.writing or self.is_unstable(*key)

    # ---- pending -------------------------------------------------------------------------------

    def lay_over(self, producer_id: int, key: Key, value: OffsetValue, order: int) -> None:
        values = self.pending.setdefault(producer_id, {})
        values.setdefault(key, []).append((order, value))

    def supersede(self, producer_id: int, key: Key, order: int) -> None:
        """It is durable: whatever becomes of the later ones, none before it will be asked for."""
        values = self.pending.get(producer_id, {})
        if key in values:
            values[key] = [each for each in values[key] if each[0] >= order]

    def take_back(self, producer_id: int, key: Key, order: int) -> None:
        """The disk has refused it; what the transaction had sent before stands."""
        values = self.pending.get(producer_id, {})
        left = [each for each in values.pop(key, []) if each[0] != order]
        if left:
            values[key] = left

    def _end_pending(self, key: Key, order: int) -> None:
        for values in self.pending.values():
            left = [each for each in values.pop(key, []) if each[0] > order]
            if left:
                values[key] = left

    def all_keys(self) -> Iterator[Key]:
        """All that the log may hold of this group: committed, or on the way there."""
        for topic, partitions in self.topics.items():
            for partition in partitions:
                yield topic, partition
        yield from (key for key in self.on_the_way() if self.get(*key) is None)

    def on_the_way(self) -> set[Key]:
        return set(self.writing).union(*self.pending.values())

    def __bool__(self) -> bool:
        return bool(self.topics) or bool(self.writing) or bool(self.pending)


class OffsetView:
    def __init__(self) -> None:
        self._groups: dict[str, GroupOffsets] = {}

    def of(self, group_id: str) -> GroupOffsets:
        """The group's offsets; an object of its own for a group that has none."""
        return self._groups.get(group_id) or GroupOffsets()

    def open(self, group_id: str) -> GroupOffsets:
        """The group's offsets, kept from now on."""
        return self._groups.setdefault(group_id, GroupOffsets())

    def close(self, group_id: str) -> None:
        """Let go of a group that has no offsets left."""
        if not self.of(group_id):
            self._groups.pop(group_id, None)

    def drop(self, group_id: str) -> None:
        self._groups.pop(group_id, None)

    def groups_with(self, topic: str) -> list[str]:
        """Those that have offsets of a topic, and those that may have some on the way. All groups are looked
        at in one turn, and there are very many."""
        return [
            group_id
            for group_id, offsets in self._groups.items()
            if topic in offsets.topics or offsets.writing or offsets.pending
        ]

    def drop_topic(self, group_id: str, topic: str) -> list[Key]:
        """Of one group."""
        keys = self.of(group_id).drop_topic(topic)
        self.close(group_id)
        return keys


def expired(
    group: Group, offsets: GroupOffsets, keys: Iterable[Key], now_ms: int, retention_ms: int
) -> list[Key]:
    """Which of these have outlived their use (KIP-211)."""
    return [
        (topic, partition)
        for topic, partition in keys
        if (value := offsets.get(topic, partition)) is not None
        and (group.is_empty or not group.subscribes(topic))
        and (topic, partition) not in offsets.writing
        and not offsets.is_unstable(topic, partition)
        and _is_expired(group, value, now_ms, retention_ms)
    ]


def _is_expired(group: Group, value: OffsetValue, now_ms: int, retention_ms: int) -> bool:
    since = group.offsets_idle_since(value.commit_timestamp)
    if since is None:
        return False
    if value.expire_timestamp >= 0:  # OffsetCommit 2 to 4 brought a retention of its own
        return now_ms >= value.expire_timestamp
    return now_ms - since >= retention_ms
