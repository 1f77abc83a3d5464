"""The transaction coordinator as the broker and its handlers see it.

One event loop owns it. A request is decided by `transitions`; `state_manager` writes the new value, unless
the one that was looked at has changed meanwhile, and the answer waits until it is durable.

The end of a transaction has three durable steps, and a crash between any two of them is mended at the
next start, because what is written so far says what is missing:

    1  PrepareCommit or PrepareAbort         from here on it can only end this way
    2  a marker in every partition           written again if there is any doubt
    3  CompleteCommit or CompleteAbort       the producer may begin the next one

EndTxn is answered after step 3 (Kafka answers after step 1, and then makes the client try again until
step 3 is done). With transaction version 2 a Produce adds its partition by itself: the batch and the
record of the addition are staged together and acknowledged when both are durable. Should the disk, or a
crash, keep the batch without the record, `hanging_transactions` makes up for it, and no end is decided
before that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.catalogue import Catalogue
from headwater.broker.clock import Clock
from headwater.broker.internal_topic import InternalTopic, Staged
from headwater.broker.partition import Partition
from headwater.broker.settings import Settings
from headwater.broker.slices import pieces
from headwater.broker.supervisor import Supervisor
from headwater.broker.transactions import transitions
from headwater.broker.transactions.hanging_transactions import HangingTransactions
from headwater.broker.transactions.markers import Marker, Markers
from headwater.broker.transactions.state_manager import Overtaken, StateManager, Timeouts
from headwater.broker.transactions.transaction import (
    NO_EPOCH,
    NO_ID,
    TopicPartition,
    Transaction,
)
from headwater.broker.transactions.transitions import Producer, Transition
from headwater.broker.turns import give_way
from headwater.log.partition import StorageFailed

logger = logging.getLogger("headwater.broker")

RETRY_SECONDS = 1.0
ABORT_EVERY = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
FORGET_EVERY = "transaction.remove.expired.transaction.cleanup.interval.ms"
AT_ONCE = 100
"""So many ids are looked at in one turn of the event loop: their transactions may have to be ended, or they
may be forgotten."""


class TransactionCoordinator:
    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        catalogue: Catalogue,
        store: InternalTopic,
        markers: Markers,
        partitions: Callable[[], Iterable[Partition]],
        supervisor: Supervisor,
        has_room: Callable[[int], bool],
    ) -> None:
        self.markers = markers
        self._settings, self._clock = settings, clock
        self._catalogue = catalogue
        self._store = store
        self._supervisor = supervisor
        self.state = StateManager(
            store, has_room, prepared=self._begin_ending, lost=lambda: self.hanging.settle()
        )
        self.hanging = HangingTransactions(
            self.state, markers, partitions, clock.now_ms, self._spawn
        )
        self._timeouts = Timeouts(clock)
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False

    # ---- life ----------------------------------------------------------------------------------

    @property
    def transactions(self) -> dict[str, Transaction]:
        """By transactional id; only to be read by others."""
        return self.state.values

    def load(self) -> None:
        """Read everything that is durable."""
        self.state.load()
        self._catalogue.producer_ids.are_used(t.highest_id for t in self.transactions.values())

    def start(self) -> None:
        """Finish what was decided before the broker stopped, and watch the time from now on."""
        self.hanging.settle()
        for name, known in list(self.transactions.items()):
            if known.is_prepared:
                self._begin_ending(name)
        every, interval = self._supervisor.every, self._interval
        self._tasks.add(every("transaction time-outs", interval(ABORT_EVERY), self._abort_overdue))
        self._tasks.add(
            every("transactional id expiry", interval(FORGET_EVERY), self._forget_expired)
        )

    async def stop(self) -> None:
        self._stopping = True
        ending = list(self._ending.values())
        for task in (*self._tasks, *ending):
            task.cancel()
        await asyncio.gather(*self._tasks, *ending, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = self._supervisor.spawn("transactions", work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- writing -------------------------------------------------------------------------------

    async def _carry_out(self, name: str, seen: Transaction | None, step: Transition) -> ErrorCode:
        """Write what was decided and wait for it; an error that was decided stands."""
        if step.value is not None:
            try:
                self.state.change(name, seen, step.value)
            except StorageFailed:
                return ErrorCode.coordinator_not_available
            except Overtaken:
                return ErrorCode.concurrent_transactions
        elif step.error is not ErrorCode.none:
            return step.error
        failed = await self.state.durable(name)
        if failed is not ErrorCode.none:
            return failed
        if step.value is not None and step.value.is_prepared:
            await self._ended(name)
        return step.error

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
            if transitions.needs_new_id(self.transactions.get(name), expected):
                new_id = await self._catalogue.producer_ids.next()
        except StorageFailed:
            return ErrorCode.coordinator_not_available, nobody
        if self.hanging.holds(name):
            return ErrorCode.coordinator_not_available, nobody
        known, now_ms = self.transactions.get(name), self._clock.now_ms()
        if new_id == NO_ID and transitions.needs_new_id(known, expected):
            return ErrorCode.concurrent_transactions, nobody  # things have changed meanwhile
        step = transitions.init(known, name, timeout_ms, expected, new_id, now_ms)
        error = await self._carry_out(name, known, step)
        if error is not ErrorCode.none or step.value is None:
            return error, nobody
        return error, Producer(step.value.producer_id, step.value.epoch)

    async def add(
        self, name: str, producer: Producer, partitions: Iterable[TopicPartition], version: int
    ) -> ErrorCode:
        """Add partitions to the producer's transaction; begins it if there is none."""
        known = self.transactions.get(name)
        step = transitions.add(known, producer, partitions, version, self._clock.now_ms())
        return await self._carry_out(name, known, step)

    def add_now(
        self, name: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> tuple[ErrorCode, Staged | None]:
        """The same without waiting, for whoever writes and waits for that anyway; what has to be durable
        as well, be it that somebody else has written it."""
        known = self.transactions.get(name)
        step = transitions.add(known, producer, partitions, 2, self._clock.now_ms())
        if step.value is not None:
            try:
                self.state.change(name, known, step.value)
            except StorageFailed:
                return ErrorCode.coordinator_not_available, None
        return step.error, self.state.written(name)

    def verify(
        self, name: str, producer: Producer, partition: TopicPartition
    ) -> tuple[ErrorCode, Staged | None]:
        """The same for those who must have added the partition before."""
        error = transitions.verify(self.transactions.get(name), producer, partition)
        return error, self.state.written(name)

    async def end(
        self, name: str, producer: Producer, commit: bool, version: int
    ) -> tuple[ErrorCode, Producer]:
        """Commit or abort; the producer's id and epoch for what comes next."""
        nobody, next_id = Producer(NO_ID, NO_EPOCH), NO_ID
        if transitions.needs_next_id(self.transactions.get(name), version):
            try:
                next_id = await self._catalogue.producer_ids.next()
            except StorageFailed:
                return ErrorCode.coordinator_not_available, nobody
        if self.hanging.holds(name):
            return ErrorCode.coordinator_not_available, nobody
        known = self.transactions.get(name)
        if next_id == NO_ID and transitions.needs_next_id(known, version):
            return ErrorCode.concurrent_transactions, nobody
        step = transitions.end(known, producer, commit, version, next_id, self._clock.now_ms())
        error = await self._carry_out(name, known, step)
        if error is not ErrorCode.none:
            return error, nobody
        value = step.value or known
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
        marked = set[TopicPartition]()
        while (known := self.transactions.get(name)) is not None and known.is_prepared:
            ended = False
            with self._supervisor.duty("transaction ends", name):
                ended = await self._try_to_end(known, marked)
            if not ended:
                await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_end(self, known: Transaction, marked: set[TopicPartition]) -> bool:
        if await self.state.durable(known.id) is not ErrorCode.none:
            return False
        try:
            # Should its log have lost its epochs, the partitions still know them.
            seen = self.markers.coordinator_epoch(known.producer_id, known.partitions)
            epoch = max(seen, self._store.partition_of(known.id).log.epoch)
            marker = Marker(known.producer_id, known.epoch, known.commits, epoch)
            if not await self.markers.write_left(marker, known.partitions, marked):
                return False
            self.state.change(known.id, known, transitions.complete(known, self._clock.now_ms()))
        except (StorageFailed, Overtaken):
            return False
        return await self.state.durable(known.id) is ErrorCode.none

    # ---- time ------------------------------------------------------------------------------------

    def _interval(self, setting: str) -> Callable[[], float]:
        return lambda: self._settings.get(setting) / 1000

    async def _abort_overdue(self) -> None:
        self.hanging.settle_rest()
        await self._in_turns(self.abort_overdue)
        self._timeouts.forget_but(self.transactions)

    async def _in_turns(self, look_at: Callable[[Sequence[str]], None]) -> None:
        """Others are served in between. What was ending before is not waited for: perhaps it cannot end."""
        for some in pieces(list(self.transactions), AT_ONCE):
            before = set(self._ending)
            look_at(some)
            if begun := self._ending.keys() - before:  # the disk answers them all at once
                await asyncio.wait([self._ending[name] for name in begun], timeout=RETRY_SECONDS)
            await give_way()

    def abort_overdue(self, names: Sequence[str] | None = None) -> None:
        """Decide the end of those (of these) that have been open for too long, and begin it."""
        if names is None:
            self.hanging.settle_rest()
        now_ms = self._clock.now_ms()
        for name in list(self.transactions) if names is None else names:
            with self._supervisor.duty("transaction time-outs", name):
                known = self.transactions.get(name)
                if known is None or name in self.hanging.held:
                    continue
                if self._timeouts.is_overdue(known):
                    self.state.change(name, known, transitions.fence(known, now_ms))
                    logger.info("transaction %s is aborted: it took too long", name)

    async def _forget_expired(self) -> None:
        await self._in_turns(self.forget_expired)

    def forget_expired(self, names: Sequence[str] | None = None) -> None:
        """Write tombstones for those ids (of these) that nobody has used for long."""
        now_ms = self._clock.now_ms()
        after_ms = self._settings.get("transactional.id.expiration.ms")
        for name in list(self.transactions) if names is None else names:
            with self._supervisor.duty("transactional id expiry", name):
                known = self.transactions.get(name)
                if known is None or not transitions.is_expired(known, now_ms, after_ms):
                    continue
                if name not in self.hanging.held and self.state.written(name) is None:
                    self.state.change(name, known, None)
