"""Fetch (key 1), versions 4–18: read record batches; KIP-74, KIP-98 (`read_committed`), KIP-227
(sessions), KIP-320, KIP-516.

Reads what is durable from each partition, in turn, until the client's limits are reached. With less
than `min_bytes` at hand the request waits, without a task of its own: partitions that grow count the
bytes up, a timer ends it after `max_wait`. Data that is not in the page cache is read in the disk
threads, so that someone who replays old data makes nobody else wait. The first batch comes whole even
if it is larger than the limits, so that a reader always gets on. The broker's memory budget is a limit,
too: where slow readers hold all that answers may have, the answer is empty, and the next one waits.
A request about very many partitions is worked on in several turns of the event loop; more batches, or
aborted transactions, than a turn has time for (`Allowance`) are looked at in the threads, too.

With `read_committed` nothing at or above the last stable offset is served, and the aborted transactions
that the data touches are named, so that the client leaves their records out. Such a request waits for
the stable offset to move, however much is written meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.fetch_sessions import Asked, FetchSessions, Row, Rows, Session
from headwater.broker.partition import Partition
from headwater.broker.registry import Api, Context, Later, Response
from headwater.broker.slices import SLICE_ELEMENTS, pieces
from headwater.broker.turns import give_way
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.log.allowance import Allowance
from headwater.log.partition import OffsetOutOfRange
from headwater.record.errors import CorruptBatch

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

READ_COMMITTED = 1


def fetch(broker: Broker, request: Any, context: Context) -> Response | Later | Awaitable[Response]:
    by_id = context.api_version >= 13
    if broker.quotas.active:
        request = broker.quotas.bounded(request, context.principal, context.client_id)
    session, asked, error = broker.sessions.resume(request, by_id)
    if error:
        return {"error_code": error, "responses": ()}
    return _Fetch(broker, request, session, asked, context).begin()


@dataclass(slots=True)
class _Reading:
    """How far one look at the partitions has come."""

    left: int
    """Bytes that the answer may still have."""
    first: bool
    """Nothing is in it yet: a batch may be larger than the limits."""
    within: Allowance | None
    """For what is looked at in this turn of the event loop; None: in a thread."""
    rows: Rows = field(default_factory=list)


class _Fetch:
    """One request, from the first look at the logs to its answer."""

    def __init__(
        self,
        broker: Broker,
        request: Any,
        session: Session | None,
        asked: list[Asked],
        context: Context,
    ) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._session = session
        self._asked = asked
        self._by_id = context.api_version >= 13
        self._committed = request.isolation_level == READ_COMMITTED
        self._loop = asyncio.get_running_loop()
        self._later = Later()
        self._timer: asyncio.TimerHandle | None = None
        self._watched: list[Partition] = []
        self._bytes_wanted: int = request.min_bytes
        self._stable: dict[Partition, int] = {}  # how far readers of committed data could last go
        self._open = set[Partition]()  # where a transaction is or was open in this wait

    def begin(self) -> Response | Later | Awaitable[Response]:
        if self._is_long:
            self._later = Later(on_cancel=self._unwatch)
            self._broker.supervisor.spawn("fetches", self._heard(self._long(self._begin_in_slices)))
            return self._later
        rows = self._read(Allowance())
        if rows is None:
            return self._answer_cold()
        if self._is_enough(rows):
            return self._answer(rows)
        self._later = Later(on_cancel=self._unwatch)
        self._watch(self._asked)
        self._wait(rows)
        return self._later

    @property
    def _is_long(self) -> bool:
        """So many partitions that others would have to wait for a look at all of them."""
        return len(self._asked) > SLICE_ELEMENTS

    def _is_enough(self, rows: Rows) -> bool:
        return (
            _size(rows) >= self._request.min_bytes
            or self._request.max_wait.total_seconds() <= 0
            or _has_error(rows)
            or not self._asked
        )

    # ---- in slices -----------------------------------------------------------------------------

    async def _heard(self, work: Awaitable[Response | None]) -> None:
        """Give the answer of this work, if it has one, or say that it failed."""
        try:
            if (answer := await work) is not None:
                self._later.set(answer)
        except Exception as error:
            self._fail(error)

    async def _long(self, look: Callable[[], Awaitable[Response | None]]) -> Response | None:
        turns, looks = self._broker.turns, self._broker.sessions.looks
        async with looks.place(turns.had_by(self._context.connection)):
            return None if self._later.is_cancelled else await look()

    async def _begin_in_slices(self) -> Response | None:
        """The answer; None: it waits for more. What grows while others are looked at counts as well."""
        rows = await self._read_in_slices(watch=True)
        if self._is_enough(rows) or self._broker.stopping:
            self._unwatch()
            return await self._answer_in_slices(rows)
        self._context.reads(-_size(rows))
        self._wait(rows)
        return None

    async def _read_in_slices(self, *, watch: bool = False) -> Rows:
        """Counted from here on: others read in between."""
        reading, held = self._begin_reading(None), 0
        for part in pieces(self._asked, SLICE_ELEMENTS):
            if watch:
                self._watch(part)
            before = reading.left
            reading.within = Allowance()
            if not self._read_some(part, reading):
                rows = reading.rows = await self._read_cold()
                self._context.reads(_size(rows) - held)
                return rows
            held += before - reading.left
            self._context.reads(before - reading.left)
            if not self._broker.memory.answer_bytes():
                reading.left = 0
            await give_way()
        return reading.rows

    async def _answer_in_slices(self, rows: Rows) -> Response:
        changed: Rows = []
        for part in pieces(rows, SLICE_ELEMENTS):
            changed += self._changed(part)
            await give_way()
        return self._grouped(changed)

    async def _look_again(self) -> Response:
        return await self._answer_in_slices(await self._read_in_slices())

    # ---- waiting -------------------------------------------------------------------------------

    def _watch(self, some: Iterable[Asked]) -> None:
        """In the turn in which they are looked at: what comes from then on is heard of."""
        if self._later.is_cancelled:  # the client went while its partitions were looked at
            return
        for asked in some:
            partition = self._partition(asked)
            if partition is not None:
                partition.watchers.add(self)
                self._watched.append(partition)
                self._stable[partition] = partition.log.last_stable_offset()
                self._open |= {partition} if partition.log.producers.has_any_open else set()

    def _wait(self, rows: Rows) -> None:
        if self._later.is_cancelled:
            return
        wait = self._request.max_wait.total_seconds()
        self._timer = self._broker.supervisor.later(wait, "fetches", self._wake)
        self._broker.sessions.waiting.add(self._wake)
        self._bytes_wanted -= _size(rows)
        if self._bytes_wanted <= 0:
            self._wake()

    def grew(self, size: int, partition: Partition) -> None:
        """A partition has more (0: it is gone). Only this one is looked at: many wait, each for many."""
        try:
            if partition.log.producers.has_any_open:
                self._open.add(partition)
            if self._committed and size and partition in self._open:
                self._grew_stable(partition)
                return
        except Exception as error:
            self._fail(error)
            return
        self._bytes_wanted -= size
        if self._bytes_wanted <= 0 or not size:
            self._wake()

    def _grew_stable(self, partition: Partition) -> None:
        """What was written may have to wait for its marker, and a marker may set much free."""
        stable = partition.log.last_stable_offset()
        if stable == self._stable.get(partition):
            return
        self._stable[partition] = stable
        if self._is_long:
            self._wake()
            return
        rows = self._read(Allowance())
        if rows is None or _size(rows) >= self._request.min_bytes or _has_error(rows):
            self._finish(rows)

    def _wake(self) -> None:
        if self._timer is None:  # the others are still looked at: once more, then
            self._bytes_wanted = 0
            return
        try:
            if self._is_long:
                self._unwatch()
                self._broker.supervisor.spawn("fetches", self._heard(self._long(self._look_again)))
            else:
                self._finish(self._read(Allowance()))
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Whoever asked hears of it; those who wait for the same partition have nothing to do with it."""
        self._unwatch()
        self._later.fail(error)

    def _finish(self, rows: Rows | None) -> None:
        self._unwatch()
        if rows is not None:
            self._later.set(self._answer(rows))
        else:
            self._broker.supervisor.spawn("cold reads", self._heard(self._answer_cold()))

    def _unwatch(self) -> None:
        for partition in self._watched:
            partition.watchers.discard(self)
        self._watched = []
        self._broker.sessions.waiting.discard(self._wake)
        if self._timer is not None:
            self._timer.cancel()

    async def _answer_cold(self) -> Response:
        return self._answer(await self._read_cold())

    async def _read_cold(self) -> Rows:
        partitions = [p for p in map(self._partition, self._asked) if p is not None]
        with ExitStack() as reads:
            for partition in partitions:
                reads.enter_context(partition.cold_reads.one())
            rows = await self._loop.run_in_executor(self._broker.executor, lambda: self._read(None))
        assert rows is not None
        return rows

    # ---- reading -------------------------------------------------------------------------------

    def _partition(self, asked: Asked) -> Partition | None:
        if not self._by_id:
            return self._broker.partition(asked.topic, asked.partition)
        topic = self._broker.catalogue.by_id.get(asked.topic)
        return None if topic is None else self._broker.partition(topic.name, asked.partition)

    def _absence(self, asked: Asked) -> ErrorCode:
        if not self._by_id:
            return self._broker.absence(asked.topic, asked.partition)
        topic = self._broker.catalogue.by_id.get(asked.topic)
        gone = ErrorCode.unknown_topic_id
        return gone if topic is None else self._broker.absence(topic.name, asked.partition)

    def _read(self, within: Allowance | None) -> Rows | None:
        """A row for each partition; None if that is not for the event loop to do."""
        reading = self._begin_reading(within)
        return reading.rows if self._read_some(self._asked, reading) else None

    def _begin_reading(self, within: Allowance | None) -> _Reading:
        most, room = (
            self._broker.settings.get("fetch.max.bytes"),
            self._broker.memory.answer_bytes(),
        )
        left = min(getattr(self._request, "max_bytes", 2**31 - 1), most, room)
        return _Reading(left, room > 0, within)

    def _read_some(self, some: Iterable[Asked], reading: _Reading) -> bool:
        """Add a row for each of these; False if that is not for the event loop to do."""
        for asked in some:
            row = self._read_one(asked, reading)
            if row is None:
                return False
            reading.rows.append((asked, row))
            if row["records"]:
                reading.left -= len(row["records"])
                reading.first = False
        return True

    def _read_one(self, asked: Asked, reading: _Reading) -> dict[str, Any] | None:
        partition = self._partition(asked)
        if partition is None:
            return _failed(asked, self._absence(asked))
        log = partition.log
        row: dict[str, Any] = {
            "partition_index": asked.partition,
            "high_watermark": log.durable_offset,
            "last_stable_offset": log.last_stable_offset(),
            "log_start_offset": log.start_offset,
            "aborted_transactions": () if self._committed else None,
            "records": b"",
        }
        wrong = _epoch_error(asked, log.epoch)
        if wrong:
            return row | {"error_code": wrong}
        diverged = _diverging(asked, partition)
        if diverged is not None:
            return row | {"diverging_epoch": diverged}
        limits = asked.fetch_offset, min(asked.size_max, reading.left)
        first, within = reading.first, reading.within
        aborted: list[AbortedTransaction] = []
        try:
            if self._committed:
                data, aborted = log.read_committed(
                    *limits, row["last_stable_offset"], at_least_one=first, within=within
                )
            else:
                data = log.read(*limits, at_least_one=first, within=within)
        except OffsetOutOfRange:
            return row | {"error_code": ErrorCode.offset_out_of_range, "high_watermark": -1}
        except CorruptBatch as error:
            partition.report_damage(error)
            return row | {"error_code": ErrorCode.corrupt_message}
        except OSError as error:  # the disk, or the topic went while it was read
            partition.report_damage(error)
            return row | {"error_code": ErrorCode.kafka_storage_error}
        if data is None:
            return None
        row["records"] = data
        if aborted:
            named = [{"producer_id": who, "first_offset": at} for who, at, _, _ in aborted]
            row["aborted_transactions"] = named
        return row

    # ---- answering -----------------------------------------------------------------------------

    def _answer(self, rows: Rows) -> Response:
        return self._grouped(self._changed(rows))

    def _changed(self, rows: Sequence[Row]) -> Rows:
        """Those that the answer must have."""
        if self._session is None:
            return list(rows)
        changed = FetchSessions.changed(self._session, rows)
        return changed if self._request.session_epoch > 0 else list(rows)

    def _grouped(self, rows: Rows) -> Response:
        topics: dict[Any, list[dict[str, Any]]] = {}
        for asked, row in rows:
            topics.setdefault(asked.topic, []).append(row)
        name = "topic_id" if self._by_id else "topic"
        return {
            "session_id": 0 if self._session is None else self._session.id,
            "responses": [{name: topic, "partitions": parts} for topic, parts in topics.items()],
        }


def _size(rows: Rows) -> int:
    return sum(len(row["records"]) for _, row in rows)


def _has_error(rows: Rows) -> bool:
    return any(row.get("error_code") or "diverging_epoch" in row for _, row in rows)


def _failed(asked: Asked, code: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": asked.partition,
        "error_code": code,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": None,
        "records": b"",
    }


def _epoch_error(asked: Asked, epoch: int) -> ErrorCode:
    if 0 <= asked.leader_epoch < epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch if asked.leader_epoch > epoch else ErrorCode.none


def _diverging(asked: Asked, partition: Partition) -> dict[str, int] | None:
    """KIP-595: what the client read in that epoch may have been cut away by a recovery."""
    if asked.last_fetched_epoch < 0:
        return None
    epoch, end = partition.log.end_of_epoch(asked.last_fetched_epoch)
    if epoch == asked.last_fetched_epoch and end >= asked.fetch_offset:
        return None
    return {"epoch": epoch, "end_offset": end}


API = Api(1, "Fetch", (4, 18), fetch, answer_is_large=True, rows_depth=3)
