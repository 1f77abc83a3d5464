"""From the log back to consumer groups: records are collected, and put together at the end.

`restore` hands every record of a consumer group to `Replay.apply`, in log order, and takes the
groups with `finished`. The newest record of a key wins.
"""

from __future__ import annotations

from headwater.broker.groups.consumer import records
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ConsumerMember, Held
from headwater.broker.groups.consumer.record_reader import READERS
from headwater.broker.groups.consumer.records import CurrentValue, Key, MemberValue
from headwater.broker.groups.parts import Parts, Replaying


class Replay(Replaying):
    def apply(self, key: Key, value: bytes | None) -> None:
        reader = READERS.get(key.kind)
        if reader is not None:
            self.put(key.group_id, key.kind, key.name, None if value is None else reader(value))

    def finished(self) -> dict[str, ConsumerGroup]:
        return {
            group_id: _built(group_id, parts)
            for group_id, parts in self.groups.items()
            if parts.get(records.GROUP) or parts.get(records.MEMBER)
        }


def _built(group_id: str, parts: Parts) -> ConsumerGroup:
    group = ConsumerGroup(group_id)
    group.epoch, group.metadata_hash = parts.get(records.GROUP).get("", (0, 0))
    group.target_epoch, group.target_timestamp = parts.get(records.TARGET).get("", (0, 0))
    group.regexes = dict(parts.get(records.REGEX))
    currents = parts.get(records.CURRENT)
    newest_first = sorted(
        parts.get(records.MEMBER).items(),
        key=lambda each: -(currents[each[0]].epoch if each[0] in currents else 0),
    )
    for member_id, value in newest_first:
        _add(group, member_id, value, currents.get(member_id))
    for member_id, target in parts.get(records.MEMBER_TARGET).items():
        if member_id in group.members:
            group.target[member_id] = target
    group.subscribe()
    return group


def _add(
    group: ConsumerGroup, member_id: str, value: MemberValue, current: CurrentValue | None
) -> None:
    member = ConsumerMember(
        member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.topic_names,
        value.topic_regex or "",
        value.rebalance_timeout_ms,
        value.assignor,
        value.classic,
    )
    if current is not None:
        member.epoch, member.previous_epoch = current.epoch, current.previous_epoch
        member.state = current.state
        member.assigned = _unowned(group, current.assigned)
        member.revoking = _unowned(group, current.revoking)
    group.add(member)


def _unowned(group: ConsumerGroup, held: Held) -> Held:
    """Leave out what a member of a newer epoch owns: only a lost write can have caused that."""
    left = {
        topic_id: {n: epoch for n, epoch in numbers.items() if (topic_id, n) not in group.owners}
        for topic_id, numbers in held.items()
    }
    return {topic_id: numbers for topic_id, numbers in left.items() if numbers}
