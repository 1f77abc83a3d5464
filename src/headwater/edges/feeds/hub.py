"""All changefeeds of the process: a feed for each topic that somebody follows, and for a while after that.

Called by the routes. One task looks after all clients: heartbeats, and those that take nothing are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

from headwater.browse.decoder import Decoder
from headwater.client.log import Log
from headwater.edges import counts
from headwater.edges.caller import SENDER
from headwater.edges.config import Limits
from headwater.edges.errors import Overloaded
from headwater.edges.feeds.bodies import Body
from headwater.edges.feeds.channels import Box
from headwater.edges.feeds.feed import Bounds, Feed
from headwater.edges.feeds.history import Readers
from headwater.edges.feeds.outbox import Outbox
from headwater.edges.feeds.request import Ask
from headwater.edges.feeds.session import Session
from headwater.edges.feeds.state import STATES_BYTES
from headwater.edges.feeds.wires import Wire
from headwater.edges.memory_share import SHARE, MemoryShare
from headwater.edges.workers import Workers

_log = logging.getLogger("headwater.edges")
HEARTBEAT_S = 15.0
LOOK_S = 1.0
LINGER_S = 30.0
"""A topic is followed so long after its last client: most come back."""
FULL_RETRY_S = 5.0
PAGES_BYTES_MAX = 64 * 1024**2
PAGE_THREADS, PAGES_AT_ONCE = 8, 4
"""That look for pages, and those of one sender."""
FEED_FILES = 10
"""That the reader of one topic has open; half as many threads."""
FEEDS_MAX, FEEDS_MIN = 400, 16
STOPPING = "the edges are stopping: come again with the last id"
_CLIENTS = counts.gauge("headwater_feed_clients", "Changefeeds that are open", ("way",))


class Hub:
    """`clock`: for tests that do not want to wait."""

    def __init__(
        self,
        log: Log,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        feeds_max: int | None = None,
    ) -> None:
        """`feeds_max`: topics at once; None: by the files that the process may have."""
        self._feeds_max = most_feeds() if feeds_max is None else feeds_max
        self._begun_by: dict[tuple[str, Body], str] = {}
        self.log, self.readers, self.decoder = log, Readers(log), Decoder(log)
        self._limits, self._bounds, self._clock = limits, Bounds(), clock
        self._feeds: dict[tuple[str, Body], asyncio.Task[Feed]] = {}
        self._users: dict[tuple[str, Body], int] = {}
        self._timers: dict[tuple[str, Body], asyncio.TimerHandle] = {}
        self._boxes: set[Box] = set()
        self.clients_of: Counter[str] = Counter()
        """How many each sender has."""
        self._looking: asyncio.Task[None] | None = None
        self.is_ended = False
        self.pages = MemoryShare(PAGES_BYTES_MAX)
        """Of topics, and rows of views: those that wait to be taken."""
        self.states = MemoryShare(STATES_BYTES, "the states of topics take too much memory")
        self.workers = Workers(PAGE_THREADS, PAGES_AT_ONCE, "pages")

    @property
    def slow_seconds(self) -> float:
        return self._limits.slow_seconds

    @property
    def clients(self) -> int:
        return len(self._boxes)

    def feeds(self) -> dict[str, int]:
        """Topics that are followed now, and by how many."""
        return {topic: self._users.get((topic, body), 0) for topic, body in self._feeds}

    @asynccontextmanager
    async def session(
        self, topic: str, body: Body, ask: Ask, wire: Wire, *, is_state: bool = False
    ) -> AsyncIterator[Session]:
        """A client that has begun. Raises what is wrong with what it asks for."""
        if self.is_ended:
            raise Overloaded(STOPPING, FULL_RETRY_S)
        sender = SENDER.get()
        self._check_room(sender, wire)
        box: Box = Outbox(self._limits.client_buffer_bytes, self._clock)
        self._boxes.add(box)
        self.clients_of[sender] += 1
        _CLIENTS.labels(wire.name).inc()
        try:
            async with self.feed(topic, body) as feed:
                session = Session(feed, ask, wire, box, is_state=is_state)
                try:
                    await session.begin()
                    yield session
                finally:
                    session.end()
        finally:
            box.close()
            self._boxes.discard(box)
            self._left(sender)
            _CLIENTS.labels(wire.name).dec()

    def _left(self, sender: str) -> None:
        self.clients_of[sender] -= 1
        if not self.clients_of[sender]:
            del self.clients_of[sender]

    def _check_room(self, sender: str, wire: Wire) -> None:
        """Nobody has more than `SHARE` times what is left for all others: of one alone, a quarter stays."""
        left = self._limits.clients - len(self._boxes)
        if left <= 0:
            counts.refused(wire.name, "clients")
            raise Overloaded(f"{self._limits.clients} changefeeds are open already", FULL_RETRY_S)
        if self.clients_of[sender] >= SHARE * left:
            counts.refused(wire.name, "clients")
            raise Overloaded("one sender has most of all changefeeds open", FULL_RETRY_S)

    @asynccontextmanager
    async def feed(self, topic: str, body: Body) -> AsyncIterator[Feed]:
        """The feed of a topic, started where nobody had it."""
        kind = (topic, body)
        self._users[kind] = self._users.get(kind, 0) + 1
        if (timer := self._timers.pop(kind, None)) is not None:
            timer.cancel()
        try:
            yield await self._started(kind)
        finally:
            self._users[kind] -= 1
            task = self._feeds.get(kind)
            if not self._users[kind] and task is not None and task.done() and _is_over(task):
                self._let_go(kind)  # of topics that are not there, any number may be asked for
            elif not self._users[kind]:
                later = asyncio.get_running_loop().call_later(LINGER_S, self._let_go, kind)
                self._timers[kind] = later

    async def _started(self, kind: tuple[str, Body]) -> Feed:
        task = self._feeds.get(kind)
        if task is not None and task.done() and _is_over(task):
            task = None
        if task is None:
            self._check_feeds(kind)
            task = self._feeds[kind] = asyncio.create_task(self._start(*kind))
            self._begun_by[kind] = SENDER.get()
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(task)

    def _check_feeds(self, kind: tuple[str, Body]) -> None:
        """Those that nobody follows make room; of the others a sender has begun three quarters at most."""
        while len(self._feeds) >= self._feeds_max and self._timers:
            idle, timer = next(iter(self._timers.items()))
            timer.cancel()
            self._let_go(idle)
        own = sum(self._begun_by.get(each) == SENDER.get() for each in self._feeds)
        if len(self._feeds) >= self._feeds_max or own >= max(1, self._feeds_max * 3 // 4):
            counts.refused("feeds", "topics")
            raise Overloaded("as many topics are followed as may be at once", FULL_RETRY_S)

    async def _start(self, topic: str, body: Body) -> Feed:
        feed = Feed(self.log, topic, body, self.readers, self.decoder, self._bounds, self.states)
        with ExitStack() as undo:
            undo.callback(feed.stop, "it could not be started")
            await feed.start()
            undo.pop_all()
        return feed

    def _let_go(self, kind: tuple[str, Body]) -> None:
        self._timers.pop(kind, None)
        if not self._users.get(kind):
            self._users.pop(kind, None)
            self._begun_by.pop(kind, None)
            task = self._feeds.pop(kind, None)
            if task is not None:
                _stop(task, "nobody follows it")

    # ---- looking after all of them ------------------------------------------------------------------

    async def _look(self) -> None:
        beaten = self._clock()
        while True:
            await asyncio.sleep(LOOK_S)
            is_due = self._clock() - beaten >= HEARTBEAT_S
            if is_due:
                beaten = self._clock()
            for task in list(self._feeds.values()):
                if task.done() and not _is_over(task):
                    self._look_at(task.result(), is_due)

    def _look_at(self, feed: Feed, is_due: bool) -> None:
        try:
            feed.drop_stalled(self._limits.slow_seconds)
            if is_due:
                feed.beat()
        except Exception:  # the other feeds have their heartbeats all the same
            _log.exception("looking at a feed failed")

    def end(self) -> None:
        """Everybody is told, and nobody let in any more. The process is about to stop."""
        self.is_ended = True
        for box in list(self._boxes):
            box.drop(STOPPING)

    def close(self) -> None:
        self.end()
        if self._looking is not None:
            self._looking.cancel()
        for timer in self._timers.values():
            timer.cancel()
        for task in self._feeds.values():
            _stop(task, STOPPING)
        self._feeds.clear()
        self.workers.close()
        self.readers.close()


def most_feeds() -> int:
    """Whose readers have a quarter of the files of the process: the rest is for clients."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    fit = FEEDS_MAX if files == resource.RLIM_INFINITY else files // 4 // FEED_FILES
    return max(FEEDS_MIN, min(FEEDS_MAX, fit))


def _is_over(task: asyncio.Task[Feed]) -> bool:
    """Of a task that is done: it failed to start, or has failed since."""
    if task.cancelled() or task.exception() is not None:
        return True
    return task.result().failure is not None


def _stop(task: asyncio.Task[Feed], reason: str) -> None:
    if not task.done():
        task.cancel()
    elif not task.cancelled() and task.exception() is None:
        task.result().stop(reason)
