"""The one owner of all group state in a running broker: registry, offsets, journal and timer.

`coordinator`, `offset_store` and `removal` are its faces towards the handlers; all run on the event
loop, so between two awaits nobody else changes anything. `Core` carries out what the pure modules
decided: answers go to futures, records to the journal, wake-ups to the timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker import bounds
from headwater.broker.clock import Clock
from headwater.broker.groups import rebalance, records
from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.deadlines import Deadlines
from headwater.broker.groups.effects import Limits, Now, Persist, Reply, Turn
from headwater.broker.groups.group import Group, GroupProtocol, Image, NoTopics
from headwater.broker.groups.journal import Journal, Store
from headwater.broker.groups.offsets import OffsetView
from headwater.broker.groups.records import OffsetKey, OffsetValue
from headwater.broker.slices import pieces
from headwater.broker.supervisor import Supervisor
from headwater.broker.turns import give_way

ANSWERS_AT_ONCE = 100
"""In one turn of the event loop; a generation may begin for thousands."""
EXPIRY = ""
"""The timer's key for the expiry of offsets: a group without a name has no members, so no timer."""


class Settings(Protocol):
    def get(self, name: str) -> Any: ...

    def group(self, group_id: str, name: str) -> Any: ...


class Core:
    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        store: Store,
        image: Image | None,
        supervisor: Supervisor,
    ) -> None:
        self.settings = settings
        self.supervisor = supervisor
        self.image = image or NoTopics()
        self.knows_topics = image is not None
        self.clock = clock
        self.groups: dict[str, Group] = {}
        self.protocols: dict[str, GroupProtocol] = {ClassicGroup.type: rebalance}
        """For each type of group, what drives it."""
        self.offsets = OffsetView()
        self.journal = Journal(store, supervisor)
        self.deadlines = Deadlines(clock, self._due, supervisor)
        self.refusal = ErrorCode.coordinator_load_in_progress
        """What every request hears before the log is replayed and after the coordinator stopped."""
        self.on_expiry_due: Callable[[], None] = _nothing
        self.is_share_group: Callable[[str], bool] = lambda group_id: False
        """Whether a name is taken: a group is of one kind for as long as it is there."""
        self.stale_offsets: set[OffsetKey] = set()
        """Found at start, of topics that are gone: still in the log, and to be removed from it."""

    # ---- groups ----------------------------------------------------------------------------------

    def create_classic(self, group_id: str) -> ClassicGroup:
        group = self.groups[group_id] = ClassicGroup(group_id, self.now())
        return group

    def forget(self, group_id: str) -> None:
        self.groups.pop(group_id, None)
        self.offsets.drop(group_id)
        self.deadlines.forget(group_id)

    # ---- topics ----------------------------------------------------------------------------------

    def topic_id(self, topic: str) -> UUID | None:
        found = self.image.topics.get(topic)
        return None if found is None else found.id

    def is_current(self, topic: str, value: OffsetValue) -> bool:
        """Was it committed for the topic that has this name now, and not for one that was deleted?"""
        found = self.image.topics.get(topic)
        if not self.knows_topics or found is None:
            return not self.knows_topics
        return value.topic_id in (None, found.id)  # what others have written may name no id

    # ---- turns -----------------------------------------------------------------------------------

    def now(self) -> Now:
        return Now(int(self.clock.monotonic() * 1000), self.clock.now_ms())

    def turn(self) -> Turn:
        get = self.settings.get
        delay, size = get("group.initial.rebalance.delay.ms"), get("group.max.size")
        return Turn(self.now(), Limits(delay, min(size, bounds.GROUP_MEMBERS_MAX)))

    def carry_out(self, group: Group, turn: Turn) -> None:
        replies = [effect for effect in turn.effects if isinstance(effect, Reply)]
        for reply in replies[:ANSWERS_AT_ONCE]:
            answer(reply.ticket, reply.answer)
        if len(replies) > ANSWERS_AT_ONCE:
            self.supervisor.spawn("groups", _answer_others(replies[ANSWERS_AT_ONCE:]))
        for effect in turn.effects:
            if isinstance(effect, Persist):
                self._persist(group, effect)
        if group.wake_at is not None and self.groups.get(group.id) is group:
            self.deadlines.wake(group.id, group.wake_at)

    def _persist(self, group: Group, effect: Persist) -> None:
        def then(error: ErrorCode) -> None:
            turn = self.turn()
            effect.done(turn, for_members(error))
            self.carry_out(group, turn)

        self.journal.append(group.id, [(records.group_key(group.id), effect.value)], then)

    def _due(self, key: str) -> None:
        if key == EXPIRY:
            self.on_expiry_due()
            return
        group = self.groups.get(key)
        if group is not None:
            turn = self.turn()
            self.protocols[group.type].tick(group, turn)
            self.carry_out(group, turn)


async def _answer_others(replies: Sequence[Reply]) -> None:
    """Each wakes up a request, which is more work than to decide what it hears."""
    for some in pieces(replies, ANSWERS_AT_ONCE):
        await give_way()
        for reply in some:
            answer(reply.ticket, reply.answer)


def answer(ticket: asyncio.Future[Any], value: Any) -> None:
    """A future whose client has gone is already cancelled, and then nobody waits."""
    if not ticket.done():
        ticket.set_result(value)


def _nothing() -> None:
    """Until `removal` says what to do."""


def ticket() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


def for_members(error: ErrorCode) -> ErrorCode:
    too_large = error is ErrorCode.record_list_too_large
    return ErrorCode.unknown_server_error if too_large else error
