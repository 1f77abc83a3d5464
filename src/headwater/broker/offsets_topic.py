"""`__consumer_offsets`: where the group coordinator's state lives; memory is only a view of it.

The coordinator appends through `OffsetsTopic` and is given the whole topic at start. Which partition a
group's records go to is Kafka's rule (Java's hash of the group id), so that Kafka's tools find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.broker import internal_topics
from headwater.broker.partition import Partition
from headwater.broker.topics import Topics
from headwater.log.replay import Batch
from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.errors import RecordError

NAME = internal_topics.CONSUMER_OFFSETS

Replayed = tuple[bytes, bytes | None, int]
"""Key, value, timestamp."""


class OffsetsTopic:
    """The coordinator's store: append, and replay."""

    def __init__(self, topics: Topics, now_ms: Callable[[], int]) -> None:
        self._topics = topics
        self._now_ms = now_ms
        self.pending: dict[int, dict[bytes, bytes | None]] = {}

    async def ensure(self) -> int:
        """Make the topic on first use; returns its number of partitions. Raises StorageFailed."""
        return (await self._topics.ensure(NAME)).partitions

    async def append(self, group_id: str, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Durable when done. Raises StorageFailed."""
        await self.ensure()
        partition = self._topics.internal(NAME, group_id)
        now_ms = self._now_ms()
        data = records.build(
            [records.Record(n, now_ms, key, value) for n, (key, value) in enumerate(entries)]
        )
        offset = partition.append(data, batches.read_header(data), now_ms)
        await partition.durable(offset + len(entries))

    def partition_of(self, group_id: str) -> int:
        """Where a group's records are. Raises StorageFailed if the topic is not there."""
        return self._topics.internal(NAME, group_id).number

    def append_pending(
        self, group_id: str, entries: list[tuple[bytes, bytes | None]], producer: tuple[int, int]
    ) -> tuple[Partition, int]:
        """Offsets of a transaction of this producer (id, epoch), staged: the partition, and up to
        which offset it must be durable. Raises StorageFailed."""
        partition = self._topics.internal(NAME, group_id)
        now_ms = self._now_ms()
        data = records.build(
            [records.Record(n, now_ms, key, value) for n, (key, value) in enumerate(entries)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            transactional=True,
        )
        offset = partition.append(data, batches.read_header(data), now_ms)
        return partition, offset + len(entries)

    def replay(self) -> Iterator[Replayed]:
        """(key, value, timestamp) of every record that counts, oldest first within each partition.

        Those of a transaction come when its marker does. What is still open when all is read is in
        `pending` then: producer id → key → value.
        """
        self.pending = {}
        settling = _Settling()
        for number, batch in self._topics.replay(NAME):
            if number != settling.partition:
                self._keep_pending(settling)
                settling = _Settling(number)
            yield from settling.settled(batch)
        self._keep_pending(settling)

    def _keep_pending(self, settling: _Settling) -> None:
        for producer_id, waiting in settling.open.items():
            values = {key: value for key, (value, _) in waiting.items()}
            self.pending.setdefault(producer_id, {}).update(values)


class _Settling:
    """One partition: the records of transactions wait here for their markers."""

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.open: dict[int, dict[bytes, tuple[bytes | None, int]]] = {}

    def settled(self, batch: Batch) -> Iterator[Replayed]:
        """What counts from this batch on."""
        header = batch.header
        if header.is_control:
            ended = self.open.pop(header.producer_id, {}) if header.record_count else {}
            if ended and _is_commit(batch):
                yield from ((key, *rest) for key, rest in ended.items())
            return
        mine = self.open.setdefault(header.producer_id, {}) if header.is_transactional else None
        for record in batch.records:
            if record.key is None:
                continue
            for others in self.open.values():
                others.pop(record.key, None)  # a later record of the key replaces it
            if mine is not None:
                mine[record.key] = (record.value, record.timestamp)
            else:
                yield record.key, record.value, record.timestamp


def _is_commit(batch: Batch) -> bool:
    try:
        return control.read_marker(batch.data).kind == control.COMMIT
    except RecordError:
        return False  # some other control record
