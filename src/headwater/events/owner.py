"""The one writer of a partition: claims it, reads it, lets its desk decide, and claims anew when in doubt.

Lives on the event loop of its application; only claims and reading run in threads. Its life:

    claiming ──▶ open ──▶ (a batch fails) ──▶ claiming …          the same way as taking over from another
                  └─────▶ (fenced, or let go) ──▶ ended

When a batch fails, for whatever reason, all that was decided ahead of the log is undone; after the claim the
commands whose events are found in the log are answered with their place, and the others decided again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from headwater.client.cluster import Cluster
from headwater.client.connection import Disconnected
from headwater.client.errors import ClientError, LoginRefused
from headwater.errors import HeadwaterError
from headwater.events import claim as claims
from headwater.events.aggregate import Aggregate
from headwater.events.commands import Asked
from headwater.events.desk import Calls, Desk
from headwater.events.errors import Closed, EventsError, OwnerFenced, Stopped
from headwater.events.ledger import Held
from headwater.events.line import Line
from headwater.events.recovery import Restored, find_buried, find_decisions, restore
from headwater.events.snapshots import Snapshots
from headwater.events.writer import Answered, tell

logger = logging.getLogger("headwater.events")
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
        lease_s: float,
        on_fenced: Callable[[int], None],
    ) -> None:
        self.aggregate = aggregate
        self.partition = partition
        self._settings = dict(settings)
        self._line = line
        self._on_fenced = on_fenced
        self._loop = asyncio.get_running_loop()
        self._snapshots = Snapshots(aggregate, partition, snapshot_every)
        calls = Calls(self._reclaim, self._fenced, self._look_up)
        self.desk = Desk(aggregate, partition, window, self._snapshots, calls, lease_s)
        self._claiming: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._ended: BaseException | None = None
        self._failures = 0
        self._looked_until = 0

    # ---- for the application --------------------------------------------------------------------

    def start(self) -> None:
        self._reclaim()

    @property
    def ready(self) -> asyncio.Event:
        """Set when it can decide, and when it has ended."""
        return self.desk.ready

    def submit(self, asked: Asked, answered: Answered) -> None:
        """Decide it when its turn comes; `answered` is called once, on the loop."""
        if self._ended is not None:
            answered(self._ended)
        else:
            self.desk.submit(asked, answered)

    async def held(self, id: str) -> Held[Any]:
        """The aggregate as it is decided now; returned when that is on disk."""
        while True:
            await self.ready.wait()
            if self._ended is not None:
                raise self._ended
            held = await self.desk.held(id)
            if held is not None:
                return held

    async def drain(self, deadline_s: float) -> None:
        await self.desk.drain(deadline_s)

    def catch_up(self, end: int) -> None:
        """The events end there now: look whether tombstones are behind what it knows."""
        if self._ended is None and end != self._looked_until and self.desk.pause(end):
            self._looked_until = end
            self._looking = self._loop.create_task(self._catch_up(end))

    def reclaim(self) -> None:
        """After being fenced, where the group still says that the partition is ours."""
        if self._ended is None:
            self._reclaim()

    def end(self, why: BaseException | None = None) -> list[tuple[Asked, Answered]]:
        """Stop. What was not answered is handed back: another owner may decide it."""
        if self._ended is not None:
            return []
        self._ended = why or Closed(f"{self.aggregate.name}-{self.partition} was let go")
        for task in (self._claiming, self._looking):
            if task is not None:
                task.cancel()
        self.desk.void()
        left = self.desk.cleared()
        self.ready.set()
        return left

    # ---- claiming -------------------------------------------------------------------------------

    def _fenced(self) -> None:
        self._void()
        self._on_fenced(self.partition)

    def _void(self) -> None:
        if self.desk.came_through:
            self._failures = 0
        self.desk.void()
        if self._looking is not None:
            self._looking.cancel()

    def _reclaim(self) -> None:
        self._void()
        if self._claiming is None or self._claiming.done():
            self._claiming = self._loop.create_task(self._claim_until_open())

    async def _claim_until_open(self) -> None:
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
            except (OwnerFenced, Disconnected, ClientError) as error:
                logger.warning(
                    "%s-%d: %s; trying again", self.aggregate.name, self.partition, error
                )
            except Exception as error:
                self._give_up(error)
            else:
                for id in restored.ledger.broken:
                    logger.error("%s", restored.ledger.broken_error(id))
                self.desk.open(restored.claim, restored.ledger, lines)
                return

    def _take_over(self) -> Restored:
        """In a thread: claim, then read what the log has beyond what is known."""
        cluster = Cluster(self._settings)
        try:
            topics = (self.aggregate.name, self.aggregate.answers, self.aggregate.snapshots)
            claim = claims.take(cluster, self.aggregate.name, self.partition, topics)
            return restore(cluster, claim, self.desk.ledger, self._snapshots, self.desk.now_ms())
        finally:
            cluster.close()

    def _give_up(self, error: Exception) -> None:
        """The log cannot be read as it is: `apply` raised, an event is unknown, a user is refused."""
        logger.error("%s-%d: %s", self.aggregate.name, self.partition, error)
        why: Exception = error
        if isinstance(error, EventsError):
            why = Stopped(str(error), hint=error.hint)
        elif not isinstance(error, HeadwaterError):
            why = Stopped(
                f"{self.aggregate.name}-{self.partition} cannot be taken over: "
                f"{type(error).__name__}: {error}",
                hint="an event is a fact: apply must take every one that the log has",
            )
        if why is not error:
            why.__cause__ = error
        for _, answered in self.end(why):
            tell(answered, why)

    # ---- tombstones -----------------------------------------------------------------------------

    async def _catch_up(self, end: int) -> None:
        """The desk is paused: let it go on, or end, whatever is found."""
        ledger = self.desk.ledger
        try:
            if not await self.desk.landed():
                return  # who took it back claims anew
            buried = await asyncio.to_thread(find_buried, self._settings, ledger, end)
        except (ClientError, Disconnected) as error:
            # No claim: if another owner has claimed meanwhile, the partition is its. The next look tells.
            logger.warning("%s-%d: %s", self.aggregate.name, self.partition, error)
            self._looking, self._looked_until = None, 0
            self.desk.resume()
        except Exception as error:
            self._looking = None
            self._give_up(error)
        else:
            self._looking = None
            self._obey(buried or {})
            if buried is not None:
                ledger.next_offset = end
            # Where another owner has claimed, this is refused, and tells so.
            self.desk.acknowledge()
            self.desk.resume()

    def _obey(self, buried: Mapping[str, list[Any]]) -> None:
        ledger = self.desk.ledger
        for id, events in buried.items():
            ledger.drop(id, events)
            self._snapshots.dropped(id)
            if id in ledger.broken:
                logger.error("%s", ledger.broken_error(id))

    # ---- commands from long ago -----------------------------------------------------------------

    def _look_up(self, asked: list[Asked]) -> None:
        """Whether these were decided before the window began: the log knows."""
        self._looking = self._loop.create_task(self._look(asked))

    async def _look(self, asked: list[Asked]) -> None:
        ledger = self.desk.ledger
        try:
            found = await asyncio.to_thread(find_decisions, self._settings, ledger, asked)
        except (ClientError, Disconnected) as error:
            logger.warning("%s-%d: %s", self.aggregate.name, self.partition, error)
            self._looking = None
            self._reclaim()
        except Exception as error:  # of these commands: others wait behind them
            logger.exception("%s-%d: looking back failed", self.aggregate.name, self.partition)
            self._looking = None
            self.desk.refuse(asked, EventsError(f"whether it was decided is not known: {error}"))
            self.desk.resume()
        else:
            self._looking = None
            ledger.looked_up(asked, found)
            self.desk.resume()
