"""Streams groups as the handlers see them: `GroupCoordinator` sends to here what concerns them.

k88 calls `heartbeat`. Decisions are made in the pure modules; `settlement` makes them durable before
anybody hears of them.
"""

from __future__ import annotations

import asyncio

from kio.schema.errors import ErrorCode

from headwater.broker import bounds
from headwater.broker.groups import timeouts
from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.core import Core, answer, ticket
from headwater.broker.groups.effects import Turn
from headwater.broker.groups.group import HeartbeatRefused
from headwater.broker.groups.modern.member import JOIN_EPOCH, LEAVE_EPOCH
from headwater.broker.groups.settlement import Settling, Then, nobody_waits
from headwater.broker.groups.streams.changes import Changes
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.heartbeat import Beat, Beaten, heartbeat
from headwater.broker.groups.streams.steps import (
    Setting,
    StreamsLimits,
    assign_anew,
    expel,
)


class StreamsGroups:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._settling = Settling(core)
        core.protocols[StreamsGroup.type] = self

    async def heartbeat(self, group_id: str, beat: Beat) -> Beaten:
        waiting: asyncio.Future[Beaten] = ticket()

        def answered(beaten: Beaten) -> Then:
            return lambda error: answer(waiting, beaten if not error else Beaten(error))

        try:
            if beat.epoch == LEAVE_EPOCH:
                group, changes, beaten = self._leave(group_id, beat)
            else:
                group, changes, beaten = self._beat(group_id, beat)
        except HeartbeatRefused as refused:
            return Beaten(refused.error, refused.message)
        self._settling.settle(group, changes, answered(beaten))
        return await waiting

    def _beat(self, group_id: str, beat: Beat) -> tuple[StreamsGroup, Changes, Beaten]:
        found = self._core.groups.get(group_id)
        if isinstance(found, StreamsGroup):
            if found.dead:
                raise HeartbeatRefused(
                    ErrorCode.coordinator_not_available, "The group is being deleted."
                )
            group, changes = found, Changes(found)
        else:
            group, changes = self._new(group_id, beat)
        beaten = heartbeat(group, changes, beat, self._setting(group_id))
        self._core.groups[group_id] = group
        return group, changes, beaten

    def _new(self, group_id: str, beat: Beat) -> tuple[StreamsGroup, Changes]:
        """A new group, or an empty classic one that becomes one of these; its offsets stay."""
        found = self._core.groups.get(group_id)
        if found is None and not self._core.is_share_group(group_id):
            if beat.epoch != JOIN_EPOCH:
                raise HeartbeatRefused(
                    ErrorCode.group_id_not_found, f"Streams group {group_id} not found."
                )
        elif not (isinstance(found, ClassicGroup) and found.is_idle and beat.epoch == JOIN_EPOCH):
            raise _other_type(group_id)
        group = StreamsGroup(group_id)
        changes = Changes(group)
        if found is not None:
            changes.first += [(key, None) for key in found.tombstone_keys()]
        return group, changes

    def _leave(self, group_id: str, beat: Beat) -> tuple[StreamsGroup, Changes, Beaten]:
        group = self._core.groups.get(group_id)
        if group is None and not self._core.is_share_group(group_id):
            raise HeartbeatRefused(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
        if not isinstance(group, StreamsGroup):
            raise _other_type(group_id)
        member = group.members.get(beat.member_id)
        if beat.shuts_down and group.members:
            group.shutdown_by = group.shutdown_by or beat.member_id
        if member is None:
            raise group.unknown_member(beat.member_id)
        changes = Changes(group)
        expel(group, changes, [member])
        return group, changes, Beaten(member_id=beat.member_id, epoch=beat.epoch)

    def _setting(self, group_id: str) -> Setting:
        get, of_group = self._core.settings.get, self._core.settings.group
        limits = StreamsLimits(
            of_group(group_id, "streams.session.timeout.ms"),
            of_group(group_id, "streams.heartbeat.interval.ms"),
            of_group(group_id, "streams.assignment.interval.ms"),
            of_group(group_id, "streams.initial.rebalance.delay.ms"),
            of_group(group_id, "streams.num.standby.replicas"),
            min(get("group.streams.max.size"), bounds.GROUP_MEMBERS_MAX),
        )
        return Setting(self._core.image, limits, self._core.now())

    # ---- life ------------------------------------------------------------------------------------

    def start(self, group: StreamsGroup) -> None:
        """After a restart every member has a full time-out from now."""
        setting = self._setting(group.id)
        for member in group.members.values():
            group.stay(member, setting.now, setting.limits.session_timeout_ms)
            group.await_release(member, setting.now)
        timeouts.set_wake(group)

    def retire(self, group: StreamsGroup) -> None:
        """An empty group makes way for a classic one of its name; its offsets stay."""
        self._settling.retire(group)

    # ---- what `core` and `offset_store` call (GroupProtocol) -------------------------------------

    def tick(self, group: StreamsGroup, turn: Turn) -> None:
        changes = Changes(group)
        late = timeouts.late(group, turn.now)
        if late:
            expel(group, changes, late)
        due = [at for at in (group.delayed_until, group.assign_at) if at is not None]
        if any(at <= turn.now.monotonic_ms for at in due):
            assign_anew(group, changes, self._setting(group.id))
        timeouts.set_wake(group)
        if group.delayed_until is not None:
            group.wake(group.delayed_until)
        self._settling.settle(group, changes, nobody_waits)

    def stop(self, group: StreamsGroup, turn: Turn) -> None:
        """Nothing of ours waits for anything but the log."""

    def committed_by(self, group: StreamsGroup, turn: Turn, member_id: str) -> None:
        """A commit is no heartbeat in this protocol."""


def _other_type(group_id: str) -> HeartbeatRefused:
    return HeartbeatRefused(
        ErrorCode.group_id_not_found, f"Group {group_id} is not a streams group."
    )
