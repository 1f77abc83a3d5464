"""`__transaction_state`: where the transaction coordinator's state lives; memory is a view of it.

Which partition a transactional id belongs to is Kafka's rule (Java's hash of the id), so that Kafka's
tools find it. Appending is in memory first: the caller learns the offset at which it is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headwater.broker.catalogue import Catalogue
from headwater.broker.offsets_topic import java_hash
from headwater.broker.partition import Partition
from headwater.broker.settings import Settings
from headwater.broker.topics import TopicError, Topics
from headwater.log.partition import PartitionLog, StorageFailed
from headwater.record import batch as batches
from headwater.record import records

NAME = "__transaction_state"


class StateTopic:
    """The coordinator's store: append, and replay."""

    def __init__(
        self,
        topics: Topics,
        catalogue: Catalogue,
        settings: Settings,
        now_ms: Callable[[], int],
    ) -> None:
        self._topics = topics
        self._catalogue = catalogue
        self._settings = settings
        self._now_ms = now_ms

    def configs(self) -> Mapping[str, str]:
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(self._settings.get("transaction.state.log.segment.bytes")),
        }

    async def ensure(self) -> None:
        """Make the topic on first use."""
        if NAME not in self._catalogue.topics:
            wanted = self._settings.get("transaction.state.log.num.partitions")
            try:
                await self._topics.create(NAME, wanted, self.configs())
            except TopicError:
                assert NAME in self._catalogue.topics  # somebody else was quicker
        if (NAME, 0) not in self._topics.partitions:
            async with self._catalogue.changing:  # its record is there, its folders are being made
                pass

    def number_of(self, name: str) -> int:
        topic = self._catalogue.topics.get(NAME)
        return java_hash(name) % topic.partitions if topic else 0

    def partition_of(self, name: str) -> Partition:
        """Where an id's records are. Raises StorageFailed if somebody has deleted the topic."""
        partition = self._topics.partitions.get((NAME, self.number_of(name)))
        if partition is None:
            raise StorageFailed(f"{NAME} is not there")
        return partition

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
        topic = self._catalogue.topics.get(NAME)
        for number in range(topic.partitions if topic else 0):
            yield from self.replay_one(number)

    def replay_one(self, number: int) -> Iterator[tuple[bytes, bytes | None]]:
        """The same of one partition; nothing if it is not there."""
        partition = self._topics.partitions.get((NAME, number))
        if partition is not None:
            yield from _read_all(partition.log)


def _read_all(log: PartitionLog) -> Iterator[tuple[bytes, bytes | None]]:
    offset = log.start_offset
    while offset < log.durable_offset:
        data = bytes(log.read(offset, 4 << 20) or b"")
        before = offset
        for position, header in batches.scan(data):
            for record in records.decode(data, position):
                if record.key is not None and record.offset >= offset:
                    yield record.key, record.value
            offset = header.next_offset
        if offset == before:
            return
