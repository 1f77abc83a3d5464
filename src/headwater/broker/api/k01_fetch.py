"""Fetch (key 1), versions 4–18: read record batches; KIP-74, KIP-98 (`read_committed`), KIP-227
(sessions), KIP-320, KIP-516.

Reads what is durable from each partition, in turn, until the client's limits are reached. With less
than `min_bytes` at hand the request waits, without a task of its own: partitions that grow count the
bytes up, a timer ends it after `max_wait`. Data that is not in the page cache is read in the disk
threads, so that someone who replays old data makes nobody else wait. The first batch comes whole even
if it is larger than the limits, so that a reader always gets on. The broker's memory budget is a limit,
too: where slow readers hold all that answers may have, the answer is empty, and the next one waits.

With `read_committed` nothing at or above the last stable offset is served, and the aborted transactions
that the data touches are named, so that the client leaves their records out. Such a request waits for
the stable offset to move, however much is written meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.fetch_sessions import Asked, FetchSessions, Rows, Session
from headwater.broker.partition import Partition
from headwater.broker.registry import Api, Context, Later, Response
from headwater.log.partition import OffsetOutOfRange
from headwater.record import batch as batches
from headwater.record.batch import HEADER_BYTES
from headwater.record.errors import CorruptBatch
from headwater.record.varint import Buffer

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
    return _Fetch(broker, request, session, asked, by_id).begin()


class _Fetch:
    """One request, from the first look at the logs to its answer."""

    __slots__ = (
        "_asked",
        "_broker",
        "_bytes_wanted",
        "_by_id",
        "_committed",
        "_later",
        "_loop",
        "_request",
        "_session",
        "_stable",
        "_timer",
        "_watched",
    )

    def __init__(
        self, broker: Broker, request: Any, session: Session | None, asked: list[Asked], by_id: bool
    ) -> None:
        self._broker = broker
        self._request = request
        self._session = session
        self._asked = asked
        self._by_id = by_id
        self._committed = request.isolation_level == READ_COMMITTED
        self._loop = asyncio.get_running_loop()
        self._later = Later()
        self._timer: asyncio.TimerHandle | None = None
        self._watched: list[Partition] = []
        self._bytes_wanted = 0
        self._stable: list[int] = []

    def begin(self) -> Response | Later | Awaitable[Response]:
        rows = self._read(cached_only=True)
        if rows is None:
            return self._read_cold()
        size = _size(rows)
        wait = self._request.max_wait.total_seconds()
        if size >= self._request.min_bytes or wait <= 0 or _has_error(rows) or not self._asked:
            return self._answer(rows)
        return self._wait(size, wait)

    # ---- waiting -------------------------------------------------------------------------------

    def _wait(self, size: int, seconds: float) -> Later:
        self._later = Later(on_cancel=self._unwatch)
        self._bytes_wanted = self._request.min_bytes - size
        self._timer = self._broker.supervisor.later(seconds, "fetches", self._wake)
        self._broker.sessions.waiting.add(self._wake)
        for asked in self._asked:
            partition = self._partition(asked)
            if partition is not None:
                partition.watchers.add(self)
                self._watched.append(partition)
        if self._committed and self._is_held_back():
            self._stable = self._stable_offsets()
        return self._later

    def _is_held_back(self) -> bool:
        """Is, or was, a transaction open in any of the partitions since the wait began?"""
        return bool(self._stable) or any(p.log.producers.has_any_open for p in self._watched)

    def _stable_offsets(self) -> list[int]:
        return [partition.log.last_stable_offset() for partition in self._watched]

    def grew(self, size: int) -> None:
        """A partition has more; a size of nothing means that it is gone."""
        try:
            if self._committed and size and self._is_held_back():
                self._grew_stable()
                return
        except Exception as error:
            self._fail(error)
            return
        self._bytes_wanted -= size
        if self._bytes_wanted <= 0 or not size:
            self._wake()

    def _grew_stable(self) -> None:
        """What was written may have to wait for its marker, and a marker may set much free."""
        stable = self._stable_offsets()
        if stable == self._stable:
            return
        self._stable = stable
        rows = self._read(cached_only=True)
        if rows is None or _size(rows) >= self._request.min_bytes or _has_error(rows):
            self._finish(rows)

    def _wake(self) -> None:
        try:
            self._finish(self._read(cached_only=True))
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
            self._broker.supervisor.spawn("cold reads", self._read_later())

    async def _read_later(self) -> None:
        try:
            answer = await self._read_cold()
        except Exception as error:
            self._later.fail(error)
        else:
            self._later.set(answer)

    def _unwatch(self) -> None:
        for partition in self._watched:
            partition.watchers.discard(self)
        self._watched = []
        self._broker.sessions.waiting.discard(self._wake)
        if self._timer is not None:
            self._timer.cancel()

    async def _read_cold(self) -> Response:
        partitions = [p for p in map(self._partition, self._asked) if p is not None]
        for partition in partitions:
            partition.cold_reads += 1
        try:
            rows = await self._loop.run_in_executor(
                self._broker.executor, lambda: self._read(cached_only=False)
            )
        finally:
            for partition in partitions:
                partition.cold_reads -= 1
        assert rows is not None
        return self._answer(rows)

    # ---- reading -------------------------------------------------------------------------------

    def _partition(self, asked: Asked) -> Partition | None:
        if not self._by_id:
            return self._broker.partition(asked.topic, asked.partition)
        topic = self._broker.catalogue.by_id.get(asked.topic)
        return None if topic is None else self._broker.partition(topic.name, asked.partition)

    def _read(self, *, cached_only: bool) -> Rows | None:
        """A row for each partition; None if the disk would have to be waited for."""
        room = self._broker.memory.answer_bytes()
        left = min(
            getattr(self._request, "max_bytes", 2**31 - 1),
            self._broker.settings.get("fetch.max.bytes"),
            room,
        )
        rows: Rows = []
        first = room > 0
        for asked in self._asked:
            row = self._read_one(asked, left, first, cached_only)
            if row is None:
                return None
            rows.append((asked, row))
            if row["records"]:
                left -= len(row["records"])
                first = False
        return rows

    def _read_one(
        self, asked: Asked, left: int, first: bool, cached_only: bool
    ) -> dict[str, Any] | None:
        partition = self._partition(asked)
        if partition is None:
            known = not self._by_id or asked.topic in self._broker.catalogue.by_id
            return _failed(
                asked,
                ErrorCode.unknown_topic_or_partition if known else ErrorCode.unknown_topic_id,
            )
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
        try:
            data = log.read(
                asked.fetch_offset,
                min(asked.size_max, left),
                at_least_one=first,
                upper=row["last_stable_offset"] if self._committed else None,
                cached_only=cached_only,
            )
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
        if self._committed and data:
            end = min(_end_offset(data), row["last_stable_offset"])
            row["aborted_transactions"] = [
                {"producer_id": each.producer_id, "first_offset": each.first_offset}
                for each in log.aborted_between(asked.fetch_offset, end)
            ]
        return row

    # ---- answering -----------------------------------------------------------------------------

    def _answer(self, rows: Rows) -> Response:
        session_id = 0
        if self._session is not None:
            session_id = self._session.id
            if self._request.session_epoch > 0:
                rows = FetchSessions.changed(self._session, rows)
            else:
                FetchSessions.changed(self._session, rows)
        topics: dict[Any, list[dict[str, Any]]] = {}
        for asked, row in rows:
            topics.setdefault(asked.topic, []).append(row)
        name = "topic_id" if self._by_id else "topic"
        return {
            "session_id": session_id,
            "responses": [{name: topic, "partitions": parts} for topic, parts in topics.items()],
        }


def _end_offset(data: Buffer) -> int:
    """The offset behind the last batch that is at least begun in `data`."""
    position = end = 0
    while position + HEADER_BYTES <= len(data):
        header = batches.read_header(data, position)
        position, end = position + header.size, header.next_offset
    return end


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


API = Api(1, "Fetch", (4, 18), fetch, answer_is_large=True)
