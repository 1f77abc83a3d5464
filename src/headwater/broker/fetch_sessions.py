"""Incremental fetch sessions (KIP-227): the broker remembers which partitions a consumer reads.

Fetch asks here which partitions a request is about, and which of the answers have changed. A session
belongs to whoever knows its id; its epoch counts requests, so that a lost answer is noticed. There are
at most `max.incremental.fetch.session.cache.slots`; a new one takes the place of one that has been
silent for two minutes, or else the client goes on with full requests. What each and all of them remember
is bounded, too: beyond that there is no new session, and one that grows too large is forgotten. A
partition that does not exist stays in its session: the client believes it to be there, and would wait for
ever for one that is made later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.clock import Clock
from headwater.broker.turns import Few, in_turns

EPOCH_INITIAL, EPOCH_FINAL = 0, -1
EVICT_SECONDS = 120.0
SESSIONS_BYTES_MAX = 64 * 1024**2
"""Of memory for what sessions remember: some 200,000 partitions."""
SESSION_PARTITIONS_MAX = 10_000
"""Of one session: an empty request is answered by a look at all of them."""
_ASKED_BYTES = 300
LOOKS = 8
"""At very many partitions at a time: what one finds is held until it is written."""

Key = tuple[object, int]
"""(topic name or id, partition)."""


@dataclass(slots=True)
class Asked:
    """One partition as a consumer wants it."""

    topic: Any
    """Name or id, as the client gave it."""
    partition: int
    fetch_offset: int
    size_max: int
    leader_epoch: int
    last_fetched_epoch: int
    told: tuple[int, ...] | None = None
    """High watermark, start and stable offset of the last answer, to leave out what did not change."""


@dataclass(slots=True)
class Session:
    """A consumer's partitions, in the order in which they are served."""

    id: int
    epoch: int
    by_id: bool
    used: float
    asked: dict[Key, Asked] = field(default_factory=dict)
    size: int = 0
    """About how many bytes it takes."""


Row = tuple[Asked, dict[str, Any]]
"""A partition that was asked for, and its part of the answer."""
Rows = list[Row]


class FetchSessions:
    """All sessions, and the fetches that wait."""

    def __init__(self, slots: int, clock: Clock) -> None:
        self._sessions: dict[int, Session] = {}
        """By id; the one that was used last is the last."""
        self._slots = slots
        self._size = 0
        self._clock = clock
        self.waiting: set[Callable[[], None]] = set()
        """Fetches that wait for data; called when the broker stops."""
        self.looks = Few(LOOKS)
        """Of fetches of very many partitions."""

    async def wake_all(self) -> None:
        async for wake in in_turns(tuple(self.waiting), self._clock.monotonic):
            if wake in self.waiting:  # else it has found something meanwhile
                wake()

    def topics_of(self, session_id: int) -> set[Any]:
        """The topics (names or ids) that a session remembers."""
        session = self._sessions.get(session_id)
        return set() if session is None else {topic for topic, _ in session.asked}

    def forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._size -= session.size

    def resume(self, request: Any, by_id: bool) -> tuple[Session | None, list[Asked], ErrorCode]:
        """The session (if any) and the partitions that this request is about."""
        asked = {(item.topic, item.partition): item for item in _asked(request, by_id)}
        session_id = getattr(request, "session_id", 0)
        epoch = getattr(request, "session_epoch", EPOCH_FINAL)
        if epoch in (EPOCH_INITIAL, EPOCH_FINAL):
            if session_id:
                self.forget(session_id)
            session = self._create(asked, by_id) if epoch == EPOCH_INITIAL else None
            return session, list(asked.values()), ErrorCode.none
        known = self._sessions.get(session_id)
        if known is None:
            return None, [], ErrorCode.fetch_session_id_not_found
        if known.epoch != epoch:
            return None, [], ErrorCode.invalid_fetch_session_epoch
        if known.by_id != by_id:
            return None, [], ErrorCode.fetch_session_topic_id_error
        self._update(known, asked, request, by_id)
        if self._size > SESSIONS_BYTES_MAX or len(known.asked) > SESSION_PARTITIONS_MAX:
            self.forget(known.id)
            return None, [], ErrorCode.fetch_session_id_not_found
        return known, list(known.asked.values()), ErrorCode.none

    def _create(self, asked: dict[Key, Asked], by_id: bool) -> Session | None:
        size = _size(asked)
        if not 0 < len(asked) <= SESSION_PARTITIONS_MAX or not self._make_room(size):
            return None
        number = 0
        while number == 0 or number in self._sessions:
            number = random.randint(1, 2**31 - 1)
        session = Session(number, 1, by_id, self._clock.monotonic(), asked, size)
        self._sessions[number] = session
        self._size += size
        return session

    def _make_room(self, size: int) -> bool:
        while len(self._sessions) >= self._slots or self._size + size > SESSIONS_BYTES_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or self._clock.monotonic() - oldest.used < EVICT_SECONDS:
                return False
            self.forget(oldest.id)
        return True

    def _update(self, session: Session, asked: dict[Key, Asked], request: Any, by_id: bool) -> None:
        session.epoch = session.epoch + 1 if session.epoch < 2**31 - 1 else 1
        session.used = self._clock.monotonic()
        self._sessions[session.id] = self._sessions.pop(session.id)
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if by_id else forgotten.topic
            for partition in forgotten.partitions:
                session.asked.pop((topic, partition), None)
        for key, item in asked.items():
            before = session.asked.get(key)
            if before is not None:
                item.told = before.told
            session.asked[key] = item
        if asked or request.forgotten_topics_data:
            self._size -= session.size
            session.size = _size(session.asked)
            self._size += session.size

    def held_back(self, session_id: int) -> int:
        """The answer was not sent, because of a quota: nothing of it is told. The id to answer."""
        session = self._sessions.get(session_id)
        if session is None:
            return session_id
        if session.epoch == 1:  # made by this request, which the client will repeat from the start
            self.forget(session_id)
            return 0
        for asked in session.asked.values():
            asked.told = None
        return session_id

    @staticmethod
    def changed(session: Session, rows: Sequence[Row]) -> Rows:
        """The rows that an incremental answer must carry; those with data move to the end."""
        out = []
        for asked, row in rows:
            told = (row["high_watermark"], row["log_start_offset"], row["last_stable_offset"])
            has_data = bool(row["records"])
            if has_data or row.get("error_code") or told != asked.told or "diverging_epoch" in row:
                out.append((asked, row))
            asked.told = None if row.get("error_code") else told
            if has_data:
                key = (asked.topic, asked.partition)
                if key in session.asked:
                    session.asked[key] = session.asked.pop(key)
        return out


def _size(asked: dict[Key, Asked]) -> int:
    """The name of a topic counts once, with its first partition in a row."""
    size, before = len(asked) * _ASKED_BYTES, None
    for topic, _ in asked:
        if topic is not before:
            size += len(topic) if isinstance(topic, str) else 0
            before = topic
    return size


def _asked(request: Any, by_id: bool) -> list[Asked]:
    return [
        Asked(
            topic.topic_id if by_id else topic.topic,
            part.partition,
            part.fetch_offset,
            part.partition_max_bytes,
            getattr(part, "current_leader_epoch", -1),
            getattr(part, "last_fetched_epoch", -1),
        )
        for topic in request.topics
        for part in topic.partitions
    ]
