"""The group coordinator as the broker and its handlers see it.

`Broker` builds it over a store (`__consumer_offsets`), hands it the replayed records with `load`
and calls `start`. The handlers k11 to k16 call the methods for members; `offsets` and `removal`
serve the others. A request that must wait gets a future; decisions are made in the pure modules.

    coordinator = GroupCoordinator(settings, clock, store, image, supervisor)
    coordinator.load(records)
    coordinator.start()
    …
    coordinator.stopping()      # everything that waits is answered, nothing new is accepted
    await coordinator.stop()    # what was on its way to the log has arrived
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import cast

from kio.schema.errors import ErrorCode

from headwater.broker import bounds
from headwater.broker.clock import Clock
from headwater.broker.groups import join as joining
from headwater.broker.groups import restore
from headwater.broker.groups import sync as syncing
from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.consumer import subscriptions
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.heartbeat import Beat, Beaten
from headwater.broker.groups.consumer.service import ConsumerGroups
from headwater.broker.groups.core import Core, Settings, ticket
from headwater.broker.groups.effects import NO_MEMBER_ID, Joined, Left, Synced
from headwater.broker.groups.group import Group, Image
from headwater.broker.groups.join import JoinRequest
from headwater.broker.groups.journal import Store
from headwater.broker.groups.modern.member import JOIN_EPOCH
from headwater.broker.groups.offset_store import Committed
from headwater.broker.groups.offsets import GroupOffsets
from headwater.broker.groups.pending_offsets import Pending
from headwater.broker.groups.pending_offsets import Store as PendingStore
from headwater.broker.groups.removal import Removal
from headwater.broker.groups.streams import heartbeat as streams
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.service import StreamsGroups
from headwater.broker.groups.sync import Identity, SyncRequest
from headwater.broker.supervisor import Supervisor


class GroupCoordinator:
    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        store: Store,
        image: Image | None,
        supervisor: Supervisor,
    ) -> None:
        self._core = Core(settings, clock, store, image, supervisor)
        self._consumer = ConsumerGroups(self._core)
        self._streams = StreamsGroups(self._core)
        self.offsets = Committed(self._core)
        self.pending = Pending(self._core, self.offsets, cast(PendingStore, store))
        self.removal = Removal(self._core, self.offsets)

    def share_names(self, is_share_group: Callable[[str], bool]) -> None:
        """With the coordinator of share groups: a name is one group's."""
        self._core.is_share_group = is_share_group

    # ---- life ------------------------------------------------------------------------------------

    def load(self, replayed: restore.Replayed) -> None:
        restore.replay(self._core, replayed)

    def start(self) -> None:
        core = self._core
        core.refusal = ErrorCode.none
        core.deadlines.start()
        for group in list(core.groups.values()):
            turn = core.turn()
            if isinstance(group, ClassicGroup):
                restore.shed_excess(group, turn)
            elif isinstance(group, ConsumerGroup):
                self._consumer.start(group)
            elif isinstance(group, StreamsGroup):
                self._streams.start(group)
            core.carry_out(group, turn)
        self.removal.erase_stale()
        self.removal.schedule_expiry()

    def stopping(self) -> None:
        core = self._core
        core.refusal = ErrorCode.coordinator_not_available
        core.deadlines.stop()
        for group in core.groups.values():
            turn = core.turn()
            core.protocols[group.type].stop(group, turn)
            core.carry_out(group, turn)

    async def stop(self) -> None:
        self.stopping()
        await self._core.journal.drained()

    def topic_gone(self, topic: str) -> asyncio.Future[None]:
        """To be told in the turn in which the catalogue has no such topic any more; until the result is
        there, there must be no other of its name."""
        return self.removal.topic_gone(topic)

    # ---- members ---------------------------------------------------------------------------------

    def expressions(self, group_id: str, said: str | None) -> set[str]:
        """The regular expressions that a heartbeat will have to be looked up for."""
        group, image = self._core.groups.get(group_id), self._core.image
        known = group if isinstance(group, ConsumerGroup) else None
        return subscriptions.expressions(known, said, image) if known or said else set()

    def hears(self, group_id: str, member_id: str, epoch: int) -> bool:
        """Whether a heartbeat joins, or is a member's: for others nothing is looked up."""
        group = self._core.groups.get(group_id)
        is_member = isinstance(group, ConsumerGroup) and member_id in group.members
        return epoch == JOIN_EPOCH or (epoch > JOIN_EPOCH and is_member)

    async def consumer_heartbeat(self, group_id: str, beat: Beat) -> Beaten:
        error = self._refusal(group_id)
        return Beaten(error) if error else await self._consumer.heartbeat(group_id, beat)

    async def streams_heartbeat(self, group_id: str, beat: streams.Beat) -> streams.Beaten:
        error = self._refusal(group_id)
        return streams.Beaten(error) if error else await self._streams.heartbeat(group_id, beat)

    async def join(self, group_id: str, request: JoinRequest) -> Joined:
        core = self._core
        error = self._refusal(group_id) or self._join_error(request)
        if error:
            return Joined(error, request.member_id)
        group = core.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return await self._consumer.join(group, request)
        if isinstance(group, StreamsGroup) and group.dead:
            return Joined(ErrorCode.coordinator_not_available, request.member_id)
        if group is None or isinstance(group, ConsumerGroup) or self._is_retired(group):
            if request.member_id != NO_MEMBER_ID:
                return Joined(ErrorCode.unknown_member_id, request.member_id)
            if not request.protocol_type or not request.protocols or core.is_share_group(group_id):
                return Joined(ErrorCode.inconsistent_group_protocol)
            if isinstance(group, ConsumerGroup):
                self._consumer.retire(group)
            elif isinstance(group, StreamsGroup):
                self._streams.retire(group)
            group = core.create_classic(group_id)
        if not isinstance(group, ClassicGroup):
            return Joined(ErrorCode.inconsistent_group_protocol)
        waiting: asyncio.Future[Joined] = ticket()
        turn = core.turn()
        joining.join(group, turn, request, waiting)
        core.carry_out(group, turn)
        return await waiting

    def _is_retired(self, group: Group) -> bool:
        """A streams group without members makes way for a classic one."""
        return isinstance(group, StreamsGroup) and group.is_empty

    def offsets_of(self, group_id: str) -> GroupOffsets:
        """What the group has committed; only to be read."""
        return self._core.offsets.of(group_id)

    def _join_error(self, request: JoinRequest) -> ErrorCode:
        get = self._core.settings.get
        low, high = get("group.min.session.timeout.ms"), get("group.max.session.timeout.ms")
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.invalid_session_timeout
        names = [request.client_id, request.instance_id or "", request.protocol_type]
        names += [name for name, _ in request.protocols]
        if any(len(name) > bounds.NAME_CHARS_MAX for name in names):
            return ErrorCode.invalid_request
        return ErrorCode.none

    async def sync(self, group_id: str, request: SyncRequest) -> Synced:
        error = self._refusal(group_id)
        if error:
            return Synced(error)
        group = self._core.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.sync(group, request)
        if not isinstance(group, ClassicGroup):
            return Synced(ErrorCode.unknown_member_id)
        waiting: asyncio.Future[Synced] = ticket()
        turn = self._core.turn()
        syncing.sync(group, turn, request, waiting)
        self._core.carry_out(group, turn)
        return await waiting

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        error = self._refusal(group_id)
        if error:
            return error
        group = self._core.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.classic_heartbeat(group, member_id, instance_id, generation)
        if not isinstance(group, ClassicGroup):
            return ErrorCode.unknown_member_id
        turn = self._core.turn()
        error = syncing.heartbeat(group, turn, member_id, instance_id, generation)
        self._core.carry_out(group, turn)
        return error

    async def leave(self, group_id: str, identities: Sequence[Identity]) -> Left:
        error = self._refusal(group_id)
        if error:
            return Left(error)
        group = self._core.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return await self._consumer.leave(group, identities)
        if not isinstance(group, ClassicGroup):
            return Left(members=(ErrorCode.unknown_member_id,) * len(identities))
        waiting: asyncio.Future[Left] = ticket()
        turn = self._core.turn()
        syncing.leave(group, turn, identities, waiting)
        self._core.carry_out(group, turn)
        return await waiting

    def _refusal(self, group_id: str) -> ErrorCode:
        if self._core.refusal is not ErrorCode.none:
            return self._core.refusal
        if 0 < len(group_id) <= bounds.NAME_CHARS_MAX:
            return ErrorCode.none
        return ErrorCode.invalid_group_id

    # ---- looking ---------------------------------------------------------------------------------

    @property
    def refusal(self) -> ErrorCode:
        """`none` while the coordinator answers."""
        return self._core.refusal

    @property
    def groups(self) -> dict[str, Group]:
        """All groups by id, for DescribeGroups and ListGroups; only to be read."""
        return self._core.groups


def fresh_member_id(prefix: str) -> str:
    """Kafka's form: the client id or instance id, and a random UUID."""
    return f"{prefix}-{uuid.uuid4()}"
