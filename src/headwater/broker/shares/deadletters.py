"""Dead letters: what a share group rejected, or gave up, is kept in a topic of its own (KIP-1191).

`keeper` calls `put` before it archives a record. The dead letter has the record's key, value and
headers, and in more headers where it comes from and why it is here:

    __dlq.errors.topic, .partition, .offset   the record
    __dlq.errors.group                        the share group
    __dlq.errors.delivery.count               how often it was delivered
    __dlq.errors.message                      why: rejected, or the delivery limit reached

It must be durable before the record is archived; so a crash in between leaves a dead letter of a
record that is still in flight. `newest` finds those at start, and they are archived then: a record is
in the dead-letter topic once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.shares.records import Key
from headwater.broker.shares.state import Change, Reason
from headwater.broker.topics import TopicError
from headwater.log import replay
from headwater.log.partition import PartitionLog, StorageFailed
from headwater.log.replay import Damage
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.errors import RecordError
from headwater.record.records import Record

if TYPE_CHECKING:
    from headwater.broker.shares.coordinator import ShareCoordinator

logger = logging.getLogger("headwater.broker")

TOPIC_NAME = "errors.deadletterqueue.topic.name"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
HEADER = "__dlq.errors."
MESSAGES = {
    Reason.REJECTED: "Offset rejected by client.",
    Reason.LIMIT: "Delivery count limit reached.",
}
BATCH_BYTES = 512 * 1024
NAME_MAX = 249
LOOK_BACK_MS = 600_000
"""A dead letter and the record of its being archived are written one right after the other; this is
many times what a disk that still works can put between them."""


class Letter(NamedTuple):
    """Where a dead letter came from, and when it was written."""

    group_id: str
    topic: str
    partition: int
    offset: int
    timestamp: int


class DeadLetters:
    """Writes dead letters, and finds those that a crash left half done."""

    def __init__(self, shares: ShareCoordinator) -> None:
        self._shares = shares

    def topic_of(self, group_id: str) -> str | None:
        """The name of the group's dead-letter topic; None: it has none."""
        settings = self._shares.settings
        name = settings.group(group_id, TOPIC_NAME)
        prefix = settings.get(PREFIX)
        if name is None:
            if not settings.get("share.dead.letters.enable"):
                return None
            name = prefix + re.sub(r"[^a-zA-Z0-9._-]", "_", group_id)
            return name[:NAME_MAX]
        if not name:
            return None
        if not name.startswith(prefix) or name.startswith("__"):
            logger.error("share group %s: %s must begin with %s", group_id, TOPIC_NAME, prefix)
            return None
        return str(name)

    async def put(
        self, key: Key, source_topic: str, source: Partition, dead: Sequence[Change]
    ) -> None:
        """Durable when done. Raises StorageFailed, TopicError."""
        name = self.topic_of(key.group_id)
        if name is None or name == source_topic:
            return  # a group that reads its own dead letters would never come to an end
        count = await self._ensure(name)
        source.cold_reads += 1
        try:
            letters = await self._shares.in_thread(_letters, key, source_topic, source.log, dead)
        finally:
            source.cold_reads -= 1
        target = self._shares.broker.topics.partitions[name, key.partition % count]
        end = self._append(target, letters)
        await target.durable(end)

    async def _ensure(self, name: str) -> int:
        catalogue = self._shares.broker.catalogue
        if name not in catalogue.topics:
            partitions = self._shares.settings.get("num.partitions")
            try:
                configs = {"message.timestamp.type": "CreateTime"}
                await self._shares.broker.topics.create(name, partitions, configs)
            except TopicError:
                if name not in catalogue.topics:
                    raise
        return catalogue.topics[name].partitions

    def _append(self, target: Partition, letters: Iterable[Record]) -> int:
        now_ms = self._shares.clock.now_ms()
        end = target.log.durable_offset
        for chunk in _chunks(letters):
            stamped = [each._replace(offset=n, timestamp=now_ms) for n, each in enumerate(chunk)]
            data = records.build(stamped)
            end = target.append(data, batches.read_header(data), now_ms) + len(stamped)
        return end

    # ---- after a crash -----------------------------------------------------------------------------

    def newest(self) -> Iterator[Letter]:
        """The newest dead letters; read once, at start."""
        topics = self._shares.broker.topics
        prefix = self._shares.settings.get(PREFIX)
        for (topic, _), partition in topics.partitions.items():
            if not topic.startswith(prefix):
                continue
            begin = _recent(partition.log)
            for batch in topics.replay_from(partition, begin) if begin is not None else ():
                yield from _read_letters(batch.records)


def _letters(key: Key, topic: str, log: PartitionLog, dead: Sequence[Change]) -> list[Record]:
    """The dead letters of these records. Of a record that retention took, its place is left."""
    found: list[Record] = []
    for change in dead:
        there = list(read(log, change.first, change.last))
        for offset in range(change.first, min(change.last + 1, log.start_offset)):
            there.append(Record(offset, 0, None, None))
        for record in there:
            own = tuple(h for h in record.headers if not h[0].startswith(HEADER))
            headers = (*own, *_headers(key, topic, record.offset, change))
            found.append(record._replace(headers=headers))
    return found


def _headers(key: Key, topic: str, offset: int, change: Change) -> records.Headers:
    values = {
        "topic": topic,
        "partition": str(key.partition),
        "offset": str(offset),
        "group": key.group_id,
        "delivery.count": str(change.deliveries),
        "message": MESSAGES[change.reason],
    }
    return tuple((HEADER + name, value.encode()) for name, value in values.items())


def read(log: PartitionLog, first: int, last: int) -> Iterator[Record]:
    """The records from `first` to `last` that are there. Raises StorageFailed."""

    def stop(found: Damage) -> None:
        if found.first_offset <= last:
            raise StorageFailed(f"a record cannot be read: {found}")

    for batch in replay.read(log, first, stop):
        if batch.header.base_offset > last:
            return
        yield from (record for record in batch.records if record.offset <= last)


def _chunks(letters: Iterable[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    size = 0
    for letter in letters:
        size += len(letter.key or b"") + len(letter.value or b"") + 200
        if chunk and size > BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(letter)
    if chunk:
        yield chunk


def _recent(log: PartitionLog) -> int | None:
    """Where the newest letters begin; None: there are none."""
    try:
        latest = log.find_max_timestamp()
        begin = log.find_time(latest.timestamp - LOOK_BACK_MS) if latest else None
    except RecordError:
        return log.start_offset  # damaged: all that can be read is looked at
    return None if begin is None else begin.offset


def _read_letters(found: Iterable[Record]) -> Iterator[Letter]:
    for record in found:
        said = {name.removeprefix(HEADER): value for name, value in record.headers}
        try:
            yield Letter(
                (said["group"] or b"").decode(),
                (said["topic"] or b"").decode(),
                int(said["partition"] or b""),
                int(said["offset"] or b""),
                record.timestamp,
            )
        except (KeyError, ValueError):
            continue  # somebody else's record
