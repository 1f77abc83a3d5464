"""From the log back to streams groups: records are collected, and put together at the end.

`restore` hands every record of a streams group to `Replay.apply`, in log order, and takes the groups with
`finished`. The newest record of a key wins.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.broker.groups.parts import Parts, Replaying
from headwater.broker.groups.streams import records
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import Held, Holding
from headwater.broker.groups.streams.record_reader import READERS, CurrentValue
from headwater.broker.groups.streams.records import GroupValue, Key


class Replay(Replaying):
    def apply(self, key: Key, value: bytes | None) -> None:
        reader = READERS[key.kind]
        self.put(key.group_id, key.kind, key.member_id, None if value is None else reader(value))

    def finished(self) -> dict[str, StreamsGroup]:
        return {
            group_id: _built(group_id, parts)
            for group_id, parts in self.groups.items()
            if parts.get(records.GROUP) or parts.get(records.MEMBER)
        }


def _built(group_id: str, parts: Parts) -> StreamsGroup:
    group = StreamsGroup(group_id)
    value: GroupValue = parts.get(records.GROUP).get("", GroupValue(1, 0))
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    group.validated_epoch, group.configs = value.validated_epoch, dict(value.configs)
    group.target_epoch, group.target_timestamp = parts.get(records.TARGET).get("", (1, 0))
    group.topology = parts.get(records.TOPOLOGY).get("")
    currents: dict[str, CurrentValue] = parts.get(records.CURRENT)
    newest_first = sorted(
        parts.get(records.MEMBER).items(),
        key=lambda each: -(currents[each[0]].epoch if each[0] in currents else 0),
    )
    for member_id, said in newest_first:
        member = replace(said, id=member_id)
        current = currents.get(member_id)
        if current is not None:
            member.epoch, member.previous_epoch = current.epoch, current.previous_epoch
            member.state = current.state
            member.assigned = _unowned(group, current.assigned)
            member.revoking = _unowned(group, current.revoking)
        group.add(member)
    for member_id, target in parts.get(records.MEMBER_TARGET).items():
        if member_id in group.members:
            group.target[member_id] = target
    return group


def _unowned(group: StreamsGroup, holding: Holding) -> Holding:
    """Leave out what a member of a newer epoch owns: only a lost write can have caused that."""
    active: Held = {
        id: {n: epoch for n, epoch in numbers.items() if (id, n) not in group.owners}
        for id, numbers in holding.active.items()
    }
    return holding._replace(active={id: numbers for id, numbers in active.items() if numbers})
