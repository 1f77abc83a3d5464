"""`__consumer_offsets`: where the group coordinator's state lives; memory is only a view of it.

The coordinator appends through `OffsetsTopic` and is given the whole topic at start. Which partition a
group's records go to is Kafka's rule (Java's hash of the group id), so that Kafka's tools find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headwater.broker.catalogue import Catalogue
from headwater.broker.settings import Settings
from headwater.broker.topics import TopicError, Topics
from headwater.log.partition import PartitionLog
from headwater.record import batch as batches
from headwater.record import records

NAME = "__consumer_offsets"


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

    def configs(self) -> Mapping[str, str]:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._settings.get("offsets.topic.segment.bytes")),
        }

    async def ensure(self) -> int:
        """Make the topic on first use; returns its number of partitions."""
        topic = self._catalogue.topics.get(NAME)
        if topic is None:
            wanted = self._settings.get("offsets.topic.num.partitions")
            try:
                topic = await self._topics.create(NAME, wanted, self.configs())
            except TopicError:
                topic = self._catalogue.topics[NAME]  # somebody else was quicker
        return topic.partitions

    async def append(self, group_id: str, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Durable when done. Raises StorageFailed."""
        count = await self.ensure()
        partition = self._topics.partitions[NAME, java_hash(group_id) % count]
        now_ms = self._now_ms()
        data = records.build(
            [records.Record(n, now_ms, key, value) for n, (key, value) in enumerate(entries)]
        )
        offset = partition.append(data, batches.read_header(data), now_ms)
        await partition.durable(offset + len(entries))

    def replay(self) -> Iterator[tuple[bytes, bytes | None, int]]:
        """(key, value, timestamp) of every record, oldest first within each partition."""
        topic = self._catalogue.topics.get(NAME)
        for number in range(topic.partitions if topic else 0):
            yield from _read_all(self._topics.partitions[NAME, number].log)


def _read_all(log: PartitionLog) -> Iterator[tuple[bytes, bytes | None, int]]:
    offset = log.start_offset
    while offset < log.durable_offset:
        data = bytes(log.read(offset, 4 << 20) or b"")
        before = offset
        for position, header in batches.scan(data):
            if not header.is_control:
                for record in records.decode(data, position):
                    if record.key is not None and record.offset >= offset:
                        yield record.key, record.value, record.timestamp
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
