"""One ShareFetch: deliver to a member what there is, or wait for it.

The handler `api.k78_share_fetch` makes one of these for each request. Data is read as whole batches,
at most a megabyte at a time, and only the batches in which something was acquired are sent. A request
that finds nothing waits, woken by new records and by records that somebody gave back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from headwater.broker.partition import Partition
from headwater.broker.shares import acknowledgement
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.shares.partition_owner import PartitionOwner
from headwater.broker.shares.records import Key
from headwater.broker.shares.sessions import Place, Session
from headwater.broker.shares.state import Ack, Acknowledgement, Acquired, Batch, SharePartition
from headwater.broker.turns import Pace
from headwater.log.aborted_transactions import AbortedTransaction, among
from headwater.log.allowance import Allowance
from headwater.log.partition import OffsetOutOfRange, StorageFailed
from headwater.record import batch as batches
from headwater.record.errors import CorruptBatch
from headwater.record.varint import Buffer

READ_BYTES_MAX = 1024 * 1024
T = TypeVar("T")


class Wanted(NamedTuple):
    """The request's limits."""

    wait_ms: int
    bytes_min: int
    bytes_max: int
    records_max: int
    batch_size: int
    exactly: bool


class Row(NamedTuple):
    """What one partition has for the member."""

    place: Place
    error: ErrorCode = ErrorCode.none
    records: list[Buffer] = []  # noqa: RUF012  (never changed)
    acquired: Sequence[Acquired] = ()


class _Read(NamedTuple):
    owner: PartitionOwner
    state: SharePartition
    offset: int
    data: bytes
    aborted: list[AbortedTransaction]
    """Found together with the data: by the time of delivery, retention may have taken the list away."""


class ShareFetch:
    """One request, from the first look at the logs to its rows."""

    def __init__(
        self,
        shares: ShareCoordinator,
        session: Session,
        wanted: Wanted,
        holds: Callable[[int], None] = lambda size: None,
    ) -> None:
        """`holds` is told of bytes that are read for the answer, or given back."""
        self._shares = shares
        self._holds = holds
        self._held = 0
        self._session = session
        self._member = session.key.member_id
        self._wanted = wanted
        self._more = asyncio.Event()
        self._pace = Pace(shares.node.supervisor.monotonic)
        self._unwatch: list[Callable[[], None]] = []

    async def run(self) -> list[Row]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wanted.wait_ms / 1000
        try:
            while True:
                self._more.clear()
                last = loop.time() >= deadline or self._shares.node.is_stopping()
                rows = await self._collect(at_least=0 if last else self._wanted.bytes_min)
                if rows or last or not self._session.places:
                    return rows
                self._hold(-self._held)
                if not await self._watches():
                    await self._pause(deadline - loop.time())
        finally:
            for unwatch in self._unwatch:
                unwatch()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._more.wait()
        except TimeoutError:
            pass

    def _hold(self, size: int) -> None:
        self._held += size
        self._holds(size)

    # ---- waiting -----------------------------------------------------------------------------------

    def grew(self, size: int, partition: Partition) -> None:
        """A partition has more, or is gone."""
        self._more.set()

    async def _watches(self) -> bool:
        """Whether it has begun to: others had turns since it looked, and what they brought woke nobody, so
        there is to be one more look."""
        if self._unwatch:
            return False
        self._wakes(self._shares.wakers, self._more.set)
        for topic_id, number in tuple(self._session.places):
            topic = self._shares.node.catalogue.by_id.get(topic_id)
            partition = topic and self._shares.node.topics.partitions.get((topic.name, number))
            if topic and partition:
                self._wakes(partition.watchers, self)
                owner = self._shares.owners.get(Key(self._session.key.group_id, topic_id, number))
                if owner is not None:  # else nobody can give anything back
                    self._wakes(owner.waiting, self._more.set)
            await self._pace.rest()
        return True

    def _wakes(self, those: set[T], waker: T) -> None:
        those.add(waker)
        self._unwatch.append(partial(those.discard, waker))

    # ---- collecting --------------------------------------------------------------------------------

    async def _collect(self, at_least: int) -> list[Row]:
        """Rows of those partitions that have something, or an error."""
        rows: list[Row] = []
        reads: list[tuple[Place, _Read]] = []
        places = self._session.rotate()
        share = max(self._wanted.bytes_max // max(len(places), 1), 1)
        for place in places:
            if not self._has_room():
                break
            found = await self._read(place, share)
            if isinstance(found, ErrorCode):
                rows.append(Row(place, found))
            elif found is not None:
                reads.append((place, found))
            await self._pace.rest()
        if not rows and sum(len(read.data) for _, read in reads) < at_least:
            return []
        left = self._wanted.records_max
        for place, read in reads:
            row = await self._deliver(place, read, left, share) if left > 0 else None
            if row is not None:
                rows.append(row)
                left -= sum(each.last - each.first + 1 for each in row.acquired)
            await self._pace.rest()
        return rows

    def _has_room(self) -> bool:
        """Whether to read more, although the first batch of each partition comes whole."""
        is_within = self._held < self._wanted.bytes_max
        return not self._held or (is_within and self._shares.node.memory.answer_bytes() > 0)

    async def _deliver(self, place: Place, read: _Read, left: int, share: int) -> Row | None:
        """Acquire from what was read, and read on while there is room."""
        pieces: list[Buffer] = []
        taken: list[Acquired] = []
        bytes_left = share
        found: _Read | ErrorCode | None = read
        while isinstance(found, _Read) and left > 0:
            before = found.offset
            got, parts = self._acquire(found, left)
            taken += got
            pieces += parts
            left -= sum(each.last - each.first + 1 for each in got)
            bytes_left -= sum(map(len, parts))
            if bytes_left <= 0 or not self._has_room():
                break
            await self._pace.rest()  # what is in memory is read and delivered without a wait
            found = await self._read(place, bytes_left, at_least_one=not taken)
            if isinstance(found, _Read) and found.offset <= before and not got:
                break
        return Row(place, ErrorCode.none, pieces, taken) if taken else None

    def _acquire(self, read: _Read, left: int) -> tuple[list[Acquired], list[Buffer]]:
        if not self._shares.sessions.has(self._session):
            return [], []  # what it held was given back meanwhile; nobody would do it again
        wanted = self._wanted
        found: list[Batch] = []
        void: list[Batch] = []
        is_aborted = among(read.aborted) if read.aborted else None
        for position, header in batches.scan(read.data):
            found.append(Batch(header.base_offset, header.last_offset, position + header.size))
            is_data = header.is_transactional and not header.is_control
            if is_aborted is not None and is_data and is_aborted(header):
                void.append(found[-1])
        taken = read.owner.acquire(
            self._member, found, read.offset, left, wanted.batch_size, wanted.exactly, read.state
        )
        if void and taken:
            taken = self._without(read, taken, void)
        return taken, list(acknowledgement.parts(memoryview(read.data), found, taken))

    async def _read(
        self, place: Place, size: int, at_least_one: bool = True
    ) -> _Read | ErrorCode | None:
        """Bytes from where the group goes on; None: there are none."""
        topic_id, number = place
        topic = self._shares.node.catalogue.by_id.get(topic_id)
        if topic is None:
            return ErrorCode.unknown_topic_id
        if not self._shares.has(self._session.key.group_id):
            return None  # nobody has joined: there is no group that could begin anywhere
        partition = self._shares.node.topics.partitions.get((topic.name, number))
        if partition is None:
            return self._shares.node.topics.absence(topic.name, number)
        try:
            key = Key(self._session.key.group_id, topic_id, number)
            owner = self._shares.owner(key, topic.name)
            state = await owner.open()
            offset = state.next_offset(owner.limits())
            if offset is None or offset >= partition.log.durable_offset:
                return None
            data, aborted = await self._bytes(
                partition, offset, min(size, READ_BYTES_MAX), at_least_one
            )
        except OffsetOutOfRange:
            return None  # retention was quicker; the next look begins at the log's start
        except (StorageFailed, OSError) as error:
            partition.report_damage(error)
            return ErrorCode.kafka_storage_error
        except CorruptBatch as error:
            partition.report_damage(error)
            return ErrorCode.corrupt_message
        return _Read(owner, state, offset, data, aborted) if data else None

    async def _bytes(
        self, partition: Partition, offset: int, size: int, at_least_one: bool
    ) -> tuple[bytes, list[AbortedTransaction]]:
        """Whole batches, and the aborted transactions among them that the group is not to see."""
        log, upper = partition.log, self._upper(partition)

        def read(within: Allowance | None) -> tuple[Buffer | None, list[AbortedTransaction]]:
            if upper is None:
                return log.read(offset, size, at_least_one=at_least_one, within=within), []
            return log.read_committed(offset, size, upper, at_least_one=at_least_one, within=within)

        data, aborted = read(Allowance())
        if data is None:
            with partition.cold_reads.one():
                cold = self._shares.in_thread(read, None)
                reading = self._shares.node.supervisor.spawn("share fetches", cold)
                try:
                    data, aborted = await asyncio.shield(reading)
                except asyncio.CancelledError:  # what is being read stays open until it is
                    await asyncio.gather(reading, return_exceptions=True)
                    raise
        self._hold(len(data or b""))
        return bytes(data or b""), aborted

    # ---- transactions ------------------------------------------------------------------------------

    def _reads_committed(self) -> bool:
        group_id = self._session.key.group_id
        level: str = self._shares.settings.group(group_id, "share.isolation.level")
        return level == "read_committed"

    def _upper(self, partition: Partition) -> int | None:
        return partition.log.last_stable_offset() if self._reads_committed() else None

    def _without(self, read: _Read, taken: list[Acquired], void: list[Batch]) -> list[Acquired]:
        """Take out what was aborted: no member ever sees it, so the broker settles it itself."""
        gaps = [
            Acknowledgement(first, last, [Ack.GAP])
            for first, last in acknowledgement.common(taken, void)
        ]
        self._shares.spawn(read.owner.acknowledge(self._member, gaps))
        return acknowledgement.rest(taken, gaps)
