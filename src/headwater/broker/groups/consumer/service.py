"""Consumer groups as the handlers see them: `coordinator.consumer`.

k68 calls `heartbeat`, k69 `describe`; k11 to k14 come here through the coordinator when a classic
member speaks to such a group. Decisions are made in the pure modules; `settling` makes them durable
before anybody hears of them.
"""

from __future__ import annotations

import asyncio

from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.consumer import timeouts
from headwater.broker.groups.consumer.changes import Changes
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.heartbeat import (
    Beat,
    Beaten,
    ConsumerLimits,
    Refused,
    Setting,
    assign,
    heartbeat,
    stay,
)
from headwater.broker.groups.consumer.member import JOIN_EPOCH, MemberState
from headwater.broker.groups.consumer.settling import Settling
from headwater.broker.groups.core import Core, answer, ticket
from headwater.broker.groups.effects import Turn


class ConsumerGroups:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._settling = Settling(core)
        core.moves[ConsumerGroup.type] = self

    # ---- requests --------------------------------------------------------------------------------

    async def heartbeat(self, group_id: str, beat: Beat) -> Beaten:
        waiting: asyncio.Future[Beaten] = ticket()
        try:
            group, changes = self._group_for(group_id, beat)
            beaten = heartbeat(group, changes, beat, self.setting(group_id))
        except Refused as refused:
            return Beaten(refused.error, refused.message)
        self._core.groups[group_id] = group

        def then(error: ErrorCode) -> None:
            answer(waiting, beaten if error is ErrorCode.none else Beaten(error))

        self._settling.settle(group, changes, then)
        return await waiting

    def _group_for(self, group_id: str, beat: Beat) -> tuple[ConsumerGroup, Changes]:
        found = self._core.groups.get(group_id)
        if isinstance(found, ConsumerGroup) and not found.dead:
            return found, Changes(found)
        if found is None and beat.epoch != JOIN_EPOCH:
            word = "Consumer group" if beat.epoch > JOIN_EPOCH else "Group"
            raise Refused(ErrorCode.group_id_not_found, f"{word} {group_id} not found.")
        if found is not None and (beat.epoch != JOIN_EPOCH or not self._may_replace(found)):
            raise Refused(
                ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group."
            )
        group = ConsumerGroup(group_id)
        changes = Changes(group)
        changes.group()
        if isinstance(found, ClassicGroup):
            changes.first += [(key, None) for key in found.tombstone_keys()]
        return group, changes

    def _may_replace(self, found: object) -> bool:
        """A group of another type that has no members may become one of ours; offsets stay."""
        return isinstance(found, ClassicGroup) and found.is_idle

    def setting(self, group_id: str) -> Setting:
        get, of_group = self._core.settings.get, self._core.settings.group
        limits = ConsumerLimits(
            of_group(group_id, "consumer.session.timeout.ms"),
            of_group(group_id, "consumer.heartbeat.interval.ms"),
            of_group(group_id, "consumer.assignment.interval.ms"),
            get("group.consumer.max.size"),
            get("group.consumer.assignors"),
        )
        return Setting(self._core.image, limits, self._core.now())

    # ---- life ------------------------------------------------------------------------------------

    def start(self, group: ConsumerGroup) -> None:
        """After a restart every member has a full time-out from now."""
        setting = self.setting(group.id)
        for member in group.members.values():
            side = member.classic
            timeout = side.session_timeout_ms if side else setting.limits.session_timeout_ms
            stay(group, member, setting.now, timeout)
            if member.state is MemberState.UNREVOKED:
                member.rebalance_deadline = setting.now.monotonic_ms + member.rebalance_timeout_ms
        timeouts.set_wake(group)

    # ---- what `core` and `committed` call (Moves) ------------------------------------------------

    def tick(self, group: ConsumerGroup, turn: Turn) -> None:
        changes = Changes(group)
        setting = self.setting(group.id)
        timeouts.remove_late(group, changes, turn.now)
        if group.assign_at is not None and group.assign_at <= turn.now.monotonic_ms:
            assign(group, changes, setting)
        timeouts.set_wake(group)
        self._settling.settle(group, changes, lambda _error: None)

    def stop(self, group: ConsumerGroup, turn: Turn) -> None:
        """Nothing of ours waits for anything but the log."""

    def committed_by(self, group: ConsumerGroup, turn: Turn, member_id: str) -> None:
        """A commit is no heartbeat in this protocol; of a classic member it is."""
        member = group.members.get(member_id)
        if member is not None and member.classic is not None:
            stay(group, member, turn.now, member.classic.session_timeout_ms)
