"""What one turn has changed in a group, and the records that say so.

The moves note which parts they touched; `records` encodes those parts once, at the end of the turn,
as they then are. So nothing is written twice in a turn, and the order is the one that Kafka's replay
wants: members before their assignments, tombstones the other way round.
"""

from __future__ import annotations

from headwater.broker.groups.consumer import records
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ConsumerMember
from headwater.broker.groups.consumer.records import CurrentValue, MemberValue
from headwater.broker.groups.journal import Records


class Changes:
    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._gone: dict[str, None] = {}
        self._members: dict[str, None] = {}
        self._regexes: dict[str, None] = {}
        self._targets: dict[str, None] = {}
        self._currents: dict[str, None] = {}
        self._group_changed = False
        self._target_changed = False
        self.first: Records = []
        """Records that must come before all others (the other type's tombstones, in a migration)."""

    # ---- notes -----------------------------------------------------------------------------------

    def group(self) -> None:
        self._group_changed = True

    def member(self, member_id: str) -> None:
        self._members[member_id] = None

    def arrived(self, member_id: str) -> None:
        """A member that was not there before; it may have inherited target and assignment."""
        self._gone.pop(member_id, None)
        for part in (self._members, self._targets, self._currents):
            part[member_id] = None

    def gone(self, member_id: str) -> None:
        self._gone[member_id] = None

    def regex(self, expression: str) -> None:
        self._regexes[expression] = None

    def new_target(self, changed: list[str]) -> None:
        self._target_changed = True
        self._targets.update(dict.fromkeys(changed))

    def current(self, member_id: str) -> None:
        self._currents[member_id] = None

    def everything(self) -> None:
        """Write the group as a whole: it is new to the log, or a record of it was lost."""
        group = self._group
        self._group_changed = self._target_changed = True
        for part in (self._members, self._targets, self._currents):
            part.update(dict.fromkeys(group.members))
        self._regexes.update(dict.fromkeys(group.regexes))

    # ---- records ---------------------------------------------------------------------------------

    def records(self) -> Records:
        group = self._group
        found = [*self.first, *self._tombstones()]
        there = group.members
        found += [
            (records.key(records.MEMBER, group.id, id), member_record(there[id]))
            for id in self._members
            if id in there
        ]
        found += map(self._regex_record, self._regexes)
        if self._group_changed:
            value = records.group_value(group.epoch, group.metadata_hash)
            found.append((records.key(records.GROUP, group.id), value))
        found += [
            (
                records.key(records.MEMBER_TARGET, group.id, id),
                records.member_target_value(group.target.get(id, {})),
            )
            for id in self._targets
            if id in there
        ]
        if self._target_changed:
            value = records.target_value(group.target_epoch, group.target_timestamp)
            found.append((records.key(records.TARGET, group.id), value))
        found += [
            (records.key(records.CURRENT, group.id, id), current_record(there[id]))
            for id in self._currents
            if id in there
        ]
        return found

    def _tombstones(self) -> Records:
        group = self._group
        gone = [id for id in self._gone if id not in group.members]
        kinds = (records.CURRENT, records.MEMBER_TARGET, records.MEMBER)
        return [(records.key(kind, group.id, id), None) for kind in kinds for id in gone]

    def _regex_record(self, expression: str) -> tuple[bytes, bytes | None]:
        value = self._group.regexes.get(expression)
        key = records.key(records.REGEX, self._group.id, expression)
        return key, None if value is None else records.regex_value(value)


def member_record(member: ConsumerMember) -> bytes:
    return records.member_value(
        MemberValue(
            member.instance_id,
            member.rack_id,
            member.client_id,
            member.client_host,
            member.topic_names,
            member.topic_regex,
            member.rebalance_timeout_ms,
            member.assignor,
            member.classic,
        )
    )


def current_record(member: ConsumerMember) -> bytes:
    return records.current_value(
        CurrentValue(
            member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking
        )
    )
