"""What one turn has changed in a group with epochs, and the records that say so.

The moves note which parts they touched; `records` encodes those parts once, at the end of the turn,
as they then are. So nothing is written twice in a turn, and the order is the one that Kafka's replay
wants: members before their assignments, tombstones the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from headwater.broker.groups.journal import Records
from headwater.broker.groups.modern.group import ModernGroup
from headwater.broker.groups.modern.member import ModernMember
from headwater.broker.groups.modern.records import Kinds, target_value

Member = TypeVar("Member", bound=ModernMember)
Target = TypeVar("Target")
Owned = TypeVar("Owned")


class ModernChanges(Generic[Member, Target, Owned]):
    kinds: Kinds

    def __init__(self, group: ModernGroup[Member, Target, Owned]) -> None:
        self._common = group
        self._gone: dict[str, None] = {}
        self._members: dict[str, None] = {}
        self._targets: dict[str, None] = {}
        self._currents: dict[str, None] = {}
        self._group_changed = False
        self._target_changed = False
        self.first: Records = []
        """Records that must come before all others (the other type's tombstones, in a migration)."""

    # ---- how its type encodes them ---------------------------------------------------------------

    def group_value(self) -> bytes:
        raise NotImplementedError

    def member_value(self, member: Member) -> bytes:
        raise NotImplementedError

    def member_target_value(self, member_id: str) -> bytes:
        raise NotImplementedError

    def current_value(self, member: Member) -> bytes:
        raise NotImplementedError

    def more(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Records that only this type has: after the members, before the group."""
        return ()

    # ---- notes -----------------------------------------------------------------------------------

    def group(self) -> None:
        self._group_changed = True

    def raise_epoch(self) -> None:
        self._common.epoch += 1
        self.group()

    def member(self, member_id: str) -> None:
        self._members[member_id] = None

    def arrived(self, member_id: str) -> None:
        """A member that was not there before; it may have inherited target and assignment."""
        self._gone.pop(member_id, None)
        for part in (self._members, self._targets, self._currents):
            part[member_id] = None

    def gone(self, member_id: str) -> None:
        self._gone[member_id] = None

    def new_target(self, changed: list[str]) -> None:
        self._target_changed = True
        self._targets.update(dict.fromkeys(changed))

    def current(self, member_id: str) -> None:
        self._currents[member_id] = None

    def everything(self) -> None:
        """Write the group as a whole: it is new to the log, or a record of it was lost."""
        self._group_changed = self._target_changed = True
        for part in (self._members, self._targets, self._currents):
            part.update(dict.fromkeys(self._common.members))

    # ---- records ---------------------------------------------------------------------------------

    def records(self) -> Records:
        return [*self.first, *self._tombstones(), *self._present()]

    def _present(self) -> Iterator[tuple[bytes, bytes | None]]:
        group, kinds, there = self._common, self.kinds, self._common.members
        for id in self._members:
            if id in there:
                yield self.key(kinds.member, id), self.member_value(there[id])
        yield from self.more()
        if self._group_changed:
            yield self.key(kinds.group), self.group_value()
        for id in self._targets:
            if id in there:
                yield self.key(kinds.member_target, id), self.member_target_value(id)
        if self._target_changed:
            value = target_value(group.target_epoch, group.target_timestamp)
            yield self.key(kinds.target), value
        for id in self._currents:
            if id in there:
                yield self.key(kinds.current, id), self.current_value(there[id])

    def _tombstones(self) -> Records:
        gone = [id for id in self._gone if id not in self._common.members]
        return [(self.key(kind, id), None) for kind in self.kinds.of_member for id in gone]

    def key(self, kind: int, name: str = "") -> bytes:
        return self.kinds.key(kind, self._common.id, name)
