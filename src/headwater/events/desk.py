"""Where a partition's commands are decided: taken in batches, written, answered when they are on disk.

`Owner` opens it with a claim, and closes it (`void`) when that is in doubt. While a batch is on its way,
commands gather for the next: the busier it is, the larger the batches. At most DEPTH batches are on their
way, decided ahead of the log.

Invariants:
- After `void` nothing may be decided before the next `open`, whose ledger was read from the log after a
  claim: whether what was on its way arrived, or will, is not known before.
- An answer without events must be written only when all events that were decided before it are on disk: a
  refusal that follows from events which never came to be would be one for good.
- Whoever pauses the desk must resume it, or claim anew, whatever happens in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headwater.events import acknowledgement, clock
from headwater.events import claim as claims
from headwater.events.aggregate import Aggregate
from headwater.events.answers import Answer
from headwater.events.codec import Codec
from headwater.events.commands import Asked
from headwater.events.errors import Busy, EventsError
from headwater.events.lease import LEASE_S
from headwater.events.ledger import Draft, Held, Ledger
from headwater.events.line import Line
from headwater.events.produce import Stored
from headwater.events.snapshots import Snapshots
from headwater.events.writer import Answered, Flight, Writing, tell

logger = logging.getLogger("headwater.events")

DEPTH = 2
BATCH_COMMANDS_MAX = 2_000
PENDING_MAX = 100_000
_LARGE = "larger than a batch may be"
_FOR_GOOD: Mapping[int | None, str] = {
    10: _LARGE,
    18: _LARGE,
    32: "refused for their time: compare the broker's clock with this one's (INVALID_TIMESTAMP)",
    44: "against the broker's policy (POLICY_VIOLATION)",
    87: "refused by the topic: look at its settings (INVALID_RECORD)",
}
"""Kafka's errors that the same batch would be told again, however often it is sent."""
_FENCED = tuple(int(code) for code in claims.FENCED)


class Calls(NamedTuple):
    """What the desk cannot do itself."""

    doubt: Callable[[], None]
    """A batch was not stored, or nobody knows: claim anew."""
    fenced: Callable[[], None]
    """Another owner has claimed."""
    look_up: Callable[[list[Asked]], None]
    """These may have been decided long ago: look into the log, then `resume`."""


class Desk:
    """Of one partition."""

    def __init__(
        self,
        aggregate: Aggregate[Any],
        partition: int,
        window: int,
        snapshots: Snapshots,
        calls: Calls,
        lease_s: float = LEASE_S,
    ) -> None:
        self.aggregate = aggregate
        self.partition = partition
        self.ledger = Ledger(aggregate, partition, Codec(aggregate), window)
        self.ready = asyncio.Event()
        self.now_ms: Callable[[], int] = clock.now_ms
        self.came_through = False
        """Something was stored since it was opened."""
        self._calls = calls
        self._snapshots = snapshots
        self._writing = Writing(partition)
        self._loop = asyncio.get_running_loop()
        self._pending: deque[tuple[Asked, Answered]] = deque()
        self._flying: deque[Flight] = deque()
        self._take = BATCH_COMMANDS_MAX
        self._scheduled = False
        self._acknowledges = True
        self._lease_s = lease_s
        self._since = clock.seconds()

    # ---- for the owner --------------------------------------------------------------------------

    def open(self, claim: claims.Claim, ledger: Ledger, lines: Mapping[str, Line]) -> None:
        self.ledger = ledger
        self.came_through = False
        self._writing.begin(claim, lines)
        # What taking over took does not count, or a slow machine would only claim; up to a bound.
        self._since = min(clock.seconds(), claim.since + 2 * self._lease_s)
        self.acknowledge()
        self.resume()

    def resume(self) -> None:
        self.ready.set()
        self._turn()

    def acknowledge(self) -> None:
        """Say, behind all that is on its way, that every tombstone in what is known is obeyed."""
        if not self._acknowledges:
            return
        line = acknowledgement.record(self.ledger.next_offset)
        self._flying.append(Flight(Draft(lines=[line]), []))
        self._advance()

    def void(self) -> None:
        """Nothing that is on its way counts any more; its commands are decided again."""
        self.ready.clear()
        self._writing.void()
        while self._flying:
            flying = self._flying.pop()
            self.ledger.undo(flying.draft)
            flying.tell(False)
            again = map(_in_doubt, flying.draft.asked, flying.draft.outcomes)
            self._pending.extendleft(reversed(list(zip(again, flying.waiting, strict=True))))
        self._snapshots.failed()

    def pause(self, end: int) -> bool:
        """Decide nothing until `resume`, if the events end behind all that was decided here."""
        behind = self.ready.is_set() and end > self.ledger.next_offset
        if behind:
            self.ready.clear()
        return behind

    async def landed(self) -> bool:
        """Return when nothing is on its way; whether it came through."""
        while self._flying:
            if not await self._watching():
                return False
        return True

    def refuse(self, asked: Sequence[Asked], error: Exception) -> None:
        """Answer these, which wait, with an error."""
        told = {id(each) for each in asked}
        left: deque[tuple[Asked, Answered]] = deque()
        refused: list[tuple[Asked, Answered]] = []
        for each in self._pending:
            if id(each[0]) in told:
                refused.append(each)
            else:
                left.append(each)
        self._pending = left
        for _, answered in refused:
            tell(answered, error)

    def submit(self, asked: Asked, answered: Answered) -> None:
        if len(self._pending) >= PENDING_MAX:
            answered(
                Busy(
                    f"{PENDING_MAX:,} commands wait for {self.aggregate.name}-{self.partition}",
                    hint="send fewer at once; this one was not decided",
                )
            )
            return
        self._pending.append((asked, answered))
        self._schedule()

    def cleared(self) -> list[tuple[Asked, Answered]]:
        """Take away what has not been decided."""
        left, self._pending = list(self._pending), deque()
        return left

    async def held(self, id: str) -> Held[Any] | None:
        """The aggregate as it is decided now, when that is on disk; None if it turned out otherwise."""
        if id in self.ledger.broken:
            raise self.ledger.broken_error(id)
        held = self.ledger.held.get(id, Held(self.aggregate.initial, 0))
        if not self._flying:
            return held
        return held if await self._watching() else None

    def _watching(self) -> asyncio.Future[bool]:
        watching: asyncio.Future[bool] = self._loop.create_future()
        self._flying[-1].watched.append(watching)
        return watching

    async def drain(self, deadline_s: float) -> None:
        """Decide no more; let what is on its way arrive."""
        deadline = self._loop.time() + deadline_s
        self._take = 0
        while self._flying and self._loop.time() < deadline:
            await asyncio.sleep(0.002)

    # ---- deciding -------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if not self.ready.is_set():
            return
        if self._pending and clock.seconds() - self._since > self._lease_s:
            if not self._flying:  # else when it has landed
                self._calls.doubt()
            return
        while self._pending and len(self._flying) < DEPTH and self._take:
            batch = [self._pending.popleft() for _ in range(min(self._take, len(self._pending)))]
            doubtful = [asked for asked, _ in batch if self.ledger.doubtful(asked)]
            if doubtful:
                self._pending.extendleft(reversed(batch))
                self.ready.clear()
                self._calls.look_up(doubtful)
                return
            self._decide(batch)

    def _decide(self, batch: list[tuple[Asked, Answered]]) -> None:
        try:
            draft = self.ledger.decide([asked for asked, _ in batch], self.now_ms())
        except BaseException:
            self._pending.extendleft(reversed(batch))
            raise
        decided = len(draft.asked)
        self._pending.extendleft(reversed(batch[decided:]))
        flying = Flight(draft, [answered for _, answered in batch[:decided]])
        self._flying.append(flying)
        if draft.events:
            self._produce(flying, self.aggregate.name, draft.events)
        self._advance()

    def _produce(
        self, flying: Flight, topic: str, found: Sequence[tuple[bytes, bytes | None]]
    ) -> None:
        flying.left += 1
        ledger = self.ledger
        expected = ledger.next_offset - len(found) if topic == self.aggregate.name else -1
        self._writing.produce(
            topic,
            found,
            ledger.last_ms or self.now_ms(),
            lambda stored: self._answered(flying, topic, expected, stored),
        )

    def _answered(self, flying: Flight, topic: str, expected: int, stored: Stored) -> None:
        if stored.error == 0 and expected in (-1, stored.base_offset):
            flying.left -= 1
            self._advance()
        elif stored.error in _FENCED:
            logger.warning("%s-%d: another owner has taken over", topic, self.partition)
            self._calls.fenced()
        elif stored.error in _FOR_GOOD:
            self._refused(flying, _FOR_GOOD[stored.error])
        else:
            logger.warning(
                "%s-%d: a batch was not stored (error %s, offset %d instead of %d); claiming again",
                *(topic, self.partition, stored.error, stored.base_offset, expected),
            )
            self._calls.doubt()

    def _advance(self) -> None:
        """The first on its way: its answers go when its events are on disk, and then it has landed."""
        landed = decided = False
        while self._flying and not self._flying[0].left:
            first = self._flying[0]
            if first.draft.lines and not first.answers_sent:
                first.answers_sent = True
                self._produce(first, self.aggregate.answers, first.draft.lines)
                break
            self._flying.popleft()
            landed, decided = True, decided or bool(first.draft.asked)
            # Before the answers: whatever comes of those, the events are on disk.
            self._snapshots.touched(first.draft)
            first.tell(True)
            for answered, outcome in zip(first.waiting, first.draft.outcomes, strict=True):
                tell(answered, outcome)
        if decided:
            self.came_through = True
            if self._take:
                self._take = BATCH_COMMANDS_MAX
        if landed:
            self._landed()

    def _landed(self) -> None:
        self.ledger.trim()
        if not self._flying:
            self._snapshots.landed()
            if self._snapshots.due and self.ready.is_set() and not self.ledger.broken:
                self._snapshot()
        if self._pending:
            self._schedule()

    def _refused(self, flying: Flight, why: str) -> None:
        """Alone in its batch and still refused: that one command cannot be stored."""
        asked = len(flying.draft.asked)
        first = next((each for each in self._flying if each.draft.asked), None) is flying
        if flying.draft.lines and not asked:
            logger.error(
                "%s: tombstones are obeyed, but that cannot be told: it is %s",
                *(self.aggregate.answers, why),
            )
            self._acknowledges = False
        elif not asked:
            logger.error("%s: no more snapshots: one would be %s", self.aggregate.snapshots, why)
            self._snapshots.disable()
        self._calls.doubt()
        if asked == 1 and first:
            _, answered = self._pending.popleft()
            tell(answered, EventsError(f"the events of one command are {why}"))
        elif asked:
            self._take = 1

    def _snapshot(self) -> None:
        """Write the states that changed since the last time; under the same claim, so fenced too."""
        try:
            batches = list(self._snapshots.records(self.ledger))
        except Exception as error:
            # The initial state could be written, a later one cannot: events are enough to go on.
            logger.error("%s: no more snapshots: %s", self.aggregate.snapshots, error)
            self._snapshots.disable()
            return
        for records in batches:
            flying = Flight(Draft(), [])
            self._flying.append(flying)
            self._produce(flying, self.aggregate.snapshots, records)


def _in_doubt(asked: Asked, outcome: Answer | Exception) -> Asked:
    """Decided, and taken back: the log may have it, however fresh it was, and its sender was not told yet."""
    if isinstance(outcome, Exception) or outcome.repeated:
        return asked
    return msgspec.structs.replace(asked, in_doubt=True, fresh=False)
