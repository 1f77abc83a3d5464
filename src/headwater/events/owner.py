"""The one writer of a partition: takes commands, decides them in batches, answers when they are on disk.

Lives on the event loop of its application; only claims and reading run in threads. Its life:

    claiming ──▶ ready ──▶ (a batch fails) ──▶ claiming …          the same way as taking over from another
                   └─────▶ (fenced, or let go) ──▶ ended

While a batch is on its way, commands gather for the next: the busier it is, the larger the batches. At
most DEPTH batches are on their way, decided ahead of the log; should one fail, all of them are undone, the
partition is claimed anew and read, and the commands whose events are not found in it are decided again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from headwater.errors import HeadwaterError
from headwater.events import claim as claims
from headwater.events.aggregate import Aggregate
from headwater.events.codec import Codec
from headwater.events.commands import Asked
from headwater.events.errors import Closed, EventsError, Fenced
from headwater.events.ledger import Draft, Held, Ledger
from headwater.events.line import Line, Stored
from headwater.events.restoring import Restored, find_decisions, restore
from headwater.events.snapshots import Snapshots
from headwater.events.writing import Answered, Flight, Writing
from headwater.spark.connect import Cluster
from headwater.spark.connection import Disconnected
from headwater.spark.errors import LoginRefused, SparkError

logger = logging.getLogger("headwater.events")

DEPTH = 2
BATCH_COMMANDS_MAX = 2_000
PENDING_MAX = 100_000
IDLE_S = 3600.0
"""Brokers forget a producer's epoch after a day without a batch (producer.id.expiration.ms)."""
_TOO_LARGE = (10, 18)
_FENCED = tuple(int(code) for code in claims.FENCED)
_PAUSES_S = (0.05, 0.2, 0.5, 1.0)


class Owner:
    """Of one partition of one aggregate."""

    def __init__(
        self,
        aggregate: Aggregate[Any],
        partition: int,
        settings: Mapping[str, str],
        line: Callable[[tuple[str, int]], Awaitable[Line]],
        *,
        snapshot_every: int,
        window: int,
        on_fenced: Callable[[int], None],
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.aggregate = aggregate
        self.partition = partition
        self.ready = asyncio.Event()
        self._settings = dict(settings)
        self._line = line
        self._on_fenced = on_fenced
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._codec = Codec(aggregate)
        self._snapshots = Snapshots(aggregate, partition, snapshot_every)
        self._ledger = Ledger(aggregate, partition, self._codec, window)
        self._pending: deque[tuple[Asked, Answered]] = deque()
        self._flying: deque[Flight] = deque()
        self._writing = Writing(partition)
        self._take = BATCH_COMMANDS_MAX
        self._scheduled = False
        self._claiming: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._ended: BaseException | None = None
        self._written = self._loop.time()
        self._failures = 0

    # ---- for the application --------------------------------------------------------------------

    def start(self) -> None:
        self._reclaim()

    def submit(self, asked: Asked, answered: Answered) -> None:
        """Decide it when its turn comes; `answered` is called once, on the loop."""
        if self._ended is not None:
            answered(self._ended)
            return
        if len(self._pending) >= PENDING_MAX:
            answered(
                EventsError(
                    f"{PENDING_MAX:,} commands wait for {self.aggregate.name}-{self.partition}",
                    hint="send fewer at once; this one was not decided",
                )
            )
            return
        self._pending.append((asked, answered))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    async def held(self, id: str) -> Held:
        """The aggregate as it is decided now; returned when that is on disk."""
        while True:
            await self.ready.wait()
            if self._ended is not None:
                raise self._ended
            held = self._ledger.held.get(id, Held(self.aggregate.initial, 0))
            if not self._flying:
                return held
            watching: asyncio.Future[bool] = self._loop.create_future()
            self._flying[-1].watched.append(watching)
            if await watching:
                return held

    async def drain(self, deadline_s: float) -> None:
        """Decide no more; let what is on its way arrive."""
        deadline = self._loop.time() + deadline_s
        self._take = 0
        while self._flying and self._loop.time() < deadline:
            await asyncio.sleep(0.002)

    def end(self, why: BaseException | None = None) -> list[tuple[Asked, Answered]]:
        """Stop. What was not answered is handed back: another owner may decide it."""
        if self._ended is not None:
            return []
        self._ended = why or Closed(f"{self.aggregate.name}-{self.partition} was let go")
        self._writing.void()
        for task in (self._claiming, self._looking):
            if task is not None:
                task.cancel()
        self._undo_all()
        self.ready.set()
        left, self._pending = list(self._pending), deque()
        return left

    # ---- deciding -------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._scheduled = False
        if not self.ready.is_set() or self._ended is not None:
            return
        if self._loop.time() - self._written > IDLE_S:
            self._reclaim()
            return
        while self._pending and len(self._flying) < DEPTH and self._take:
            batch = [self._pending.popleft() for _ in range(min(self._take, len(self._pending)))]
            doubtful = [each for each in batch if self._ledger.doubtful(each[0])]
            if doubtful:
                self._pending.extendleft(reversed(batch))
                self._look_up(doubtful)
                return
            self._send(batch)

    def _send(self, batch: list[tuple[Asked, Answered]]) -> None:
        draft = self._ledger.decide([asked for asked, _ in batch], self._now_ms())
        flying = Flight(draft, [answered for _, answered in batch])
        self._flying.append(flying)
        for topic, found in (
            (self.aggregate.name, draft.events),
            (self.aggregate.answers, draft.lines),
        ):
            if found:
                self._produce(flying, topic, found)
        if not flying.left:
            self._landed(flying)

    def _produce(self, flying: Flight, topic: str, found: list[tuple[bytes, bytes]]) -> None:
        flying.left += 1
        ledger = self._ledger
        expected = ledger.next_offset - len(found) if topic == self.aggregate.name else -1
        self._writing.produce(
            topic,
            found,
            ledger.last_ms,
            lambda stored: self._answered(flying, topic, expected, stored),
        )

    def _answered(self, flying: Flight, topic: str, expected: int, stored: Stored) -> None:
        if stored.error == 0 and expected in (-1, stored.base_offset):
            flying.left -= 1
            if not flying.left:
                self._landed(flying)
            return
        if stored.error in _FENCED:
            logger.warning("%s-%d: another owner has taken over", topic, self.partition)
            self._void()
            self._on_fenced(self.partition)
            return
        if stored.error in _TOO_LARGE and self._refuse_too_large(flying):
            return
        logger.warning(
            "%s-%d: a batch was not stored (error %s, offset %d instead of %d); claiming anew",
            *(topic, self.partition, stored.error, stored.base_offset, expected),
        )
        self._reclaim()

    def _landed(self, flying: Flight) -> None:
        flying.done = True
        self._failures = 0
        self._written = self._loop.time()
        while self._flying and self._flying[0].done:
            first = self._flying.popleft()
            for answered, outcome in zip(first.waiting, first.draft.outcomes, strict=True):
                answered(outcome)
            first.tell(True)
            self._snapshots.touched(first.draft)
        self._ledger.trim()
        if self._take:
            self._take = BATCH_COMMANDS_MAX
        if not self._flying:
            self._snapshots.landed()
            if self._snapshots.due:
                self._snapshot()
        if self._pending and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _refuse_too_large(self, flying: Flight) -> bool:
        """Alone in its batch and still too large: that one command cannot be stored."""
        if not flying.draft.asked:
            logger.error("%s: a state is too large for a snapshot", self.aggregate.snapshots)
            self._snapshots.disable()
            self._reclaim()
            return True
        if len(flying.draft.asked) == 1 and self._flying[0] is flying:
            self._reclaim()
            _, answered = self._pending.popleft()
            answered(EventsError("the events of one command are larger than a batch may be"))
            return True
        self._reclaim()
        self._take = 1
        return True

    # ---- snapshots ------------------------------------------------------------------------------

    def _snapshot(self) -> None:
        """Write the states that changed since the last time; under the same claim, so fenced too."""
        try:
            batches = list(self._snapshots.records(self._ledger))
        except (TypeError, NotImplementedError) as error:
            # The initial state could be written, a later one cannot: events are enough to go on.
            logger.error("%s: no more snapshots: %s", self.aggregate.snapshots, error)
            self._snapshots.disable()
            return
        for records in batches:
            flying = Flight(Draft(), [])
            self._flying.append(flying)
            self._produce(flying, self.aggregate.snapshots, records)

    # ---- claiming -------------------------------------------------------------------------------

    def _undo_all(self) -> None:
        while self._flying:
            flying = self._flying.pop()
            self._ledger.undo(flying.draft)
            flying.tell(False)
            again = list(zip(flying.draft.asked, flying.waiting, strict=True))
            self._pending.extendleft(reversed(again))
        self._snapshots.failed()

    def _void(self) -> None:
        """From here on only a claim leads back to deciding: whether what was sent is in the log, or
        will be, is not known before."""
        self._writing.void()
        self._undo_all()
        self.ready.clear()
        if self._looking is not None:
            self._looking.cancel()

    def _reclaim(self) -> None:
        self._void()
        if self._claiming is None or self._claiming.done():
            self._claiming = self._loop.create_task(self._claim_until_ready())

    def reclaim(self) -> None:
        """After being fenced, where the group still says that the partition is ours."""
        if self._ended is None:
            self._reclaim()

    async def _claim_until_ready(self) -> None:
        while self._ended is None:
            if self._failures:
                await asyncio.sleep(_PAUSES_S[min(self._failures, len(_PAUSES_S)) - 1])
            self._failures += 1  # until a batch has come through
            try:
                restored = await asyncio.to_thread(self._take_over)
                lines = {
                    topic: await self._line(address)
                    for topic, address in restored.claim.leaders.items()
                }
            except LoginRefused as error:
                self._give_up(error)
            except (Fenced, Disconnected, SparkError) as error:
                logger.warning(
                    "%s-%d: %s; trying again", self.aggregate.name, self.partition, error
                )
            except Exception as error:
                self._give_up(error)
            else:
                self._adopt(restored, lines)
                return

    def _give_up(self, error: Exception) -> None:
        """The log cannot be read as it is: `apply` raised, an event is unknown, a user is refused."""
        logger.error("%s-%d: %s", self.aggregate.name, self.partition, error)
        why = error
        if not isinstance(error, HeadwaterError):
            why = EventsError(
                f"{self.aggregate.name}-{self.partition} cannot be taken over: "
                f"{type(error).__name__}: {error}",
                hint="an event is a fact: apply must take every one that the log has",
            )
            why.__cause__ = error
        for _, answered in self.end(why):
            answered(why)

    def _take_over(self) -> Restored:
        """In a thread: claim, then read what the log has beyond what is known."""
        cluster = Cluster(self._settings)
        try:
            topics = (self.aggregate.name, self.aggregate.answers, self.aggregate.snapshots)
            claim = claims.take(cluster, self.aggregate.name, self.partition, topics)
            return restore(cluster, claim, self._ledger, self._snapshots, self._now_ms())
        finally:
            cluster.close()

    def _adopt(self, restored: Restored, lines: dict[str, Line]) -> None:
        self._ledger = restored.ledger
        self._writing.begin(restored.claim, lines)
        self._written = self._loop.time()
        self.ready.set()
        self._turn()

    # ---- commands from long ago -----------------------------------------------------------------

    def _look_up(self, doubtful: list[tuple[Asked, Answered]]) -> None:
        """Whether these were decided before the window began: the log knows."""
        self.ready.clear()
        asked = [each for each, _ in doubtful]

        async def look() -> None:
            try:
                found = await asyncio.to_thread(find_decisions, self._settings, self._ledger, asked)
            except (SparkError, Disconnected) as error:
                logger.warning("%s-%d: %s", self.aggregate.name, self.partition, error)
                self._looking = None
                self._reclaim()
                return
            for command_id, answer in found.items():
                self._ledger.learn(command_id, answer, self._ledger.last_ms)
            self._ledger.cleared.update(each.command_id for each in asked)
            self.ready.set()
            self._turn()

        self._looking = self._loop.create_task(look())
