"""The topic into the state: one thread, record by record, for as long as the registry runs.

Whoever has written waits here until its offset was applied, and whoever finds nothing may ask for the end
of the topic first: another registry may have written it a moment ago.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable

from headwater.client import batches
from headwater.client.cluster import EARLIEST, LATEST, READ_COMMITTED, Cluster
from headwater.client.errors import NotThere
from headwater.client.leader import Leader
from headwater.errors import HeadwaterError
from headwater.schemas import records
from headwater.schemas.errors import timed_out
from headwater.schemas.state import State

WAIT_MS = 500
AGAIN_S = 0.5
_log = logging.getLogger("headwater.schemas")

_NO_RECORD = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def applied(state: State, key: bytes | None, value: bytes | None) -> bool:
    """A record of the topic, whatever a stranger's holds: who reads it must get past it, or nothing is read
    again. False: it is none of a registry's."""
    try:
        fact = records.decoded(key, value)
        if fact is not None:
            state.apply(fact)
    except _NO_RECORD:
        _log.exception("a record of a registry's topic cannot be applied")
        return False
    return fact is not None


class Follower:
    """`cluster` is a maker: a client is not for several threads."""

    def __init__(self, make: Callable[[], Cluster], topic: str, state: State) -> None:
        self._make, self._place, self._state = make, (topic, 0), state
        self._changed = threading.Condition()
        self._position = -1
        """The next offset to apply; -1: not known yet."""
        self._topic_id: uuid.UUID | None = None
        self._stopping = threading.Event()
        self.unreadable = 0
        """Records that are of no known format."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="schemas follower", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def wait_for(self, offset: int, timeout_s: float) -> None:
        """Until the record at this offset was applied. Raises timed_out."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._position > offset, timeout_s):
                raise timed_out(f"offset {offset} of {self._place[0]} was not read in time")

    def _run(self) -> None:
        is_done = False
        try:
            while not self._stopping.is_set():
                self._once()
            is_done = True
        finally:
            if not is_done:  # what is our own mistake is printed, and another thread takes over
                self._stopping.wait(AGAIN_S)
                self.start()

    def _once(self) -> None:
        cluster = self._make()
        try:
            self._follow(cluster)
        except HeadwaterError as error:
            _log.warning("reading %s: %s; it is tried again", self._place[0], error)
            self._stopping.wait(AGAIN_S)
        finally:
            cluster.close()

    def _follow(self, cluster: Cluster) -> None:
        topic = cluster.metadata([self._place[0]]).topics.get(self._place[0])
        topic_id = self._topic_id if topic is None else topic.id
        if self._position >= 0 and topic_id != self._topic_id:
            self._begin_at(cluster.list_offsets({self._place: EARLIEST})[self._place])
        self._topic_id = topic_id
        if self._position < 0:
            self._move(cluster.list_offsets({self._place: EARLIEST})[self._place])
        leader = Leader(cluster, self._place)
        while not self._stopping.is_set():
            try:
                piece = batches.fetch(leader, self._position, wait_ms=WAIT_MS)
            except NotThere:
                self._begin_anew(cluster)
                continue
            if piece.end > self._position:
                self._apply(cluster, piece.end)

    def _apply(self, cluster: Cluster, end: int) -> None:
        for some in batches.read_records(cluster, self._place, self._position, end):
            for record in some:
                if not applied(self._state, record.key, record.value):
                    self.unreadable += 1
                    _log.warning(
                        "%s-0@%d is no record of a registry", self._place[0], record.offset
                    )
        self._move(end)

    def _begin_anew(self, cluster: Cluster) -> None:
        """Somebody has deleted the topic, or its records."""
        first = cluster.list_offsets({self._place: EARLIEST})[self._place]
        end = cluster.list_offsets({self._place: LATEST}, READ_COMMITTED)[self._place]
        if first <= self._position <= end:
            self._stopping.wait(AGAIN_S)
            return
        self._begin_at(first)

    def _begin_at(self, first: int) -> None:
        _log.error("%s has started over, at offset %d: so does the registry", self._place[0], first)
        self._state.clear()
        self._move(first)

    def _move(self, position: int) -> None:
        with self._changed:
            self._position = position
            self._changed.notify_all()
