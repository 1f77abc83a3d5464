"""Share sessions: what each consumer fetches, remembered between its requests (KIP-932).

The ShareFetch and ShareAcknowledge handlers resume a session by group, member and epoch. Epoch 0
begins one, -1 ends it, and each request in between counts up by one, so that a lost or repeated
request is noticed. A session ends with its connection; whoever ends it gives the records back. The
number of sessions is bounded, and so is that of the partitions of each and of all.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker.shares.records import Key
from headwater.broker.supervisor import Supervisor
from headwater.broker.turns import Pace

if TYPE_CHECKING:
    from headwater.broker.shares.partition_owner import PartitionOwner

INITIAL, FINAL = 0, -1
SESSION_PARTITIONS_MAX = 10_000
"""Of one session: an empty request is answered by a look at all of them."""
PARTITIONS_MAX = 200_000
"""Of all sessions: some 40 MB."""
CONNECTION_SESSIONS_MAX = 100
"""Of one connection: a consumer has one, and nobody is to take all that there are."""
_EPOCH_MAX = 2**31 - 1

Place = tuple[uuid.UUID, int]
"""A partition, by its topic's id."""


class SessionError(Exception):
    """A request that fits no session."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class Session:
    """The partitions that one member fetches, in turn."""

    __slots__ = ("connection", "epoch", "key", "places")

    def __init__(self, key: SessionKey, connection: Any) -> None:
        self.key = key
        self.connection = connection
        self.epoch = 1
        self.places: dict[Place, None] = {}

    def rotate(self) -> list[Place]:
        """All partitions, beginning with another one each time."""
        if len(self.places) > 1:
            first = next(iter(self.places))
            del self.places[first]
            self.places[first] = None
        return list(self.places)


class Sessions:
    """All sessions of the broker."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, Session] = {}
        self._by_connection: dict[Any, set[SessionKey]] = {}
        self._places = 0
        """Partitions of all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key: SessionKey, connection: Any, sessions_max: int) -> Session:
        """A new session, in the place of an old one of the same member. Raises SessionError."""
        self.end(key)
        mine = self._by_connection.get(connection, ())
        if len(self._sessions) >= sessions_max or len(mine) >= CONNECTION_SESSIONS_MAX:
            raise SessionError(ErrorCode.share_session_limit_reached)
        session = self._sessions[key] = Session(key, connection)
        self._by_connection.setdefault(connection, set()).add(key)
        return session

    def resume(self, key: SessionKey, epoch: int) -> Session:
        """The session that this request goes on with. Raises SessionError."""
        session = self._sessions.get(key)
        if session is None:
            raise SessionError(ErrorCode.share_session_not_found)
        if epoch != FINAL:
            if epoch != session.epoch:
                raise SessionError(ErrorCode.invalid_share_session_epoch)
            session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return session

    def has(self, session: Session) -> bool:
        """Whether it has neither ended nor been replaced."""
        return self._sessions.get(session.key) is session

    def update(self, session: Session, added: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Raises SessionError if there are too many partitions then: the session must end, and the client
        begins anew."""
        before = len(session.places)
        session.places.update(dict.fromkeys(added))
        for place in forgotten:
            session.places.pop(place, None)
        self._places += len(session.places) - before
        if len(session.places) > SESSION_PARTITIONS_MAX or self._places > PARTITIONS_MAX:
            raise SessionError(ErrorCode.share_session_limit_reached)

    def end(self, key: SessionKey) -> bool:
        session = self._sessions.pop(key, None)
        if session is None:
            return False
        self._places -= len(session.places)
        keys = self._by_connection.get(session.connection)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._by_connection[session.connection]
        return True

    def of_connection(self, connection: Any) -> list[SessionKey]:
        return list(self._by_connection.get(connection, ()))


class Releases:
    """What members hold, and how it is given back when they are gone.

    A member may hold records of thousands of share-partitions, and a connection may have a hundred members.
    So when one goes, a few are given back in that turn, and the rest in the turns behind it, by one task for
    all. Others only wait longer for that. A member that comes again under the name that it had first gives
    back what it held before in the share-partition that it speaks of (`catch_up`): nothing that it acquires
    anew is taken from it. A stop, or a crash, ends the locks that are left: a restart knows none.
    """

    def __init__(self, owners: Mapping[Key, PartitionOwner], supervisor: Supervisor) -> None:
        self._owners = owners
        self._supervisor = supervisor
        self._held: dict[SessionKey, set[Key]] = {}
        """Share-partitions in which a member may have records locked."""
        self._leaving: dict[SessionKey, set[Key]] = {}
        """The same of those who are gone: still to be given back."""
        self._is_working = False

    def __len__(self) -> int:
        """Of members who hold something, or have held it and are gone."""
        return len(self._held.keys() | self._leaving.keys())

    def holds(self, member_id: str, key: Key) -> None:
        """The member has locked records of this share-partition."""
        self._held.setdefault(SessionKey(key.group_id, member_id), set()).add(key)

    def begin(self, *members: SessionKey) -> None:
        """They are gone: what they hold is free for others."""
        for member in members:
            if held := self._held.pop(member, None):
                self._leaving.setdefault(member, set()).update(held)
        if self._leaving and not self._is_working:
            pace = Pace(self._supervisor.monotonic)
            while self._leaving and not pace.is_due:
                self._next(next(iter(self._leaving)))
            if self._leaving:
                self._is_working = True
                self._supervisor.spawn("share groups", self._work())

    async def over(self, member: SessionKey) -> None:
        """Done when nothing is left of this one; it need not wait for those before it."""
        pace = Pace(self._supervisor.monotonic)
        while member in self._leaving:
            self._next(member)
            await pace.rest()

    def catch_up(self, member_id: str, key: Key) -> None:
        """A member that was gone may have come again: what it held before in this share-partition is free."""
        member = SessionKey(key.group_id, member_id)
        if key in self._leaving.get(member, ()):
            self._leaving[member].discard(key)
            self._end(member, key)

    async def _work(self) -> None:
        pace = Pace(self._supervisor.monotonic)
        try:
            while self._leaving:
                await pace.rest()
                if self._leaving:
                    self._next(next(iter(self._leaving)))
        finally:
            self._is_working = False

    def _next(self, member: SessionKey) -> None:
        self._end(member, self._leaving[member].pop())

    def _end(self, member: SessionKey, key: Key) -> None:
        if not self._leaving[member]:
            del self._leaving[member]
        owner = self._owners.get(key)
        if owner is not None:
            self._supervisor.call("share groups", owner.release, member.member_id)
