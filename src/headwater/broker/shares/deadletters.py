"""Dead letters: what a share group rejected, or gave up, is kept in a topic of its own (KIP-1191).

`partition_owner` calls `put` before it archives a record. The dead letter has the record's key, value and
headers, and in more headers where it comes from and why it is here:

    __dlq.errors.topic, .partition, .offset   the record
    __dlq.errors.group                        the share group
    __dlq.errors.delivery.count               how often it was delivered
    __dlq.errors.message                      why: rejected, or the delivery limit reached
    __dlq.errors.state                        of which state of the group it is (`Kept.identity`)

It must be durable before the record is archived; so a crash in between leaves a dead letter of a
record that is still in flight. `newest` finds those at start, and they are archived then, if they are of
the state that is in the log: not of a topic that was deleted and made again, nor from before the group was
sent elsewhere, or deleted. So a record is in the dead-letter topic once. The topic is anybody's who may
write to it, so a letter is believed only if its batch is the broker's own (`BROKER_PRODUCER_ID`), whatever
its headers say.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.shares.dead_records import Origin, Piece, read_pieces, size_of
from headwater.broker.shares.records import Key
from headwater.broker.shares.state import Change, State
from headwater.broker.topic_admission import TopicError
from headwater.log import replay
from headwater.log.partition import PartitionLog, StorageFailed
from headwater.log.replay import Damage
from headwater.record import batch as batches
from headwater.record import dead_letter, records
from headwater.record.batch import BROKER_PRODUCER_ID
from headwater.record.errors import RecordError
from headwater.record.records import Record

if TYPE_CHECKING:
    from headwater.broker.shares.coordinator import ShareCoordinator

logger = logging.getLogger("headwater.broker")

TOPIC_NAME = "errors.deadletterqueue.topic.name"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
AT_WORK = 2
"""So many batches (`dead_records`) are read, and their letters written, at once, whoever has rejected how
much."""
BATCH_BYTES = 512 * 1024
NAME_MAX = 249
LOOK_BACK_MS = 600_000
"""A dead letter and the record of its being archived are written one right after the other; this is
many times what a disk that still works can put between them."""


class Letter(NamedTuple):
    """Where a dead letter came from, and of which state of its group it is."""

    group_id: str
    topic: str
    partition: int
    offset: int
    state: str


class DeadLetters:
    """Writes dead letters, and finds those that a crash left half done."""

    def __init__(self, shares: ShareCoordinator) -> None:
        self._shares = shares
        self._at_work = asyncio.Semaphore(AT_WORK)

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

    async def put(self, origin: Origin, source: Partition, dead: Sequence[Change]) -> None:
        """Durable when done. Raises StorageFailed, TopicError."""
        name = self.topic_of(origin.key.group_id)
        if name is None or name == origin.topic:
            return  # a group that reads its own dead letters would never come to an end
        number = origin.key.partition % await self._ensure(name)
        target = self._shares.node.topics.partitions.get((name, number))
        if target is None:
            raise StorageFailed(f"{name}-{number} is not there")
        pieces = read_pieces(origin, lambda: source.log, sorted(dead))
        while await self._put_some(pieces, source, target):
            pass

    async def _put_some(
        self, pieces: Iterator[Piece], source: Partition, target: Partition
    ) -> bool:
        """The next piece, and all others of the batch that it holds; whether there was one."""
        async with self._at_work:
            while True:
                with source.cold_reads.one():
                    piece = await self._shares.in_thread(next, pieces, None)
                if piece is None:
                    return False
                await self._write(target, piece)
                if not piece.holds_batch:
                    return True

    async def _ensure(self, name: str) -> int:
        catalogue, topics = self._shares.node.catalogue, self._shares.node.topics
        await topics.reserved.over(name)
        if name not in catalogue.topics:
            partitions = self._shares.settings.get("num.partitions")
            try:
                configs = {"message.timestamp.type": "CreateTime"}
                await topics.create(name, partitions, configs)
            except TopicError:
                if name not in catalogue.topics:
                    raise
        return catalogue.topics[name].partitions

    async def _write(self, target: Partition, piece: Piece) -> None:
        now_ms = self._shares.clock.now_ms()
        for chunk in _chunks(piece.letters):
            stamped = [each._replace(offset=n, timestamp=now_ms) for n, each in enumerate(chunk)]
            data = await self._shares.in_thread(_built, stamped, piece.codec)
            offset = target.append(data, batches.read_header(data), now_ms)
            await target.durable(offset + len(stamped))

    # ---- after a crash -----------------------------------------------------------------------------

    def finish(self) -> set[Key]:
        """Archive what has its dead letter already: a crash came between the two."""
        shares, found = self._shares, set[Key]()
        for letter in self.newest() if shares.owners else ():
            topic = shares.node.catalogue.topics.get(letter.topic)
            key = topic and Key(letter.group_id, topic.id, letter.partition)
            owner = key and shares.owners.get(key)
            if not topic or not key or not owner or owner.state is None:
                continue
            # A letter from before an administrator sent the group back is no word on what comes now,
            # nor is one of a topic, or a group, that was deleted and made again.
            is_new = letter.state == shares.states.known[key].identity(key)
            source = owner.source
            is_there = source is not None and 0 <= letter.offset < source.log.durable_offset
            if is_new and is_there and not owner.state.is_settled(letter.offset):
                owner.state.restore([Change(letter.offset, letter.offset, State.ARCHIVED, 0)])
                if key not in found:
                    logger.warning("%s: a crash left dead letters, archived only now", owner)
                found.add(key)
        return found

    def newest(self) -> Iterator[Letter]:
        """The newest dead letters; read once, at start."""
        topics = self._shares.node.topics
        prefix = self._shares.settings.get(PREFIX)
        for (topic, _), partition in topics.partitions.items():
            if not topic.startswith(prefix):
                continue
            try:
                yield from _newest_in(partition)
            except OSError as error:  # of these, a letter may come twice
                partition.report_damage(error)


def _built(stamped: list[Record], codec: int) -> bytes:
    return records.build(stamped, producer_id=BROKER_PRODUCER_ID, codec=codec)


def _chunks(letters: Iterable[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    size = 0
    for letter in letters:
        size += size_of(letter)
        if chunk and size > BATCH_BYTES:
            yield chunk
            chunk, size = [], size_of(letter)
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


def _newest_in(partition: Partition) -> Iterator[Letter]:
    """Strangers may have written very much there: nobody waits for that to be read."""
    begin = _recent(partition.log)
    if begin is None:
        return

    def report(found: Damage) -> None:
        partition.report_damage(str(found))

    for batch in replay.read(partition.log, begin, report, BROKER_PRODUCER_ID):
        yield from _read_letters(batch.records)


def _read_letters(found: Iterable[Record]) -> Iterator[Letter]:
    for record in found:
        said = dead_letter.cause_of(record.headers)
        if said is not None and said.offset >= 0 and "state" in said.more:
            place = (said.topic, said.partition, said.offset)
            yield Letter(said.group, *place, said.more["state"])
