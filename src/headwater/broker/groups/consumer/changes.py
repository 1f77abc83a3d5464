"""What one turn has changed in a consumer group, as records; see `modern.changes`."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.broker.groups.consumer import records
from headwater.broker.groups.consumer.group import ConsumerGroup, Owned
from headwater.broker.groups.consumer.member import ConsumerMember, Partitions
from headwater.broker.groups.consumer.records import CurrentValue, MemberValue
from headwater.broker.groups.modern.changes import ModernChanges


class Changes(ModernChanges[ConsumerMember, Partitions, Owned]):
    kinds = records.KINDS

    def __init__(self, group: ConsumerGroup) -> None:
        super().__init__(group)
        self._group = group
        self._regexes: dict[str, None] = {}

    def regex(self, expression: str) -> None:
        self._regexes[expression] = None

    def everything(self) -> None:
        super().everything()
        self._regexes.update(dict.fromkeys(self._group.regexes))

    # ---- records ---------------------------------------------------------------------------------

    def group_value(self) -> bytes:
        return records.group_value(self._group.epoch, self._group.metadata_hash)

    def member_value(self, member: ConsumerMember) -> bytes:
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

    def member_target_value(self, member_id: str) -> bytes:
        return records.member_target_value(self._group.target.get(member_id, {}))

    def current_value(self, member: ConsumerMember) -> bytes:
        return records.current_value(
            CurrentValue(
                member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking
            )
        )

    def more(self) -> Iterator[tuple[bytes, bytes | None]]:
        for expression in self._regexes:
            value = self._group.regexes.get(expression)
            key = self.key(records.REGEX, expression)
            yield key, None if value is None else records.regex_value(value)
