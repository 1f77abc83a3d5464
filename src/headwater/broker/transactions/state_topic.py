"""`__transaction_state`: where the transaction coordinator's state lives; memory is a view of it.

Which partition a transactional id belongs to is Kafka's rule (Java's hash of the id), so that Kafka's
tools find it. Appending is in memory first: the caller learns the offset at which it is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.broker import internal_topics
from headwater.broker.partition import Partition
from headwater.broker.topics import Topics
from headwater.log.replay import Batch
from headwater.record import batch as batches
from headwater.record import records

NAME = internal_topics.TRANSACTION_STATE


class StateTopic:
    """The coordinator's store: append, and replay."""

    def __init__(self, topics: Topics, now_ms: Callable[[], int]) -> None:
        self._topics = topics
        self._now_ms = now_ms

    async def ensure(self) -> None:
        """Make the topic on first use. Raises StorageFailed."""
        await self._topics.ensure(NAME)

    @property
    def is_whole(self) -> bool:
        """Whether all that was written can be read: no partition is offline."""
        return not any(topic == NAME for topic, _ in self._topics.offline)

    def number_of(self, name: str) -> int:
        return self._topics.hashed(NAME, name)

    def partition_of(self, name: str) -> Partition:
        """Where an id's records are. Raises StorageFailed if that is not there, or offline."""
        return self._topics.internal(NAME, name)

    def append(self, name: str, key: bytes, value: bytes | None) -> tuple[Partition, int]:
        """Where the record goes, and the offset up to which that must be durable to count.

        Raises StorageFailed.
        """
        partition, now_ms = self.partition_of(name), self._now_ms()
        data = records.build([records.Record(0, now_ms, key, value)])
        offset = partition.append(data, batches.read_header(data), now_ms)
        return partition, offset + 1

    def replay(self) -> Iterator[tuple[bytes, bytes | None]]:
        """(key, value) of every durable record, oldest first within each partition."""
        for _, batch in self._topics.replay(NAME):
            yield from _pairs(batch)

    def replay_one(self, number: int) -> Iterator[tuple[bytes, bytes | None]]:
        """The same of one partition; nothing if it is not there."""
        partition = self._topics.partitions.get((NAME, number))
        if partition is not None:
            for batch in self._topics.replay_from(partition, 0):
                yield from _pairs(batch)


def _pairs(batch: Batch) -> Iterator[tuple[bytes, bytes | None]]:
    for record in batch.records:
        if record.key is not None:
            yield record.key, record.value
