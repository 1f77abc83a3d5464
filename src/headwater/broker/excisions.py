"""True deletion: requests come in on a topic, are carried out, and leave a line in the audit topic.

    __headwater_excisions   one JSON record per request (`headwater excise` writes them)
    __headwater_audit       one JSON record per request that was carried out or refused:
                            who, when, what, why, how many; never the data (`authorship`)

The request is in the log before anything happens, and the audit record after everything has: whatever
lies between them at a start was interrupted, and is done again; excising twice is the same as once.
A request is for the topic that it was written for, and for none that was made again under that name. One
that makes no sense is refused, one that fails is tried again; neither holds up others (`excision_progress`).
A request names a key by its salted hash only, so this topic holds nothing that would have to be excised.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from typing import Any

from headwater.broker import authorship, excision_request, internal_topics
from headwater.broker.catalogue import Catalogue, Topic
from headwater.broker.child import run_child
from headwater.broker.excision_progress import ExcisionProgress
from headwater.broker.excision_request import ExcisionRefused, Request
from headwater.broker.internal_topic import InternalTopic
from headwater.broker.maintenance import Maintenance
from headwater.broker.partition import Partition
from headwater.broker.security.authorizer import Authorizer
from headwater.broker.turns import give_way
from headwater.log import copies, excision
from headwater.log.compaction import Plan, Result
from headwater.log.compaction_plan import Source
from headwater.log.excision import Selection, Work
from headwater.log.partition import StorageFailed
from headwater.log.segment import Segment
from headwater.record import records

logger = logging.getLogger("headwater.broker")

REQUESTS = internal_topics.EXCISIONS
AUDIT = internal_topics.AUDIT
LOOK_SECONDS = 0.25
RETRY_SECONDS = 5.0
MADE_AGAIN = (
    "the topic {!r} that this was asked for was deleted, and its records with it; those of a topic that "
    "was made again under that name stay"
)
LEFT_MAX = 20
"""How many places that were left an audit record names."""
COPIES_MAX = 1000
"""The same of files beside the log that nobody has looked into."""


class Excisions:
    """Follows the request topic."""

    def __init__(
        self, maintenance: Maintenance, catalogue: Catalogue, authorizer: Authorizer | None
    ) -> None:
        self._maintenance = maintenance
        self._supervisor = maintenance.supervisor
        self._catalogue = catalogue
        self._authorizer = authorizer
        topics, self._now_ms = maintenance.topics, maintenance.clock.now_ms
        self._requests = InternalTopic(REQUESTS, topics, self._now_ms)
        self._audit_topic = InternalTopic(AUDIT, topics, self._now_ms)
        self._task: asyncio.Task[None] | None = None
        self._topic_id = ""
        self._position = 0
        self._answered: set[tuple[str, str]] = set()
        """Requests (`topic id:offset`, id) that the audit has an answer to. With durability=os a power
        cut may take a request that was answered, and another then gets its offset."""
        self._ids: set[str] = set()
        """Ids of requests that were carried out or refused for good."""
        self._again: dict[str, records.Record] = {}
        """Requests that failed, by place; they are tried again, and keep no other from its turn."""
        self._again_at = 0.0
        self._meant: dict[str, uuid.UUID] = {}
        """Place of a request → the topic that had its name when it was first looked at."""
        self._progress = ExcisionProgress(catalogue)

    def start(self) -> None:
        self._task = self._supervisor.every("excisions", lambda: LOOK_SECONDS, self._look)

    async def stop(self) -> None:
        await self._supervisor.end(self._task)

    # ---- following -----------------------------------------------------------------------------

    async def _look(self) -> None:
        topic = self._catalogue.topics.get(REQUESTS)
        if topic is None or not self._requests.partitions():
            return
        if str(topic.id) != self._topic_id:  # the first look, or it was deleted and made again
            await self._read_audit()
            self._topic_id, self._position, self._again, self._meant = str(topic.id), 0, {}, {}
            self._progress.open(self._topic_id)
            since = self._requests.replay_from(offset=max(0, self._progress.last))
            self._progress.trust(record for batch in since for record in batch.records)
        await self._try_again()
        end = self._requests.partition().log.durable_offset
        if self._position >= end:
            return
        for batch in self._requests.replay_from(offset=self._position):
            for record in batch.records:
                if not self._progress.is_answered(record.offset):
                    await self._take(f"{self._topic_id}:{record.offset}", record)
                    await self._note(record)
                self._position = record.offset + 1
        self._position = max(self._position, end)

    async def _note(self, record: records.Record | None) -> None:
        left = {_offset(place): str(self._meant.get(place, "")) for place in self._again}
        with self._supervisor.duty("excisions", "noting what is answered"):
            await self._progress.note(record, left)

    async def _try_again(self) -> None:
        loop = asyncio.get_running_loop()
        if self._again and loop.time() >= self._again_at:
            for place, record in tuple(self._again.items()):
                await self._take(place, record)
            await self._note(None)
            self._again_at = loop.time() + RETRY_SECONDS

    async def _read_audit(self) -> None:
        for batch in self._audit_topic.replay_from():
            for record in batch.records:
                self._know(_line(record))
            await give_way()  # it may be long, and nobody is to wait for it

    def _know(self, line: dict[str, Any]) -> None:
        self._answered.add((str(line.get("request")), str(line.get("id"))))
        if not line.get("dry_run"):
            self._ids.add(str(line.get("id")))

    async def _take(self, place: str, record: records.Record) -> None:
        """One request, to its audit record; whatever goes wrong is its own trouble."""
        self._again.pop(place, None)
        told = excision_request.told(record.value)
        if (place, str(told.get("id"))) in self._answered:
            return
        with self._supervisor.duty("excisions", f"request at offset {record.offset}"):
            self._again[place] = record
            line = {**authorship.told(told, record.headers), "request": place}
            line |= await self._carry_out(place, record)
            await self._audit(line)
            self._know(line)
            del self._again[place]
        if place in self._again:
            self._again_at = asyncio.get_running_loop().time() + RETRY_SECONDS

    # ---- carrying out --------------------------------------------------------------------------

    async def _carry_out(self, place: str, record: records.Record) -> dict[str, Any]:
        try:
            request = excision_request.read(record.value)
            authorship.check_right(self._authorizer, record.headers, request.topic)
            if request.id in self._ids:
                raise ExcisionRefused("there was a request with this id before")
            topic = self._topic_of(request, place, record)
            removed, left = await self._excise(request, topic)
            beside = (store := self._maintenance.store).files, store.root, topic.name, list(removed)
            found = await self._maintenance.in_thread(copies.beside, *beside)
        except ExcisionRefused as refusal:
            logger.warning("the excision at offset %d is refused: %s", record.offset, refusal)
            return {"status": "refused", "error": str(refusal)}
        line = {"status": "done", "removed": sum(removed.values()), "partitions": removed}
        if found:  # nobody reads them, so nothing is taken out of them
            line |= {"copies": found[:COPIES_MAX], "copies_count": len(found)}
        if left:
            why = f"not all could be looked into: {left[0]}. Repair it (`headwater check`), and ask again"
            line |= {"status": "incomplete", "left": left[:LEFT_MAX], "error": why}
            logger.error("the excision at offset %d is incomplete: %s", record.offset, left[0])
        return line

    def _topic_of(self, request: Request, place: str, record: records.Record) -> Topic:
        """The topic that the request was written for. Raises ExcisionRefused if it is no more."""
        known = self._catalogue.topics.get(request.topic)
        if known is None:
            raise ExcisionRefused(f"there is no topic {request.topic!r}")
        if not internal_topics.excisable(request.topic):
            raise ExcisionRefused(f"{request.topic} belongs to the broker")
        kept = self._progress.meant(_offset(place))
        first_seen = self._meant.setdefault(place, uuid.UUID(kept) if kept else known.id)
        meant = request.topic_id or first_seen
        is_older = request.topic_id is None and record.timestamp < known.created_ms
        if meant != known.id or is_older:
            raise ExcisionRefused(MADE_AGAIN.format(request.topic))
        return known

    async def _excise(self, request: Request, known: Topic) -> tuple[dict[int, int], list[str]]:
        """Records removed (or, in a dry run, found) in each partition; what was left, and why."""
        topic = known.name
        numbers = range(known.partitions) if request.partitions is None else request.partitions
        missing = [number for number in numbers if number >= known.partitions]
        if missing:
            raise ExcisionRefused(f"there is no partition {topic}-{missing[0]}")
        removed: dict[int, int] = {}
        left: list[str] = []
        for number in numbers:
            partition = self._maintenance.topics.partitions.get((topic, number))
            if known.id not in self._catalogue.by_id:
                raise ExcisionRefused(MADE_AGAIN.format(topic))
            if (topic, number) in self._maintenance.topics.offline:
                raise StorageFailed(self._maintenance.topics.offline[topic, number])  # tried again
            if partition is None:
                raise ExcisionRefused(f"there is no partition {topic}-{number}")
            result = await self._excise_partition(partition, request.target, request.dry_run)
            removed[number] = result.records_read - result.records_kept
            left += [*result.damaged, *result.unreadable]
        return removed, left

    async def _excise_partition(
        self, partition: Partition, target: Selection, dry_run: bool
    ) -> Result:
        async with partition.rewriting:
            if partition.log.active.size:
                partition.roll(self._now_ms())
            log, end_offset = partition.log, partition.log.next_offset
            await partition.flushed()
            if partition.failed is not None:
                raise StorageFailed(str(partition.failed))  # tried again
            segments = [s for s in log.segments[:-1] if s.size and s.next_offset <= end_offset]
            work = Work(
                tuple(Source(s.base_offset, s.next_offset, s.size) for s in segments),
                target,
                log.config.index_interval_bytes,
                dry_run,
                tuple(entry for segment in segments for entry in segment.aborted),
            )
            told = await self._maintenance.in_thread(work.to_json)
            result = Result.from_json(await run_child(excision.command(log.directory), told))
            for sentence in (*result.damaged, *result.unreadable):
                partition.report_damage(f"not looked into by the excision: {sentence}")
            if result.made and not await self._maintenance.put_in_place(
                partition, _plan(work, segments), result, keeps_dirty=True
            ):
                raise OSError(f"{log.directory} has changed meanwhile")  # retention was quicker
            return result

    async def _audit(self, line: dict[str, Any]) -> None:
        await self._audit_topic.ensure()
        value = json.dumps({**line, "done_ms": self._now_ms()}, sort_keys=True).encode()
        key = str(line.get("id", line["request"])).encode("utf-8", "replace")
        await self._audit_topic.stage(self._audit_topic.partition(), [(key, value)]).durable()


def _plan(work: Work, segments: list[Segment]) -> Plan:
    """What `compaction.begin` wants to know: which segments the new ones were made from."""
    return Plan(
        groups=tuple((source,) for source in work.sources),
        first_dirty_offset=0,
        now_ms=0,
        delete_retention_ms=0,
        index_interval_bytes=work.index_interval_bytes,
        producers={},
        segments=tuple(segments),
    )


def _offset(place: str) -> int:
    return int(place.rpartition(":")[2])


def _line(record: records.Record) -> dict[str, Any]:
    try:
        line = json.loads(record.value or b"null")
    except (ValueError, RecursionError):
        line = None
    return line if isinstance(line, dict) else {}
