"""`__share_group_state`: where the share groups' state lives; memory is only a view of it.

`keeper` appends through `StateTopic`; `coordinator` is given all states at start. A share-partition's
records always go to the same partition of the topic, by Kafka's rule (Java's hash of
"group:topic id:partition"). Every so many updates a snapshot is written, which makes what came before
it superfluous; `prune` then lets the log start later, so that a start reads little.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.broker import internal_topics
from headwater.broker.catalogue import Catalogue
from headwater.broker.partition import Partition
from headwater.broker.shares import records
from headwater.broker.shares.records import SNAPSHOT, UPDATE, BadRecord, Key, Value
from headwater.broker.shares.state import SharePartition
from headwater.broker.topics import Topics
from headwater.record import batch as batches
from headwater.record import records as log_records

NAME = internal_topics.SHARE_GROUP_STATE

NEVER_WRITTEN = 2**31
"""As a number of updates since the last snapshot: there is none in this log."""

logger = logging.getLogger("headwater.broker")


@dataclass(slots=True)
class Kept:
    """What the log knows of one share-partition."""

    start: int = -1
    """-1: the group has not read from the partition yet."""
    state: SharePartition | None = None
    snapshot_epoch: int = 0
    state_epoch: int = 0
    created: int = 0
    snapshot_at: int = 0
    """Offset of the last snapshot: what is before it is superfluous."""
    updates: int = 0
    """Since the last snapshot."""
    reset_at: int = 0
    """When it began, or was told to begin elsewhere, as far as the log still tells; in ms."""


@dataclass(slots=True)
class StateTopic:
    """Append, replay and prune."""

    topics: Topics
    catalogue: Catalogue
    now_ms: Callable[[], int]
    known: dict[Key, Kept] = field(default_factory=dict)
    _id: uuid.UUID | None = None
    """Of the topic that `known` was read from, or written to."""

    # ---- writing -----------------------------------------------------------------------------------

    async def ensure(self) -> None:
        """Make the topic on first use. Raises StorageFailed."""
        await self.topics.ensure(NAME)
        self._notice()

    def _notice(self) -> None:
        """If somebody has deleted the topic, what memory knows must be written to the new one."""
        topic = self.catalogue.topics.get(NAME)
        if topic is None or topic.id == self._id:
            return
        if self._id is not None:
            for kept in self.known.values():
                kept.snapshot_at, kept.updates = 0, NEVER_WRITTEN
        self._id = topic.id

    @property
    def is_there(self) -> bool:
        return NAME in self.catalogue.topics

    def append(self, key: Key, kind: int, value: Value | None) -> tuple[Partition, int]:
        """Stage a record; durable when `partition.durable(offset)` says so. Raises StorageFailed."""
        self._notice()
        partition = self.partition(key)
        now_ms = self.now_ms()
        body = None if value is None else records.write_value(kind, value)
        record = log_records.Record(0, now_ms, records.write_key(kind, key), body)
        data = log_records.build([record])
        offset = partition.append(data, batches.read_header(data), now_ms)
        if kind == SNAPSHOT and value is not None:
            kept = self.known[key]

            def written(error: Exception | None) -> None:
                if error is None:
                    kept.snapshot_at = offset

            partition.when_durable(offset + 1, written)
        return partition, offset + 1

    def partition(self, key: Key) -> Partition:
        """Where its records are. Raises StorageFailed if somebody has deleted the topic."""
        return self.topics.internal(NAME, _coordinator_key(key))

    # ---- reading -----------------------------------------------------------------------------------

    def replay(self) -> None:
        """At start: everything that the log tells."""
        self._notice()
        for number, batch in self.topics.replay(NAME):
            for offset, _, key, value, *_ in batch.records:
                if key is None:
                    continue
                try:
                    self._apply(offset, key, value)
                except BadRecord as error:
                    logger.error("%s-%d: offset %d is skipped: %s", NAME, number, offset, error)

    def _apply(self, offset: int, key_bytes: bytes, value_bytes: bytes | None) -> None:
        kind, key = records.read_key(key_bytes)
        if value_bytes is None:
            if kind == SNAPSHOT:
                self.known.pop(key, None)
            return
        value = records.read_value(kind, value_bytes)
        kept = self.known.setdefault(key, Kept(state_epoch=-1))
        if kind == SNAPSHOT:
            if value.state_epoch != kept.state_epoch:
                kept.reset_at = value.written
            kept.state_epoch, kept.created = value.state_epoch, value.created
            kept.snapshot_epoch, kept.snapshot_at, kept.updates = value.snapshot_epoch, offset, 0
            kept.start = value.start
            kept.state = None
            if value.start >= 0:
                kept.state = SharePartition(value.start, value.batches)
            return
        if value.snapshot_epoch < kept.snapshot_epoch:
            return
        kept.updates += 1
        if kept.state is None:
            if value.start < 0:
                return
            kept.state = SharePartition(value.start)
        kept.state.move_start(value.start)
        for change in value.batches:
            kept.state.restore(change)
        kept.start = kept.state.start

    # ---- keeping it short --------------------------------------------------------------------------

    def stale(self, records_max: int) -> list[Key]:
        """Share-partitions whose last snapshot lies so far back that the log cannot be pruned, or is
        not in this log at all. Raises StorageFailed."""
        self._notice()
        found: list[Key] = []
        for key, kept in self.known.items():
            behind = self.partition(key).log.next_offset - kept.snapshot_at
            if behind > records_max or kept.updates >= NEVER_WRITTEN:
                found.append(key)
        return found

    def prune(self) -> bool:
        """Let each log start at the first record that is still needed; True if one moved. Raises
        StorageFailed."""
        self._notice()
        topic = self.catalogue.topics.get(NAME)
        needed: dict[int, int] = {}
        for key, kept in self.known.items():
            number = self.partition(key).number
            needed[number] = min(kept.snapshot_at, needed.get(number, kept.snapshot_at))
        moved = False
        for number in range(topic.partitions if topic else 0):
            partition = self.topics.partitions.get((NAME, number))
            if partition is None:
                continue  # being deleted
            log = partition.log
            first = min(needed.get(number, log.durable_offset), log.durable_offset)
            if first > log.start_offset:
                log.delete_before(first)
                moved = True
        return moved


def _coordinator_key(key: Key) -> str:
    return f"{key.group_id}:{kafka_uuid(key.topic_id)}:{key.partition}"


def kafka_uuid(value: uuid.UUID) -> str:
    """As Kafka writes ids."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


__all__ = ["NAME", "SNAPSHOT", "UPDATE", "Kept", "StateTopic"]
