"""`__consumer_offsets`: where the group coordinator's state lives; memory is only a view of it.

The coordinator appends through `OffsetsTopic` and is given the whole topic at start. Which partition a
group's records go to is Kafka's rule (Java's hash of the group id), so that Kafka's tools find them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import NamedTuple

from headwater.broker import internal_topics
from headwater.broker.bounds import WRITES_OF_OFFSETS
from headwater.broker.groups.journal import RecordTooLarge
from headwater.broker.internal_topic import InternalTopic, Producer
from headwater.broker.partition import Partition
from headwater.broker.promise import promise
from headwater.broker.topics import Topics
from headwater.log.replay import Batch
from headwater.record import control
from headwater.record.errors import RecordError
from headwater.record.records import Record

NAME = internal_topics.CONSUMER_OFFSETS

Replayed = tuple[bytes, bytes | None, int]
"""Key, value, timestamp."""


Entries = list[tuple[bytes, bytes | None]]
"""Keys and values."""


class Ordered(NamedTuple):
    """Records that are on their way to the disk (`Staged`), and which append they are."""

    partition: Partition
    next_offset: int
    order: int


class OpenOffset(NamedTuple):
    """A record of a transaction that has not ended."""

    producer_id: int
    key: bytes
    value: bytes | None
    order: int


class OffsetsTopic(InternalTopic):
    """The coordinator's store. Every append has a number, its `order`: of two of the same group, the one that
    stands later in the log has the higher one."""

    def __init__(self, topics: Topics, now_ms: Callable[[], int]) -> None:
        super().__init__(NAME, topics, now_ms)
        self.pending: list[OpenOffset] = []
        self._orders = count(1)
        self._making = asyncio.Lock()
        self._until_made = 0
        """Appends that wait for the topic to be made."""

    def append(self, group_id: str, entries: Entries) -> Awaitable[int]:
        """Durable when done; the result is its order. It is appended now, unless the topic has to be
        made first. Raises StorageFailed, RecordTooLarge."""
        if self._until_made == 0 and self.is_there:
            return _durable(self._stage_ordered(group_id, entries))
        self._until_made += 1
        return self._append_when_made(group_id, entries)

    async def _append_when_made(self, group_id: str, entries: Entries) -> int:
        try:
            async with self._making:  # whoever came first is first in the log
                await self.ensure()
                durable = _durable(self._stage_ordered(group_id, entries))
        finally:
            self._until_made -= 1
        return await durable

    def _stage_ordered(
        self, group_id: str, entries: Entries, producer: Producer | None = None
    ) -> Ordered:
        partition = self.partition_of(group_id)
        _check_size(partition, entries)
        return Ordered(*self.stage(partition, entries, producer), next(self._orders))

    def append_pending(self, group_id: str, entries: Entries, producer: Producer) -> Ordered:
        """Offsets of a transaction of this producer. Raises StorageFailed, RecordTooLarge."""
        return self._stage_ordered(group_id, entries, producer)

    def settled(self) -> Iterator[Replayed]:
        """(key, value, timestamp) of every record that counts, oldest first within each partition.

        Those of a transaction come when its marker does. What is still open when all is read is in
        `pending` then, in the order of the log.
        """
        self.pending = []
        settling = Settling()
        for number, batch in self.replay():
            if number != settling.partition:
                self._keep_pending(settling)
                settling = Settling(number)
            yield from settling.settled(batch)
        self._keep_pending(settling)

    def _keep_pending(self, settling: Settling) -> None:
        found = [
            (record, producer_id)
            for producer_id, waiting in settling.open.items()
            for record in waiting.values()
        ]
        found.sort(key=lambda each: each[0].offset)
        for record, producer_id in found:
            assert record.key is not None
            self.pending.append(
                OpenOffset(producer_id, record.key, record.value, next(self._orders))
            )


def _durable(staged: Ordered) -> Awaitable[int]:
    """Its order, once it is durable; called in the turn of the append."""
    return _order_when(promise(staged.partition, staged.next_offset), staged.order)


async def _order_when(durable: asyncio.Future[None], order: int) -> int:
    await durable
    return order


def _check_size(partition: Partition, entries: Entries) -> None:
    """Raises RecordTooLarge."""
    limit = partition.log.config.max_message_bytes
    sizes = [len(key) + len(value or b"") for key, value in entries]
    if max(sizes, default=0) > limit or sum(sizes) > WRITES_OF_OFFSETS * limit:
        raise RecordTooLarge(
            f"{sum(sizes)} bytes for {NAME}, of which max.message.bytes is {limit}"
        )


class Settling:
    """One partition: the records of transactions wait here for their markers.

    What counts comes out; of two records of a key that count, the one that stands later comes later, or
    alone. A record that waits is ended by its own marker, or by one that counts and stands behind it.
    """

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.open: dict[int, dict[bytes, Record]] = {}

    def settled(self, batch: Batch) -> Iterator[Replayed]:
        """What counts from this batch on."""
        header = batch.header
        if header.is_control:
            ended = self.open.pop(header.producer_id, {}) if header.record_count else {}
            if ended and _is_commit(batch):
                for key, record in ended.items():
                    self._supersede(key, record.offset)
                    yield key, record.value, record.timestamp
            return
        mine = self.open.setdefault(header.producer_id, {}) if header.is_transactional else None
        for record in batch.records:
            if record.key is None:
                continue
            if mine is not None:
                mine[record.key] = record
            else:
                self._supersede(record.key, record.offset)
                yield record.key, record.value, record.timestamp

    def _supersede(self, key: bytes, offset: int) -> None:
        for waiting in self.open.values():
            if key in waiting and waiting[key].offset < offset:
                del waiting[key]


def _is_commit(batch: Batch) -> bool:
    try:
        return control.read_marker(batch.data).kind == control.COMMIT
    except RecordError:
        return False  # some other control record
