"""One internal topic as a store: made on first use, appended to by the broker, read whole at start.

Whoever keeps something in the log (offsets, transactions, share groups, health, audits, telemetry) has
one of these, and its memory is a view of it. What differs is theirs: the form of keys and values, and what is
done when a write is refused. What is the same for all must hold here:

- A write counts when it is durable. A refused one takes its offsets back, and the next batch gets the same
  ones: so whoever has staged something must begin to wait in the same step (`Staged.durable`).
- A key's records are all in one partition, by Kafka's rule, where the topic has several (`internal_topics`).
- A record without a value is a tombstone: its key is no more.
- A topic that is not there, or a partition that is offline, is `StorageFailed`, never an empty answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.promise import promise
from headwater.broker.topics import Topics
from headwater.log.partition import StorageFailed
from headwater.log.replay import Batch
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.records import Record

Entry = tuple[bytes | None, bytes | None]
"""Key and value."""
Producer = tuple[int, int]
"""Id and epoch."""


class Staged(NamedTuple):
    """Records on their way to the disk."""

    partition: Partition
    next_offset: int
    """Up to which the partition must be durable for them to count."""

    def durable(self) -> asyncio.Future[None]:
        """Done once they are durable; fails with StorageFailed. To be called in the turn of the append."""
        return promise(self.partition, self.next_offset)


class InternalTopic:
    """Append, and replay."""

    def __init__(self, name: str, topics: Topics, now_ms: Callable[[], int]) -> None:
        self.name = name
        self._topics = topics
        self._now_ms = now_ms

    # ---- where -------------------------------------------------------------------------------------

    @property
    def is_there(self) -> bool:
        return self._topics.has(self.name, 0)

    @property
    def is_whole(self) -> bool:
        """Whether all that was written can be read: no partition is offline."""
        return not any(topic == self.name for topic, _ in self._topics.offline)

    async def ensure(self) -> int:
        """Make the topic on first use; returns its number of partitions. Raises StorageFailed."""
        return (await self._topics.ensure(self.name)).partitions

    def number_of(self, key: str) -> int:
        """Of the partition that has this key's records."""
        return self._topics.hashed(self.name, key)

    def partition_of(self, key: str) -> Partition:
        """That partition. Raises StorageFailed."""
        return self.partition(self.number_of(key))

    def partition(self, number: int = 0) -> Partition:
        """Raises StorageFailed if it is not there yet, or offline."""
        found = self._topics.partitions.get((self.name, number))
        if found is None:
            why = self._topics.offline.get((self.name, number), f"{self.name} is not there")
            raise StorageFailed(why)
        return found

    def partitions(self) -> list[Partition]:
        """Those that can be read and written."""
        found = self._topics.partitions.items()
        return [partition for (topic, _), partition in found if topic == self.name]

    # ---- writing -----------------------------------------------------------------------------------

    def stage(
        self, partition: Partition, entries: Sequence[Entry], producer: Producer | None = None
    ) -> Staged:
        """Append one batch, of a transaction of `producer` where there is one. Raises StorageFailed."""
        now_ms = self._now_ms()
        rows = [Record(n, now_ms, key, value) for n, (key, value) in enumerate(entries)]
        if producer is None:
            data = records.build(rows)
        else:
            data = records.build(
                rows, producer_id=producer[0], producer_epoch=producer[1], transactional=True
            )
        offset = partition.append(data, batches.read_header(data), now_ms)
        return Staged(partition, offset + len(entries))

    # ---- reading -----------------------------------------------------------------------------------

    def replay(self) -> Iterator[tuple[int, Batch]]:
        """(partition, batch) of everything durable, oldest first within each partition. What is offline is
        left out; what cannot be read is told (`LogStore.replay`)."""
        for partition in sorted(self.partitions(), key=lambda each: each.number):
            for batch in self._topics.replay_from(partition, 0):
                yield partition.number, batch

    def replay_from(self, number: int = 0, offset: int = 0) -> Iterator[Batch]:
        """The same of one partition, from an offset on; nothing if it is not there."""
        partition = self._topics.partitions.get((self.name, number))
        return iter(()) if partition is None else self._topics.replay_from(partition, offset)
