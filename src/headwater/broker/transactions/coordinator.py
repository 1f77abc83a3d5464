"""The transaction coordinator as the broker and its handlers see it.

One event loop owns it. A request is decided by `moves`; `state_manager` writes the new value, unless the
one that was looked at has changed meanwhile, and the answer waits until it is durable.

The end of a transaction has three durable steps, and a crash between any two of them is mended at the
next start, because what is written so far says what is missing:

    1  PrepareCommit or PrepareAbort         from here on it can only end this way
    2  a marker in every partition           written again if there is any doubt
    3  CompleteCommit or CompleteAbort       the producer may begin the next one

EndTxn is answered after step 3 (Kafka answers after step 1, and then makes the client try again until
step 3 is done). With transaction version 2 a Produce adds its partition by itself: the batch and the
record of the addition are staged together and acknowledged when both are durable. Should a crash keep
the batch without the record, `_adopt_strays` makes up for it at the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.catalogue import Catalogue
from headwater.broker.clock import Clock
from headwater.broker.partition import Partition
from headwater.broker.settings import Settings
from headwater.broker.supervisor import Supervisor
from headwater.broker.transactions import moves
from headwater.broker.transactions.markers import Marker, Markers
from headwater.broker.transactions.moves import Move, Producer
from headwater.broker.transactions.state_manager import Overtaken, StateManager, Written
from headwater.broker.transactions.state_topic import StateTopic
from headwater.broker.transactions.transaction import (
    NO_EPOCH,
    NO_ID,
    TopicPartition,
    Transaction,
)
from headwater.log.partition import StorageFailed

logger = logging.getLogger("headwater.broker")

RETRY_SECONDS = 1.0


class TransactionCoordinator:
    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        catalogue: Catalogue,
        store: StateTopic,
        markers: Markers,
        partitions: Callable[[], Iterable[Partition]],
        supervisor: Supervisor,
    ) -> None:
        self.markers = markers
        self._settings = settings
        self._clock = clock
        self._catalogue = catalogue
        self._store = store
        self._partitions = partitions
        self._supervisor = supervisor
        self._state = StateManager(store, prepared=self._begin_ending, lost=self._values_lost)
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._is_adopting = False
        self._has_strays = False
        """The disk refused to let batches join their transactions again: to be tried once more."""

    # ---- life ----------------------------------------------------------------------------------

    @property
    def transactions(self) -> dict[str, Transaction]:
        """By transactional id; only to be read by others."""
        return self._state.values

    def load(self) -> None:
        """Read everything that is durable."""
        self._state.load()

    def start(self) -> None:
        """Finish what was decided before the broker stopped, and watch the time from now on."""
        self._values_lost()
        for name, known in list(self.transactions.items()):
            if known.is_prepared:
                self._begin_ending(name)
        run = self._supervisor.run
        self._tasks.add(run("transaction time-outs", self._abort_overdue))
        self._tasks.add(run("transactional id expiry", self._forget_expired))

    async def stop(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        ending = list(self._ending.values())
        for task in ending:
            task.cancel()
        await asyncio.gather(*self._tasks, *ending, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = self._supervisor.spawn("transactions", work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _adopt_strays(self) -> None:
        """Transactions that are open in a partition and unknown here would hold its readers forever.

        The producer still is in that epoch: the batch was added to its transaction, and only the
        record of that was lost. Otherwise nobody will ever end it, so it is aborted.
        """
        self._catch_up()
        owners = {known.producer_id: known for known in self.transactions.values()}
        for partition in self._partitions():
            for producer_id in list(partition.log.producers.open_transactions):
                name = owners[producer_id].id if producer_id in owners else ""
                self._adopt(partition, producer_id, self.transactions.get(name))

    def _catch_up(self) -> None:
        """A value must never be behind the partitions: its markers and its producer would be fenced."""
        owners = {known.producer_id: known for known in self.transactions.values()}
        newest: dict[str, int] = {}
        open_in: dict[str, set[TopicPartition]] = {}
        for partition in self._partitions():
            for producer_id, found in partition.log.producers.by_id.items():
                known = owners.get(producer_id)
                if known is not None and found.epoch > known.epoch:
                    newest[known.id] = max(found.epoch, newest.get(known.id, NO_EPOCH))
                    if found.transaction_start >= 0:
                        open_in.setdefault(known.id, set()).add((partition.topic, partition.number))
        for name, epoch in newest.items():
            logger.warning("transaction %s: values were lost, up to epoch %d", name, epoch)
            known = self.transactions[name]
            where = frozenset(open_in.get(name, ()))
            caught_up = moves.catch_up(known, epoch, where, self._clock.now_ms())
            self._state.change(name, known, caught_up)

    def _adopt(self, partition: Partition, producer_id: int, known: Transaction | None) -> None:
        where = (partition.topic, partition.number)
        found = partition.log.producers.by_id[producer_id]
        if known is not None and where in known.partitions:
            return
        producer = Producer(producer_id, found.epoch)
        move = moves.add(known, producer, [where], 2, self._clock.now_ms())
        if move.value is not None:
            logger.warning("%s-%d: a batch joins transaction %s again", *where, move.value.id)
            self._state.change(move.value.id, known, move.value)
        else:
            logger.warning("%s-%d: a transaction that nobody knows is aborted", *where)
            marker = Marker(*producer, False, max(0, found.coordinator_epoch))
            self._spawn(self._abort_stray(marker, where))

    async def _abort_stray(self, marker: Marker, where: TopicPartition) -> None:
        errors = await self.markers.write(marker, [where])
        if ErrorCode.kafka_storage_error in errors.values():
            self._has_strays = True

    # ---- writing -------------------------------------------------------------------------------

    def _values_lost(self) -> None:
        """A crash has taken values, or the disk has refused them and memory went back: batches may have
        lost theirs. What the disk refuses now is tried again later (`abort_overdue`)."""
        if self._is_adopting:
            return  # it has refused what this very look has written
        self._is_adopting, self._has_strays = True, False
        try:
            self._adopt_strays()
        except StorageFailed:
            self._has_strays = True
        finally:
            self._is_adopting = False

    async def _carry_out(self, name: str, seen: Transaction | None, move: Move) -> ErrorCode:
        """Write what was decided and wait for it; an error that was decided stands."""
        if move.value is not None:
            try:
                self._state.change(name, seen, move.value)
            except StorageFailed:
                return ErrorCode.coordinator_not_available
            except Overtaken:
                return ErrorCode.concurrent_transactions
        elif move.error is not ErrorCode.none:
            return move.error
        failed = await self._state.durable(name)
        if failed is not ErrorCode.none:
            return failed
        if move.value is not None and move.value.is_prepared:
            await self._ended(name)
        return move.error

    # ---- what handlers ask for -------------------------------------------------------------------

    @property
    def refusal(self) -> ErrorCode:
        return ErrorCode.coordinator_not_available if self._stopping else ErrorCode.none

    async def init(
        self, name: str, timeout_ms: int, expected: Producer | None
    ) -> tuple[ErrorCode, Producer]:
        """A producer's id and epoch."""
        nobody = Producer(NO_ID, NO_EPOCH)
        if not 0 < timeout_ms <= self._settings.get("transaction.max.timeout.ms"):
            return ErrorCode.invalid_transaction_timeout, nobody
        try:
            await self._store.ensure()
            new_id = NO_ID
            if moves.needs_new_id(self.transactions.get(name), expected):
                new_id = await self._catalogue.next_producer_id()
        except StorageFailed:
            return ErrorCode.coordinator_not_available, nobody
        known, now_ms = self.transactions.get(name), self._clock.now_ms()
        if new_id == NO_ID and moves.needs_new_id(known, expected):
            return ErrorCode.concurrent_transactions, nobody  # things have changed meanwhile
        move = moves.init(known, name, timeout_ms, expected, new_id, now_ms)
        error = await self._carry_out(name, known, move)
        if error is not ErrorCode.none or move.value is None:
            return error, nobody
        return error, Producer(move.value.producer_id, move.value.epoch)

    async def add(
        self, name: str, producer: Producer, partitions: Iterable[TopicPartition], version: int
    ) -> ErrorCode:
        """Add partitions to the producer's transaction; begins it if there is none."""
        known = self.transactions.get(name)
        move = moves.add(known, producer, partitions, version, self._clock.now_ms())
        return await self._carry_out(name, known, move)

    def add_now(
        self, name: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> tuple[ErrorCode, Written | None]:
        """The same without waiting, for a Produce that waits for its batches anyway."""
        known = self.transactions.get(name)
        move = moves.add(known, producer, partitions, 2, self._clock.now_ms())
        if move.value is not None:
            try:
                self._state.change(name, known, move.value)
            except StorageFailed:
                return ErrorCode.coordinator_not_available, None
        return move.error, self._state.written(name)

    def verify(self, name: str, producer: Producer, partition: TopicPartition) -> ErrorCode:
        """May the producer write to that partition? For those who must have added it before."""
        return moves.verify(self.transactions.get(name), producer, partition)

    async def end(
        self, name: str, producer: Producer, commit: bool, version: int
    ) -> tuple[ErrorCode, Producer]:
        """Commit or abort; the producer's id and epoch for what comes next."""
        nobody = Producer(NO_ID, NO_EPOCH)
        next_id = NO_ID
        if moves.needs_next_id(self.transactions.get(name), version):
            try:
                next_id = await self._catalogue.next_producer_id()
            except StorageFailed:
                return ErrorCode.coordinator_not_available, nobody
        known = self.transactions.get(name)
        if next_id == NO_ID and moves.needs_next_id(known, version):
            return ErrorCode.concurrent_transactions, nobody
        move = moves.end(known, producer, commit, version, next_id, self._clock.now_ms())
        error = await self._carry_out(name, known, move)
        if error is not ErrorCode.none:
            return error, nobody
        value = move.value or known
        assert value is not None
        if value.next_producer_id != NO_ID:
            return error, Producer(value.next_producer_id, 0)
        return error, Producer(value.producer_id, value.epoch)

    # ---- the end of a transaction ----------------------------------------------------------------

    def _begin_ending(self, name: str) -> None:
        running = self._ending.get(name)
        if running is None or running.done():  # done: it has looked for the last time
            task = self._supervisor.spawn("transaction ends", self._end(name))
            self._ending[name] = task
            task.add_done_callback(lambda done: self._forget_ending(name, done))

    def _forget_ending(self, name: str, done: asyncio.Task[None]) -> None:
        if self._ending.get(name) is done:
            del self._ending[name]

    async def _ended(self, name: str) -> None:
        """Wait for the end; a client that goes away does not stop it."""
        self._begin_ending(name)
        await asyncio.shield(self._ending[name])

    async def _end(self, name: str) -> None:
        """Markers everywhere, then the last record; again and again until it is done, whatever
        comes in between: readers of the partitions wait for it."""
        while (known := self.transactions.get(name)) is not None and known.is_prepared:
            ended = False
            with self._supervisor.duty("transaction ends", name):
                ended = await self._try_to_end(known)
            if not ended:
                await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_end(self, known: Transaction) -> bool:
        if await self._state.durable(known.id) is not ErrorCode.none:
            return False
        try:
            # Should its log have lost its epochs, the partitions still know them.
            seen = self.markers.coordinator_epoch(known.producer_id, known.partitions)
            epoch = max(seen, self._store.partition_of(known.id).log.epoch)
            marker = Marker(known.producer_id, known.epoch, known.commits, epoch)
            errors = await self.markers.write(marker, sorted(known.partitions))
            if ErrorCode.kafka_storage_error in errors.values():
                return False
            self._state.change(known.id, known, moves.complete(known, self._clock.now_ms()))
        except (StorageFailed, Overtaken):
            return False
        return await self._state.durable(known.id) is ErrorCode.none

    # ---- time ------------------------------------------------------------------------------------

    async def _abort_overdue(self) -> None:
        while True:
            interval = self._settings.get(
                "transaction.abort.timed.out.transaction.cleanup.interval.ms"
            )
            await asyncio.sleep(interval / 1000)
            with self._supervisor.duty("transaction time-outs"):
                self.abort_overdue()

    def abort_overdue(self) -> None:
        """Decide the end of transactions that have been open for too long, and begin it."""
        if self._has_strays:
            self._values_lost()
        now_ms = self._clock.now_ms()
        for name, known in list(self.transactions.items()):
            with self._supervisor.duty("transaction time-outs", name):
                if moves.is_overdue(known, now_ms):
                    self._state.change(name, known, moves.fence(known, now_ms))
                    logger.info("transaction %s is aborted: it took too long", name)

    async def _forget_expired(self) -> None:
        while True:
            interval = self._settings.get(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            )
            await asyncio.sleep(interval / 1000)
            with self._supervisor.duty("transactional id expiry"):
                self.forget_expired()

    def forget_expired(self) -> None:
        """Write tombstones for ids that nobody has used for long."""
        expiration_ms = self._settings.get("transactional.id.expiration.ms")
        now_ms = self._clock.now_ms()
        for name, known in list(self.transactions.items()):
            with self._supervisor.duty("transactional id expiry", name):
                expired = moves.is_expired(known, now_ms, expiration_ms)
                if expired and self._state.written(name) is None:
                    self._state.change(name, known, None)
