"""Deliveries of one subscription: in order per key, many keys at once, again when they fail.

Called by `subscriber`, which feeds it records and commits for it; knows no log and no HTTP.

    feed ─▶ account ─ready─▶ a task per record: allowed? send ─▶ done ─▶ commit ─▶ noted: next of the key
                                    ▲ failed: wait ◀┘    └ given up: dead letter, then done

A task is there for each key with something to deliver, so their number is bounded by the accounts' windows;
attempts under way at once are bounded by `parallel`. One task, `run`, commits: what is done while a commit
is under way shares the next one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from headwater.client.records import Record
from headwater.edges.webhooks.account import Account, Note
from headwater.edges.webhooks.delivery import Delivery, Outcome, Place, Sender, id_of
from headwater.edges.webhooks.retry import Breaker, Retrying

HELD_BYTES_MAX = 32 * 1024**2
COMMIT_AGAIN_S = 0.2
T = TypeVar("T")
LET_GO_S = 5.0
"""For attempts that are under way when a partition goes to another process, or at the end."""


class NotNow(Exception):
    """A commit did not happen, and may later."""


@dataclass
class Tally:
    """What happened since the process began."""

    delivered: int = 0
    failed: int = 0
    dead: int = 0
    last_failure: str | None = None


@dataclass(frozen=True)
class Outside:
    """What the deliveries need of others."""

    sender: Sender
    commit: Callable[[Mapping[Place, Note]], Awaitable[None]]
    """Durable when it returns. Raises NotNow."""
    bury: Callable[[Delivery, str], Awaitable[None]]
    """Among the dead letters, for a reason; durable when it returns."""


class Delivering:
    """For one event loop: `run` it, and feed it what was assigned."""

    def __init__(
        self,
        outside: Outside,
        retrying: Retrying,
        parallel: int,
        *,
        again: str | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tally = Tally()
        self.breaker = Breaker(retrying)
        self.held_bytes = 0
        self._outside, self._retrying = outside, retrying
        self._again, self._chance, self._clock = again, chance, clock
        self._slots = asyncio.Semaphore(parallel)
        self._accounts: dict[Place, Account] = {}
        self._records: dict[Place, dict[int, Record]] = {}
        self._tasks: dict[Place, set[asyncio.Task[None]]] = {}
        self._sending: set[asyncio.Task[None] | None] = set()
        self._leaving: set[Place] = set()
        self._touched: set[Place] = set()
        self._changed = asyncio.Event()
        self._heard = asyncio.Event()
        self._committing = asyncio.Lock()
        self._group: asyncio.TaskGroup | None = None

    # ---- what is read -----------------------------------------------------------------------------

    def assign(self, place: Place, position: int, metadata: str | None) -> None:
        self._accounts[place] = Account(position, metadata)
        self._records[place], self._tasks[place] = {}, set()
        self._leaving.discard(place)

    def feed(self, records: Iterable[tuple[Record, bool]]) -> None:
        """In order, each with whether it is wanted; not those of a partition that is ours no longer."""
        fed: set[Place] = set()
        for record, wanted in records:
            place = (record.topic, record.partition)
            account = self._accounts.get(place)
            if account is None or place in self._leaving:
                continue
            if account.feed(record.offset, record.key, wanted=wanted):
                self._records[place][record.offset] = record
                self.held_bytes += _size(record)
            fed.add(place)
        for place in fed:
            self._touch(place)
            self._start(place)

    def full(self) -> set[Place]:
        """Of these partitions nothing more is to be read for now."""
        if self.held_bytes >= HELD_BYTES_MAX:
            return set(self._accounts)
        return {place for place, account in self._accounts.items() if account.is_full}

    def places(self) -> list[Place]:
        return list(self._accounts)

    @property
    def is_busy(self) -> bool:
        """Whether a commit may be asked for soon; read by other threads, too."""
        return self.held_bytes > 0 or bool(self._touched)

    @property
    def held(self) -> int:
        return sum(len(each) for each in self._records.values())

    # ---- what is done -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Until it is cancelled, or something fails that should not."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    async with self._committing:
                        await self._commit(self._touched)
                except NotNow:
                    await asyncio.sleep(COMMIT_AGAIN_S)
                    self._changed.set()

    async def let_go(self, places: Iterable[Place]) -> None:
        """End what is under way there, and commit it; nothing more is sent from these partitions."""
        going = [place for place in places if place in self._accounts]
        self._leaving.update(going)
        tasks = {task for place in going for task in self._tasks[place]}
        for task in tasks - self._sending:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=LET_GO_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with self._committing:
                await self._commit(set(going))
        except NotNow:
            pass  # then the next process delivers these again
        finally:
            for place in going:
                self._forget(place)

    async def _commit(self, touched: set[Place]) -> None:
        """Raises NotNow, and the places stay touched."""
        places = [place for place in touched if place in self._accounts]
        found = {place: self._accounts[place].note() for place in places}
        notes = {place: note for place, note in found.items() if note is not None}
        if notes:
            await self._outside.commit(notes)
        self._touched.difference_update(places)
        for place, note in notes.items():
            account = self._accounts.get(place)
            if account is None:
                continue
            account.noted(note)
            if account.has_news:  # done meanwhile
                self._touch(place)
            if place not in self._leaving:
                self._start(place)

    def _start(self, place: Place) -> None:
        assert self._group is not None, "run() comes first"
        account = self._accounts[place]
        while (offset := account.take()) is not None:
            record = self._records[place][offset]
            task = self._group.create_task(self._deliver(place, record))
            self._tasks[place].add(task)
            task.add_done_callback(self._tasks[place].discard)

    async def _deliver(self, place: Place, record: Record) -> None:
        name, attempts, began = id_of(record, self._again), 0, self._clock()
        while True:
            attempts += 1
            delivery = Delivery(name, record, attempts)
            outcome = await self._attempt(delivery)
            if outcome.is_delivered:
                self.tally.delivered += 1
                break
            self.tally.failed += 1
            self.tally.last_failure = outcome.reason
            over = self._retrying.is_over(attempts, self._clock() - began)
            if outcome.is_final or over:
                await self._finish(self._outside.bury(delivery, outcome.reason))
                self.tally.dead += 1
                break
            if place in self._leaving:
                return
            wait = self._retrying.wait_s(attempts, self._chance)
            await asyncio.sleep(max(wait, outcome.retry_after_s))
        del self._records[place][record.offset]
        self.held_bytes -= _size(record)
        self._accounts[place].done(record.offset)
        self._touch(place)

    async def _attempt(self, delivery: Delivery) -> Outcome:
        """Once there is a slot and the breaker lets it pass: it may have opened meanwhile."""
        while True:
            async with self._slots:
                wait = self.breaker.wait_s(self._clock())
                if wait == 0:
                    return await self._send(delivery)
            self._heard.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._heard.wait()
            except TimeoutError:
                pass

    async def _send(self, delivery: Delivery) -> Outcome:
        try:
            outcome = await self._finish(self._outside.sender.send(delivery))
        except BaseException:
            self.breaker.dropped()
            raise
        finally:
            self._heard.set()  # whoever waits for the breaker looks again
        if outcome.is_delivered:
            self.breaker.succeeded()
        else:
            self.breaker.failed(self._clock(), outcome.retry_after_s)
        return outcome

    async def _finish(self, work: Awaitable[T]) -> T:
        """What is not cancelled at once when its partition is let go."""
        task = asyncio.current_task()
        self._sending.add(task)
        try:
            return await work
        finally:
            self._sending.discard(task)

    def _touch(self, place: Place) -> None:
        self._touched.add(place)
        self._changed.set()

    def _forget(self, place: Place) -> None:
        del self._accounts[place]
        self.held_bytes -= sum(map(_size, self._records.pop(place).values()))
        self._tasks.pop(place)
        self._touched.discard(place)
        self._leaving.discard(place)


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + 200
