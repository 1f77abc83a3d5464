"""What one turn has changed in a streams group, as records; see `modern.changes`."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.broker.groups.modern.changes import ModernChanges
from headwater.broker.groups.streams import records
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import Assignment, StreamsMember, Task
from headwater.broker.groups.streams.records import GroupValue


class Changes(ModernChanges[StreamsMember, Assignment, Task]):
    kinds = records.KINDS

    def __init__(self, group: StreamsGroup) -> None:
        super().__init__(group)
        self._group = group
        self._topology_changed = False

    def topology(self) -> None:
        self._topology_changed = True

    def everything(self) -> None:
        super().everything()
        self._topology_changed = self._group.topology is not None

    # ---- records ---------------------------------------------------------------------------------

    def group_value(self) -> bytes:
        group = self._group
        configs = tuple(sorted(group.configs.items()))
        return records.group_value(
            GroupValue(group.epoch, group.metadata_hash, group.validated_epoch, configs)
        )

    def member_value(self, member: StreamsMember) -> bytes:
        return records.member_value(member)

    def member_target_value(self, member_id: str) -> bytes:
        return records.member_target_value(self._group.target.get(member_id, Assignment()))

    def current_value(self, member: StreamsMember) -> bytes:
        return records.current_value(member)

    def more(self) -> Iterator[tuple[bytes, bytes | None]]:
        topology = self._group.topology
        if self._topology_changed and topology is not None:
            yield self.key(records.TOPOLOGY), records.topology_value(topology)
