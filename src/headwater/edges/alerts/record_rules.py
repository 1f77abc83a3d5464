"""Rules that look at each record: `matches` and a field's value. A service.

Reads as a member of a group, so that nothing is missed while the edges are down. Notices are stored before
the position is committed, and hold the offset of their record: what is read again after a kill is recognised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

from headwater.client.errors import InstanceFenced
from headwater.client.log import Log
from headwater.client.records import Record
from headwater.edges.alerts import notices
from headwater.edges.alerts.config import Alert
from headwater.edges.alerts.judge import Judge, Looking
from headwater.edges.appender import Appender
from headwater.edges.webhooks import letters
from headwater.edges.webhooks.account import Note
from headwater.edges.webhooks.deliverer import NotNow
from headwater.edges.webhooks.delivery import Place
from headwater.edges.webhooks.member import Member
from headwater.edges.webhooks.subscriber import begin_at, first_of, instance_of

GROUP = "headwater.alert."
WAITING_MAX = 2000
TURN_S = 0.5


class Follower:
    """The service."""

    def __init__(
        self,
        alert: Alert,
        log: Log,
        appender: Appender,
        instance: str,
        looking: Callable[[Judge], Looking],
    ) -> None:
        self.name = f"alerts.{alert.name}"
        self._alert, self._log, self._appender = alert, log, appender
        self._instance, self._make = instance, looking
        self._fenced: InstanceFenced | None = None
        self._judge: Judge | None = None

    def facts(self) -> Mapping[str, Any]:
        judge = self._judge
        return {} if judge is None else {"firing": judge.firing, "left_out": judge.left_out}

    async def run(self) -> None:
        if self._fenced is not None:
            raise self._fenced
        said, instance = await asyncio.to_thread(self._prepare)
        judge = self._judge = Judge(self._alert.name, said)
        thread = ThreadPoolExecutor(1, thread_name_prefix=self.name)
        looker = _Looker(self._make(judge), self._appender, thread)
        group = GROUP + self._alert.name
        member = Member(self._log, group, instance, looker)
        looker.commit = member.commit
        working = asyncio.create_task(looker.run())
        reading = asyncio.create_task(member.run([self._alert.about]))
        try:
            await first_of(working, reading)
        except InstanceFenced as fenced:
            self._fenced = fenced
            raise
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            member.close()
            await asyncio.gather(reading, return_exceptions=True)
            thread.shutdown(wait=False)

    def _prepare(self) -> tuple[notices.Said, str]:
        held = self._log.ranges(self._alert.about)
        letters.ensure(self._log, notices.TOPIC, **notices.SETTINGS)
        begin_at("end", self._log, GROUP + self._alert.name, self._alert.about)
        said = notices.read(self._log, self._alert.name)
        for place in list(said.through):
            if said.through[place] >= held.get(place[1], (0, 0))[1]:
                del said.through[place]  # the topic was made anew since
        return said, instance_of(self._log, self._instance, self._alert.about)


class _Looker:
    """Listens to the member; looks at what it feeds, tells, commits. `thread`: where it looks, for it may
    wait for a registry."""

    def __init__(self, looking: Looking, appender: Appender, thread: Executor) -> None:
        self._looking, self._appender, self._thread = looking, appender, thread
        self.commit: Callable[[Mapping[Place, Note]], Any] | None = None
        self._waiting: list[Record] = []
        self._positions: dict[Place, int] = {}
        self._committed: dict[Place, int] = {}
        self._fed = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(TURN_S):
                    await self._fed.wait()
            except TimeoutError:
                pass  # there may be something to tell all the same
            self._fed.clear()
            await self._look()
            await self._note()

    async def _look(self) -> None:
        records, self._waiting = self._waiting, []
        look = partial(self._looking.look, records, int(time.time() * 1000))
        found = await asyncio.get_running_loop().run_in_executor(self._thread, look)
        if found:
            await self._appender.append(notices.TOPIC, [each.draft() for each in found])
        for record in records:
            place = (record.topic, record.partition)
            if place in self._positions:
                self._positions[place] = record.offset + 1

    async def _note(self) -> None:
        """Not beyond what is still to be told."""
        wanted = {}
        for place, position in self._positions.items():
            waits_at = self._looking.waits_at(place)
            at = position if waits_at is None else min(position, waits_at)
            if at != self._committed.get(place):
                wanted[place] = at
        if not wanted or self.commit is None:
            return
        try:
            await self.commit({place: Note(at, "", ()) for place, at in wanted.items()})
        except NotNow:
            return  # with the next turn
        self._committed.update(wanted)

    # ---- Listener ---------------------------------------------------------------------------------

    def assign(self, place: Place, position: int, metadata: str | None) -> None:
        self._positions[place] = self._committed[place] = position

    async def let_go(self, places: Iterable[Place]) -> None:
        for place in places:
            self._positions.pop(place, None)
            self._committed.pop(place, None)

    def feed(self, records: Iterable[tuple[Record, bool]]) -> None:
        self._waiting += (record for record, _ in records)
        self._fed.set()

    def full(self) -> set[Place]:
        return set(self._positions) if len(self._waiting) >= WAITING_MAX else set()

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)
