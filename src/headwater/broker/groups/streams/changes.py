"""What one turn has changed in a streams group, and the records that say so; see `consumer.changes`."""

from __future__ import annotations

from headwater.broker.groups.journal import Records
from headwater.broker.groups.streams import records
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import Assignment
from headwater.broker.groups.streams.records import GroupValue


class Changes:
    def __init__(self, group: StreamsGroup) -> None:
        self._group = group
        self._gone: dict[str, None] = {}
        self._members: dict[str, None] = {}
        self._targets: dict[str, None] = {}
        self._currents: dict[str, None] = {}
        self._group_changed = False
        self._target_changed = False
        self._topology_changed = False
        self.first: Records = []
        """Records that must come before all others (another type's tombstones)."""

    # ---- notes -----------------------------------------------------------------------------------

    def group(self) -> None:
        self._group_changed = True

    def topology(self) -> None:
        self._topology_changed = True

    def member(self, member_id: str) -> None:
        self._members[member_id] = None

    def gone(self, member_id: str) -> None:
        self._gone[member_id] = None

    def new_target(self, changed: list[str]) -> None:
        self._target_changed = True
        self._targets.update(dict.fromkeys(changed))

    def current(self, member_id: str) -> None:
        self._currents[member_id] = None

    def everything(self) -> None:
        self._group_changed = self._target_changed = True
        self._topology_changed = self._group.topology is not None
        for part in (self._members, self._targets, self._currents):
            part.update(dict.fromkeys(self._group.members))

    # ---- records ---------------------------------------------------------------------------------

    def records(self) -> Records:
        """Members before their assignments, tombstones the other way round: what Kafka's replay wants."""
        group, there = self._group, self._group.members
        found = [*self.first, *self._tombstones()]
        for id in self._members:
            if id in there:
                found.append((self._key(records.MEMBER, id), records.member_value(there[id])))
        if self._topology_changed and group.topology is not None:
            found.append((self._key(records.TOPOLOGY), records.topology_value(group.topology)))
        if self._group_changed:
            found.append((self._key(records.GROUP), records.group_value(self._group_value())))
        for id in self._targets:
            if id in there:
                value = records.member_target_value(group.target.get(id, Assignment()))
                found.append((self._key(records.MEMBER_TARGET, id), value))
        if self._target_changed:
            value = records.target_value(group.target_epoch, group.target_timestamp)
            found.append((self._key(records.TARGET), value))
        for id in self._currents:
            if id in there:
                found.append((self._key(records.CURRENT, id), records.current_value(there[id])))
        return found

    def _key(self, kind: int, member_id: str = "") -> bytes:
        return records.key(kind, self._group.id, member_id)

    def _group_value(self) -> GroupValue:
        group = self._group
        configs = tuple(sorted(group.configs.items()))
        return GroupValue(group.epoch, group.metadata_hash, group.validated_epoch, configs)

    def _tombstones(self) -> Records:
        gone = [id for id in self._gone if id not in self._group.members]
        kinds = (records.CURRENT, records.MEMBER_TARGET, records.MEMBER)
        return [(self._key(kind, id), None) for kind in kinds for id in gone]
