"""The view of committed offsets: group → topic → partition → the newest durable commit.

`committed` writes to it after the journal has reported a record durable, `restore` while the log is
replayed; OffsetFetch reads. Nothing here does I/O.

Transactions (TxnOffsetCommit) lay their pending offsets over this view, per producer id, until their
marker comes (`pending`); `is_unstable` is what OffsetFetch with `require_stable` asks. A partition with
a pending offset must not expire. A later record of the same key replaces a pending one for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headwater.broker.groups.group import Group
from headwater.broker.groups.records import OffsetValue

Key = tuple[str, int]
"""Topic and partition."""


class GroupOffsets:
    """What one group has committed, and which of its partitions have a commit on the way."""

    __slots__ = ("pending", "topics", "writing")

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, OffsetValue]] = {}
        self.writing: Counter[Key] = Counter()
        self.pending: dict[int, dict[Key, OffsetValue]] = {}
        """Producer id → offsets of its open transaction."""

    def get(self, topic: str, partition: int) -> OffsetValue | None:
        return self.topics.get(topic, {}).get(partition)

    def set(self, topic: str, partition: int, value: OffsetValue | None) -> None:
        if value is not None:
            self.topics.setdefault(topic, {})[partition] = value
            return
        self.replace_pending([(topic, partition)])
        partitions = self.topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            self.topics.pop(topic, None)

    def begin(self, keys: list[Key]) -> None:
        self.writing.update(keys)
        self.replace_pending(keys)

    def end(self, keys: list[Key]) -> None:
        for key in keys:
            self.writing[key] -= 1
            if not self.writing[key]:
                del self.writing[key]

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Has a transaction an offset for this partition that is neither committed nor aborted?"""
        return any((topic, partition) in offsets for offsets in self.pending.values())

    def replace_pending(self, keys: list[Key]) -> None:
        if self.pending:
            for offsets in self.pending.values():
                for key in keys:
                    offsets.pop(key, None)

    def all_keys(self) -> Iterator[Key]:
        """All that the log may hold of this group: committed, or on the way there."""
        for topic, partitions in self.topics.items():
            for partition in partitions:
                yield topic, partition
        others = set(self.writing).union(*self.pending.values())
        yield from (key for key in others if self.get(*key) is None)

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
        return [
            group_id
            for group_id, offsets in self._groups.items()
            if any(name == topic for name, _ in offsets.all_keys())
        ]


def expired(group: Group, offsets: GroupOffsets, now_ms: int, retention_ms: int) -> list[Key]:
    """Which offsets have outlived their use (KIP-211)."""
    return [
        (topic, partition)
        for topic, partitions in offsets.topics.items()
        if group.is_empty or not group.subscribes(topic)
        for partition, value in partitions.items()
        if (topic, partition) not in offsets.writing
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
