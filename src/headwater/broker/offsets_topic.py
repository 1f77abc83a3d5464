"""`__consumer_offsets`: where the group coordinator's state lives; memory is only a view of it.

The coordinator appends through `OffsetsTopic` and is given the whole topic at start. Which partition a
group's records go to is Kafka's rule (Java's hash of the group id), so that Kafka's tools find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kio.schema.errors import ErrorCode

from headwater.broker.catalogue import Catalogue
from headwater.broker.partition import Partition
from headwater.broker.settings import Settings
from headwater.broker.topics import TopicError, Topics
from headwater.log.partition import PartitionLog, StorageFailed
from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.batch import BatchHeader

NAME = "__consumer_offsets"


def segment_bytes(size: int) -> dict[str, str]:
    """The config for segments of an internal topic: below 1 MiB only Kafka's internal name takes it."""
    name = "segment.bytes" if size >= 1024 * 1024 else "internal.segment.bytes"
    return {name: str(size)}


class OffsetsTopic:
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
        self.pending: dict[int, dict[bytes, bytes | None]] = {}

    def configs(self) -> Mapping[str, str]:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            **segment_bytes(self._settings.get("offsets.topic.segment.bytes")),
        }

    async def ensure(self) -> int:
        """Make the topic on first use; returns its number of partitions."""
        topic = self._catalogue.topics.get(NAME)
        if topic is None:
            wanted = self._settings.get("offsets.topic.num.partitions")
            try:
                topic = await self._topics.create(NAME, wanted, self.configs())
            except TopicError as error:
                if error.code != ErrorCode.topic_already_exists:
                    raise StorageFailed(str(error)) from error
                topic = self._catalogue.topics[NAME]  # somebody else was quicker
        if (NAME, 0) not in self._topics.partitions:
            async with self._catalogue.changing:  # its record is there, its folders are being made
                pass
        return topic.partitions

    async def append(self, group_id: str, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Durable when done. Raises StorageFailed."""
        await self.ensure()
        partition = self._topics.partitions[NAME, self.partition_of(group_id)]
        now_ms = self._now_ms()
        data = records.build(
            [records.Record(n, now_ms, key, value) for n, (key, value) in enumerate(entries)]
        )
        offset = partition.append(data, batches.read_header(data), now_ms)
        await partition.durable(offset + len(entries))

    def partition_of(self, group_id: str) -> int:
        """Where a group's records are; the topic must exist."""
        return java_hash(group_id) % self._catalogue.topics[NAME].partitions

    def append_pending(
        self, group_id: str, entries: list[tuple[bytes, bytes | None]], producer: tuple[int, int]
    ) -> tuple[Partition, int]:
        """Offsets of a transaction of this producer (id, epoch), staged: the partition, and up to
        which offset it must be durable. The topic must exist. Raises StorageFailed."""
        partition = self._topics.partitions[NAME, self.partition_of(group_id)]
        now_ms = self._now_ms()
        data = records.build(
            [records.Record(n, now_ms, key, value) for n, (key, value) in enumerate(entries)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            transactional=True,
        )
        offset = partition.append(data, batches.read_header(data), now_ms)
        return partition, offset + len(entries)

    def replay(self) -> Iterator[tuple[bytes, bytes | None, int]]:
        """(key, value, timestamp) of every record that counts, oldest first within each partition.

        Those of a transaction come when its marker does. What is still open when all is read is in
        `pending` then: producer id → key → value.
        """
        topic = self._catalogue.topics.get(NAME)
        self.pending = {}
        for number in range(topic.partitions if topic else 0):
            yield from self._settled(self._topics.partitions[NAME, number].log)

    def _settled(self, log: PartitionLog) -> Iterator[tuple[bytes, bytes | None, int]]:
        open_ones: dict[int, dict[bytes, tuple[bytes | None, int]]] = {}
        for position, header, data, offset in _batches(log):
            if header.is_control:
                ended = open_ones.pop(header.producer_id, {}) if header.record_count else {}
                if ended and control.read_marker(data, position).kind == control.COMMIT:
                    yield from ((key, *rest) for key, rest in ended.items())
                continue
            mine = open_ones.setdefault(header.producer_id, {}) if header.is_transactional else None
            for record in records.decode(data, position):
                if record.key is None or record.offset < offset:
                    continue
                for others in open_ones.values():
                    others.pop(record.key, None)  # a later record of the key replaces it
                if mine is not None:
                    mine[record.key] = (record.value, record.timestamp)
                else:
                    yield record.key, record.value, record.timestamp
        for producer_id, waiting in open_ones.items():
            values = {key: value for key, (value, _) in waiting.items()}
            self.pending.setdefault(producer_id, {}).update(values)


def _batches(log: PartitionLog) -> Iterator[tuple[int, BatchHeader, bytes, int]]:
    """(position, header, bytes around it, first offset that counts) of every durable batch."""
    offset = log.start_offset
    while offset < log.durable_offset:
        data = bytes(log.read(offset, 4 << 20) or b"")
        before = offset
        for position, header in batches.scan(data):
            yield position, header, data, offset
            offset = header.next_offset
        if offset == before:
            return


def java_hash(text: str) -> int:
    """`abs(String.hashCode())` as Kafka's Utils.abs does it."""
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF
