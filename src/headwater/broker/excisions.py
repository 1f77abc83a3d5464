"""True deletion: requests come in on a topic, are carried out, and leave a line in the audit topic.

    __headwater_excisions   one JSON record per request (`headwater excise` writes them)
    __headwater_audit       one JSON record per request that was carried out or refused:
                            who, when, what, why, how many; never the data

The request is in the log before anything happens, and the audit record after everything has: whatever
lies between them at a start was interrupted, and is done again; excising twice is the same as once.
A request names a key by its salted hash only, so this topic holds nothing that would have to be excised.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headwater.broker.child import run_child
from headwater.broker.partition import Partition
from headwater.broker.topics import TopicError
from headwater.log import compaction, excision
from headwater.log.compaction import Plan, Result
from headwater.log.compaction_plan import Source
from headwater.log.excision import Target, Work
from headwater.log.partition import PartitionLog, StorageFailed
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.errors import RecordError

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

REQUESTS = "__headwater_excisions"
AUDIT = "__headwater_audit"
KEPT_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
LOOK_SECONDS = 0.25
RETRY_SECONDS = 5.0


class Refused(Exception):
    """A request that cannot be carried out, now or later."""


class Excisions:
    """Follows the request topic."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        self._position = 0
        self._done: set[str] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            requests = self._broker.partition(REQUESTS, 0)
            if requests is None or requests.log.durable_offset <= self._position:
                continue
            try:
                await self._follow(requests.log)
            except (OSError, StorageFailed, TopicError) as error:
                logger.error("excision: %s; it is tried again", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self, log: PartitionLog) -> None:
        if self._done is None:
            audit = self._broker.partition(AUDIT, 0)
            self._done = {
                str(entry.get("id"))
                for _, entry in (_entries(audit.log, audit.log.start_offset) if audit else ())
                if not entry.get("dry_run")
            }
        for offset, request in _entries(log, max(self._position, log.start_offset)):
            if str(request.get("id")) not in self._done:
                await self._audit(request | await self._carry_out(request))
                self._done.add(str(request.get("id")))
            self._position = offset + 1
        self._position = max(self._position, log.durable_offset)

    async def _carry_out(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            removed = await self._excise(request)
        except Refused as refusal:
            logger.warning("excision %s is refused: %s", request.get("id"), refusal)
            return {"status": "refused", "error": str(refusal)}
        total = sum(removed.values())
        return {"status": "done", "removed": total, "partitions": removed}

    async def _excise(self, request: dict[str, Any]) -> dict[int, int]:
        """Records removed (or, in a dry run, found) in each partition."""
        try:
            topic, target = str(request["topic"]), Target(**request["target"])
            wanted = request.get("partitions")
            dry_run = bool(request.get("dry_run"))
            bytes.fromhex(target.salt + target.digest)
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(f"the request cannot be read: {error!r}") from error
        known = self._broker.catalogue.topics.get(topic)
        if known is None:
            raise Refused(f"there is no topic {topic!r}")
        if topic.startswith("__"):
            raise Refused(f"{topic} belongs to the broker")
        numbers = range(known.partitions) if wanted is None else [int(n) for n in wanted]
        removed: dict[int, int] = {}
        for number in numbers:
            partition = self._broker.partition(topic, number)
            if partition is None:
                raise Refused(f"there is no partition {topic}-{number}")
            removed[number] = await self._excise_partition(partition, target, dry_run)
        return removed

    async def _excise_partition(self, partition: Partition, target: Target, dry_run: bool) -> int:
        async with partition.rewriting, partition.maintenance:
            log = partition.log
            if log.active.size:
                partition.roll(self._broker.clock.now_ms())
            await partition.settle()
            log = partition.log
            segments = [segment for segment in log.segments[:-1] if segment.size]
            work = Work(
                tuple(Source(s.base_offset, s.next_offset, s.size) for s in segments),
                target,
                log.config.index_interval_bytes,
                dry_run,
            )
            outcome = await run_child(excision.command(log.directory), work.to_json())
            result = Result.from_json(outcome)
            for sentence in result.unreadable:
                partition.report_damage(f"not looked into by the excision: {sentence}")
            if result.made:
                plan = _plan(work, segments)
                await self._put_in_place(partition, plan, result)
            return result.records_read - result.records_kept

    async def _put_in_place(self, partition: Partition, plan: Plan, result: Result) -> None:
        loop = asyncio.get_running_loop()
        log, executor = partition.log, self._broker.executor
        cleaned_offset = log.cleaned_offset
        await loop.run_in_executor(executor, self._broker.store.checkpoint)
        exchange = compaction.begin(log, plan, result)
        if exchange is None:
            raise OSError(f"{log.directory} has changed meanwhile")
        try:
            await loop.run_in_executor(executor, exchange.run)
        except OSError:
            await partition.reopen()
            raise
        old = compaction.finish(exchange)
        log.cleaned_offset = cleaned_offset
        await partition.when_unread()
        for segment in old:
            segment.close()

    async def _audit(self, entry: dict[str, Any]) -> None:
        if AUDIT not in self._broker.catalogue.topics:
            await self._broker.topics.create(AUDIT, 1, KEPT_FOR_EVER)
        now_ms = self._broker.clock.now_ms()
        value = json.dumps({**entry, "done_ms": now_ms}, sort_keys=True).encode()
        key = str(entry.get("id")).encode()
        data = records.build([records.Record(0, now_ms, key, value)])
        partition = self._broker.topics.partitions[AUDIT, 0]
        offset = partition.append(data, batches.read_header(data), now_ms)
        await partition.durable(offset + 1)


def _plan(work: Work, segments: list[Any]) -> Plan:
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


def _entries(log: PartitionLog, offset: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON records from `offset` on; what is none is passed over with a word in the log."""
    while offset < log.durable_offset:
        data = bytes(log.read(offset, 1 << 20) or b"")
        before = offset
        for position, header in batches.scan(data):
            for record in records.decode(data, position):
                if record.offset >= offset and (entry := _entry(record)) is not None:
                    yield record.offset, entry
            offset = header.next_offset
        if offset == before:
            return


def _entry(record: records.Record) -> dict[str, Any] | None:
    try:
        entry = json.loads(record.value or b"null")
    except (ValueError, RecordError):
        entry = None
    if not isinstance(entry, dict):
        logger.warning("offset %d is no excision request; it is passed over", record.offset)
        return None
    return entry
