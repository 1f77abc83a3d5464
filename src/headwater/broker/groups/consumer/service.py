"""Consumer groups as the handlers see them: `GroupCoordinator` sends to here what concerns them.

k68 calls `heartbeat`; k11 to k14 come here when a classic member speaks to such a group. Decisions
are made in the pure modules; `settlement` makes them durable before anybody hears of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from headwater.broker import bounds
from headwater.broker.groups import timeouts
from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.consumer import classic, migration
from headwater.broker.groups.consumer.changes import Changes
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.heartbeat import Beat, Beaten, heartbeat, leave
from headwater.broker.groups.consumer.member import ConsumerMember
from headwater.broker.groups.consumer.steps import ConsumerLimits, Setting, assign, expel
from headwater.broker.groups.core import Core, answer, ticket
from headwater.broker.groups.effects import Joined, Left, Synced, Turn
from headwater.broker.groups.group import HeartbeatRefused
from headwater.broker.groups.join import JoinRequest
from headwater.broker.groups.modern.member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from headwater.broker.groups.rebalance import prepare
from headwater.broker.groups.records import group_key
from headwater.broker.groups.settlement import Settling, Then, nobody_waits
from headwater.broker.groups.snapshot import record_of
from headwater.broker.groups.sync import Identity, SyncRequest


class ConsumerGroups:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._settling = Settling(core)
        core.protocols[ConsumerGroup.type] = self

    # ---- members of the newer protocol -----------------------------------------------------------

    async def heartbeat(self, group_id: str, beat: Beat) -> Beaten:
        waiting: asyncio.Future[Beaten] = ticket()

        def answered(beaten: Beaten) -> Then:
            return lambda error: answer(waiting, beaten if not error else Beaten(error))

        try:
            if beat.epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                self._leave(group_id, beat, answered)
            else:
                self._beat(group_id, beat, answered)
        except HeartbeatRefused as refused:
            return Beaten(refused.error, refused.message)
        return await waiting

    def _beat(self, group_id: str, beat: Beat, answered: Callable[[Beaten], Then]) -> None:
        found = self._core.groups.get(group_id)
        setting = self._setting(group_id)
        if isinstance(found, ConsumerGroup):
            if found.dead:
                raise HeartbeatRefused(
                    ErrorCode.coordinator_not_available, "The group is being deleted."
                )
            group, changes = found, Changes(found)
        else:
            group, changes = self._group_to_join(group_id, beat, setting)
        beaten = heartbeat(group, changes, beat, setting)
        self._core.groups[group_id] = group
        self._settling.settle(group, changes, answered(beaten))

    def _group_to_join(
        self, group_id: str, beat: Beat, setting: Setting
    ) -> tuple[ConsumerGroup, Changes]:
        """A new group, or one that was of another type until now; its offsets stay."""
        found = self._core.groups.get(group_id)
        if found is None and (beat.epoch != JOIN_EPOCH or self._core.is_share_group(group_id)):
            raise HeartbeatRefused(
                ErrorCode.group_id_not_found, f"Consumer group {group_id} not found."
            )
        if found is not None and (beat.epoch != JOIN_EPOCH or not isinstance(found, ClassicGroup)):
            raise _other_type(group_id)
        if isinstance(found, ClassicGroup) and not found.is_idle:
            policy = self._core.settings.get("group.consumer.migration.policy")
            migration.check_upgrade(found, policy, setting.limits.max_size)
            turn = self._core.turn()
            made = migration.to_consumer(found, turn, setting)
            self._core.carry_out(found, turn)
            return made
        group = ConsumerGroup(group_id)
        changes = Changes(group)
        changes.group()
        if isinstance(found, ClassicGroup):
            changes.first += [(key, None) for key in found.tombstone_keys()]
        return group, changes

    def _leave(self, group_id: str, beat: Beat, answered: Callable[[Beaten], Then]) -> None:
        group = self._core.groups.get(group_id)
        if group is None:
            raise HeartbeatRefused(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise _other_type(group_id)
        changes = Changes(group)
        member = leave(group, changes, beat)
        then = answered(Beaten(member_id=beat.member_id, epoch=beat.epoch))
        if member is None:
            self._settling.settle(group, changes, then)
        else:
            self._remove(group, changes, [member], then)

    # ---- classic members -------------------------------------------------------------------------

    async def join(self, group: ConsumerGroup, request: JoinRequest) -> Joined:
        if group.dead:
            return Joined(ErrorCode.coordinator_not_available, request.member_id)
        changes, setting = Changes(group), self._setting(group.id)
        waiting: asyncio.Future[Joined] = ticket()
        try:
            member, resubscribed = classic.join(group, changes, request, setting)
        except HeartbeatRefused as refused:
            known = refused.error is ErrorCode.member_id_required
            return Joined(refused.error, refused.message if known else request.member_id)
        joined = classic.joined(member)

        def then(error: ErrorCode) -> None:
            answer(waiting, Joined(error, request.member_id) if error else joined)

        if self._downgrades(group, ()):
            # A static member took over from the last one of the newer protocol.
            self._to_classic(group, resubscribed, then)
        else:
            self._settling.settle(group, changes, then)
        return await waiting

    def retire(self, group: ConsumerGroup) -> None:
        """An empty group makes way for a classic one of its name; its offsets stay."""
        self._settling.retire(group)

    def sync(self, group: ConsumerGroup, request: SyncRequest) -> Synced:
        synced = classic.sync(group, request, self._core.image, self._core.now())
        self._wake(group)
        return synced

    def classic_heartbeat(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        now = self._core.now()
        error = classic.heartbeat(group, member_id, instance_id, generation, now)
        self._wake(group)
        return error

    async def leave(self, group: ConsumerGroup, identities: Sequence[Identity]) -> Left:
        """Members of both protocols: administrators remove them with LeaveGroup, too."""
        found = [classic.leaver(group, each.member_id, each.instance_id) for each in identities]
        leaving = {each.id: each for each in found if isinstance(each, ConsumerMember)}
        left = Left(members=tuple(_code(each) for each in found))
        if not leaving:
            return left
        waiting: asyncio.Future[Left] = ticket()
        self._remove(
            group,
            Changes(group),
            list(leaving.values()),
            lambda error: answer(waiting, Left(error) if error else left),
        )
        return await waiting

    # ---- removal and downgrade -------------------------------------------------------------------

    def _remove(
        self, group: ConsumerGroup, changes: Changes, leaving: list[ConsumerMember], then: Then
    ) -> None:
        if self._downgrades(group, [member.id for member in leaving]):
            stale = list(group.tombstone_keys())
            for member in leaving:
                group.remove(member)
            self._to_classic(group, True, then, stale)
            return
        expel(group, changes, leaving)
        self._settling.settle(group, changes, then)

    def _downgrades(self, group: ConsumerGroup, leaving: Sequence[str]) -> bool:
        get = self._core.settings.get
        policy, most = get("group.consumer.migration.policy"), get("group.max.size")
        return migration.becomes_classic(group, leaving, policy, most)

    def _to_classic(
        self, group: ConsumerGroup, rebalance: bool, then: Then, stale: Sequence[bytes] = ()
    ) -> None:
        core = self._core
        turn = core.turn()
        new = migration.to_classic(group, core.image, turn.now, turn)
        keys = dict.fromkeys([*stale, *group.tombstone_keys()])
        core.groups[group.id] = new
        core.journal.append(
            group.id, [*((key, None) for key in keys), (group_key(group.id), record_of(new))], then
        )
        if rebalance:
            prepare(new, turn, "the last member of the newer protocol has left")
        core.carry_out(new, turn)

    # ---- what a turn looks at --------------------------------------------------------------------

    def _setting(self, group_id: str) -> Setting:
        get, of_group = self._core.settings.get, self._core.settings.group
        limits = ConsumerLimits(
            of_group(group_id, "consumer.session.timeout.ms"),
            of_group(group_id, "consumer.heartbeat.interval.ms"),
            of_group(group_id, "consumer.assignment.interval.ms"),
            min(get("group.consumer.max.size"), bounds.GROUP_MEMBERS_MAX),
            get("group.consumer.assignors"),
        )
        return Setting(self._core.image, limits, self._core.now())

    def _wake(self, group: ConsumerGroup) -> None:
        if group.wake_at is not None:
            self._core.deadlines.wake(group.id, group.wake_at)

    # ---- life ------------------------------------------------------------------------------------

    def start(self, group: ConsumerGroup) -> None:
        """After a restart every member has a full time-out from now."""
        setting = self._setting(group.id)
        for member in group.members.values():
            side = member.classic
            timeout = side.session_timeout_ms if side else setting.limits.session_timeout_ms
            group.stay(member, setting.now, timeout)
            group.await_release(member, setting.now)
        timeouts.set_wake(group)

    # ---- what `core` and `committed` call (GroupProtocol) ------------------------------------------------

    def tick(self, group: ConsumerGroup, turn: Turn) -> None:
        late = timeouts.late(group, turn.now)
        if late:
            self._remove(group, Changes(group), late, nobody_waits)
        if self._core.groups.get(group.id) is not group:
            group.wake_at = None  # it is a classic group now
            return
        changes = Changes(group)
        if group.assign_at is not None and group.assign_at <= turn.now.monotonic_ms:
            assign(group, changes, self._setting(group.id))
        timeouts.set_wake(group)
        self._settling.settle(group, changes, nobody_waits)

    def stop(self, group: ConsumerGroup, turn: Turn) -> None:
        """Nothing of ours waits for anything but the log."""

    def committed_by(self, group: ConsumerGroup, turn: Turn, member_id: str) -> None:
        """A commit is no heartbeat in this protocol; of a classic member it is."""
        member = group.members.get(member_id)
        if member is not None and member.classic is not None:
            group.stay(member, turn.now, member.classic.session_timeout_ms)


def _code(found: ConsumerMember | ErrorCode) -> ErrorCode:
    return found if isinstance(found, ErrorCode) else ErrorCode.none


def _other_type(group_id: str) -> HeartbeatRefused:
    return HeartbeatRefused(
        ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group."
    )
