"""`__share_group_state`: where the share groups' state lives; memory is only a view of it.

`partition_owner` appends through `StateTopic`; `coordinator` is given all states at start. A share-
partition's records always go to the same partition of the topic, by Kafka's rule (Java's hash of
"group:topic id:partition"). Every so many updates a snapshot is written, which makes what came before
it superfluous; `prune` then lets the log start later, so that a start reads little.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from headwater.broker import internal_topics
from headwater.broker.catalogue import Catalogue
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.internal_topic import InternalTopic, Staged
from headwater.broker.shares import records
from headwater.broker.shares.records import SNAPSHOT, UPDATE, Key, Value
from headwater.broker.shares.state import SharePartition
from headwater.broker.topics import Topics

NAME = internal_topics.SHARE_GROUP_STATE

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
    number: int = -1
    """Of the partition that has its records, once there are some."""

    def identity(self, key: Key) -> str:
        """Of this state, and of none that there was before it: the group may have been deleted, or sent
        elsewhere, and the topic made again."""
        return f"{kafka_uuid(key.topic_id)}/{self.created}/{self.state_epoch}"


class StateTopic(InternalTopic):
    """Append, replay and prune."""

    def __init__(self, topics: Topics, catalogue: Catalogue, now_ms: Callable[[], int]) -> None:
        super().__init__(NAME, topics, now_ms)
        self._catalogue = catalogue
        self.known: dict[Key, Kept] = {}

    # ---- writing -----------------------------------------------------------------------------------

    def append(self, key: Key, kind: int, value: Value | None, kept: Kept | None = None) -> Staged:
        """Stage a record. `kept`: of a share-partition
        that is not known yet. Raises StorageFailed."""
        partition = self.partition_of(coordinator_key(key))
        body = None if value is None else records.write_value(kind, value)
        staged = self.stage(partition, [(records.write_key(kind, key), body)])
        if (known := kept or self.known.get(key)) is not None:
            known.number = partition.number
        if kind == SNAPSHOT and value is not None:
            found = kept or self.known[key]

            def written(error: Exception | None) -> None:
                if error is None:
                    found.snapshot_at = staged.next_offset - 1

            partition.when_durable(staged.next_offset, written)
        return staged

    # ---- reading -----------------------------------------------------------------------------------

    def load(self) -> None:
        """At start: everything that the log tells."""
        for number, batch in self.replay():
            for offset, _, key, value, *_ in batch.records:
                if key is None:
                    continue
                try:
                    self._apply(number, offset, key, value)
                except BadRecord as error:
                    logger.error("%s-%d: offset %d is skipped: %s", NAME, number, offset, error)

    def _apply(self, number: int, offset: int, key_bytes: bytes, value_bytes: bytes | None) -> None:
        kind, key = records.read_key(key_bytes)
        if value_bytes is None:
            if kind == SNAPSHOT:
                self.known.pop(key, None)
            return
        value = records.read_value(kind, value_bytes)
        kept = self.known.setdefault(key, Kept(state_epoch=-1))
        kept.number = number
        if kind == SNAPSHOT:
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
        kept.state.restore(value.batches)
        kept.start = kept.state.start

    def forget_lost(self) -> set[Key]:
        """A partition may have lost its end (a power cut with `durability=os`, a repair), of which groups
        know more than there is. Its next records get those offsets, and nobody has seen them: what is
        known of the lost ones is forgotten. The state counts as another one then, so that no dead letter
        of a lost record speaks for the one that gets its offset. Returns where that was so."""
        found: set[Key] = set()
        for key, kept in self.known.items():
            topic = self._catalogue.by_id.get(key.topic_id)
            source = topic and self._topics.partitions.get((topic.name, key.partition))
            if kept.state is None or not source or kept.state.end <= source.log.durable_offset:
                continue
            logger.error(
                "share group %s: what it knows of %s-%d reaches to offset %d, but the records from %d on "
                "are lost; those that are written there now are delivered",
                key.group_id,
                source.topic,
                source.number,
                kept.state.end - 1,
                source.log.durable_offset,
            )
            kept.state.runs.drop_from(source.log.durable_offset)
            kept.start, kept.state_epoch = kept.state.start, kept.state_epoch + 1
            found.add(key)
        return found

    # ---- keeping it short --------------------------------------------------------------------------

    def stale(self, records_max: int) -> list[Key]:
        """Share-partitions whose last snapshot lies so far back that the log cannot be pruned."""
        ends = {each.number: each.log.next_offset for each in self.partitions()}
        return [
            key
            for key, kept in self.known.items()
            if ends.get(kept.number, 0) - kept.snapshot_at > records_max
        ]

    def prune(self) -> bool:
        """Let each log start at the first record that is still needed; True if one moved."""
        needed: dict[int, int] = {}
        for kept in self.known.values():
            before = needed.get(kept.number, kept.snapshot_at)
            needed[kept.number] = min(kept.snapshot_at, before)
        moved = False
        for partition in self.partitions():
            log = partition.log
            first = min(needed.get(partition.number, log.durable_offset), log.durable_offset)
            if first > log.start_offset:
                log.delete_before(first)
                moved = True
        return moved


def coordinator_key(key: Key) -> str:
    """What the partition of its records is a hash of."""
    return f"{key.group_id}:{kafka_uuid(key.topic_id)}:{key.partition}"


def kafka_uuid(value: uuid.UUID) -> str:
    """As Kafka writes ids."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


__all__ = ["NAME", "SNAPSHOT", "UPDATE", "Kept", "StateTopic"]
