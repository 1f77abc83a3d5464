"""The share coordinator: the one owner of all share groups in a running broker.

Handlers of the share APIs talk to this; it puts the parts together. All of it runs on the event loop,
so between two awaits nobody else changes anything. At start it is rebuilt from `__share_group_state`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kio.schema.errors import ErrorCode

from headwater.broker.groups.deadlines import Deadlines
from headwater.broker.promise import promise
from headwater.broker.shares.deadletters import DeadLetters
from headwater.broker.shares.keeper import Keeper
from headwater.broker.shares.membership import JOIN, GroupError, Member, ShareGroup
from headwater.broker.shares.records import SNAPSHOT, Key
from headwater.broker.shares.sessions import SessionKey, Sessions
from headwater.broker.shares.state import Change, State
from headwater.broker.shares.state_topic import Kept, StateTopic
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

PRUNE_RECORDS = 5000
"""Records of the state topic after which idle share-partitions get a fresh snapshot."""
T = TypeVar("T")


class ShareCoordinator:
    """Groups, share-partitions, sessions, dead letters."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.settings = broker.settings
        self.clock = broker.clock
        self.groups: dict[str, ShareGroup] = {}
        self.keepers: dict[Key, Keeper] = {}
        self.sessions = Sessions()
        self.states = StateTopic(broker.topics, broker.catalogue, broker.clock.now_ms)
        self.dead_letters = DeadLetters(self)
        self.wakers: set[Callable[[], None]] = set()
        """Fetches that wait; called when the broker stops."""
        self.updates_per_snapshot: int = broker.settings.get(
            "share.coordinator.snapshot.update.records.per.snapshot"
        )
        self._deadlines = Deadlines(broker.clock, self._due, broker.supervisor)
        self._due_keepers: dict[str, Keeper] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unfinished: dict[Key, Keeper] = {}

    # ---- life --------------------------------------------------------------------------------------

    def load(self) -> None:
        """Rebuild everything from the log."""
        self.states.replay()
        for key, kept in self.states.known.items():
            self.groups.setdefault(key.group_id, ShareGroup(key.group_id))
            topic = self.broker.catalogue.by_id.get(key.topic_id)
            if topic is not None:
                self.keepers[key] = Keeper(self, key, topic.name, kept)
        self._finish_dead_letters()

    def _finish_dead_letters(self) -> None:
        """Archive what has its dead letter already: a crash came between the two."""
        if not self.keepers:
            return
        for letter in self.dead_letters.newest():
            topic = self.broker.catalogue.topics.get(letter.topic)
            key = topic and Key(letter.group_id, topic.id, letter.partition)
            keeper = key and self.keepers.get(key)
            if not key or not keeper or keeper.state is None:
                continue
            # A letter from before an administrator sent the group back is no word on what comes now.
            is_new = letter.timestamp >= self.states.known[key].reset_at
            if is_new and not keeper.state.is_settled(letter.offset):
                keeper.state.restore(Change(letter.offset, letter.offset, State.ARCHIVED, 0))
                self._unfinished[key] = keeper

    def start(self) -> None:
        for keeper in self._unfinished.values():
            logger.warning("%s: a crash left dead letters that are archived only now", keeper)
            self.broker.supervisor.call("share groups", keeper.snapshot)  # else with the next one
        self._unfinished.clear()
        self._deadlines.start()

    async def stop(self) -> None:
        self._deadlines.stop()
        for wake in tuple(self.wakers):
            wake()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def stopping(self) -> None:
        """The broker stops: nobody waits for records any longer."""
        for wake in tuple(self.wakers):
            wake()

    # ---- what parts ask for ------------------------------------------------------------------------

    def now(self) -> int:
        return int(self.clock.monotonic() * 1000)

    async def in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.broker.executor, function, *arguments)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work that goes on even if the client that began it goes away."""
        task = self.broker.supervisor.spawn("share groups", work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def wake_at(self, keeper: Keeper, deadline: int) -> None:
        name = f"lock/{id(keeper)}"
        self._due_keepers[name] = keeper
        self._deadlines.wake(name, deadline)

    def _due(self, name: str) -> None:
        keeper = self._due_keepers.pop(name, None)
        if keeper is not None:
            keeper.expire()
        elif name.startswith("group/"):
            self._expire_members(name.removeprefix("group/"))

    # ---- members -----------------------------------------------------------------------------------

    def heartbeat(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        topics: tuple[str, ...] | None,
        client: tuple[str, str],
        rack_id: str | None,
    ) -> tuple[ShareGroup, Member]:
        """A member says that it is alive. Raises GroupError."""
        group = self.groups.get(group_id)
        if group is None:
            if epoch != JOIN:
                raise GroupError(ErrorCode.group_id_not_found, f"Share group {group_id} not found.")
            group = ShareGroup(group_id)
        size_max: int = self.settings.get("group.share.max.size")
        member = group.heartbeat(
            member_id, epoch, topics, client=client, rack_id=rack_id, size_max=size_max
        )
        self.groups[group_id] = group
        timeout: int = self.settings.group(group_id, "share.session.timeout.ms")
        member.deadline = self.now() + timeout
        self._deadlines.wake(f"group/{group_id}", member.deadline)
        self.refresh(group)
        return group, member

    def check_type(self, group_id: str) -> None:
        """A group is of one kind for as long as it is there. Raises GroupError."""
        if group_id not in self.groups and group_id in self.broker.groups.groups:
            raise GroupError(
                ErrorCode.group_id_not_found, f"Group {group_id} is not a share group."
            )

    def refresh(self, group: ShareGroup) -> None:
        """Assign anew where that is due."""
        known = self.broker.catalogue.topics
        group.refresh(
            {
                name: (known[name].id, known[name].partitions)
                for name in group.subscribed()
                if name in known
            }
        )

    def leave(self, group_id: str, member_id: str) -> None:
        """A member goes. Its session stays: the last acknowledgements may still come."""
        group = self.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
        if member_id not in group.members:
            raise GroupError(
                ErrorCode.unknown_member_id,
                f"Member {member_id} is not a member of group {group_id}.",
            )
        group.leave(member_id)
        self.refresh(group)

    def _expire_members(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is None:
            return
        for member_id in group.expired(self.now()):
            logger.info("share group %s: member %s is silent, removed", group_id, member_id)
            self.leave(group_id, member_id)
            self.end_session(SessionKey(group_id, member_id))
        deadline = group.next_deadline()
        if deadline is not None:
            self._deadlines.wake(f"group/{group_id}", deadline)

    # ---- sessions ----------------------------------------------------------------------------------

    def end_session(self, key: SessionKey) -> None:
        """What the member holds is free for others."""
        self.sessions.end(key)
        for keeper in self.keepers.values():
            if keeper.key.group_id == key.group_id:
                keeper.release(key.member_id)

    def disconnected(self, connection: object) -> None:
        """A consumer that died without a word: its records need not wait for their locks."""
        if self.broker.stopping:
            return  # a restart forgets locks anyway, and the logs are being closed
        for key in self.sessions.of_connection(connection):
            self.end_session(key)

    # ---- share-partitions --------------------------------------------------------------------------

    def keeper(self, key: Key, topic: str) -> Keeper:
        found = self.keepers.get(key)
        if found is None:
            kept = self.states.known.get(key) or Kept()
            found = self.keepers[key] = Keeper(self, key, topic, kept)
        return found

    # ---- groups as such ----------------------------------------------------------------------------

    def has(self, group_id: str) -> bool:
        return group_id in self.groups

    def list(self) -> list[tuple[str, str]]:
        """(group id, state) of every share group."""
        return [(group.id, group.state) for group in self.groups.values()]

    async def delete(self, group_id: str) -> ErrorCode:
        """Forget a group that has no members, durably."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.group_id_not_found
        if group.members:
            return ErrorCode.non_empty_group
        try:
            await self.forget([key for key in self.states.known if key.group_id == group_id])
        except StorageFailed:
            return ErrorCode.kafka_storage_error
        self.groups.pop(group_id, None)
        for key in [key for key in self.keepers if key.group_id == group_id]:
            del self.keepers[key]
        return ErrorCode.none

    async def forget(self, keys: Sequence[Key]) -> None:
        """Remove the state of these share-partitions, durably."""
        known = [self.keepers[key] for key in keys if key in self.keepers]
        others = [key for key in keys if key not in self.keepers]
        written = [promise(*self.states.append(key, SNAPSHOT, None)) for key in others]
        outcomes = await asyncio.gather(
            *(keeper.forget() for keeper in known), *written, return_exceptions=True
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        for key in keys:
            self.states.known.pop(key, None)
            self.keepers.pop(key, None)

    # ---- housekeeping ------------------------------------------------------------------------------

    async def tidy(self) -> None:
        """Called now and then: forget deleted topics, and let the state topic start later."""
        if self.states.known and not self.states.is_there:
            await self._write_all_again()
        by_id = self.broker.catalogue.by_id
        await self.forget([key for key in self.states.known if key.topic_id not in by_id])
        for key in self.states.stale(PRUNE_RECORDS):
            if key in self.keepers:
                partition, end = self.keepers[key].snapshot()
                await partition.durable(end)
        if self.states.prune():
            await self.in_thread(self.broker.store.checkpoint_starts)

    async def _write_all_again(self) -> None:
        """Somebody has deleted the state topic: what is in memory is all there is."""
        logger.error("the topic of share groups' state is gone; it is written anew from memory")
        await self.states.ensure()
        known = self.states.known
        kept = [keeper for key, keeper in self.keepers.items() if key in known]
        for each in [promise(*keeper.snapshot()) for keeper in kept]:
            await each
