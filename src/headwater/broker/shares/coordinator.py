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
from headwater.broker.shares.state_topic import Kept, StateTopic
from headwater.broker.state_budget import SHARE_PARTITION_BYTES
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
        self._held: dict[SessionKey, set[Key]] = {}
        """Share-partitions in which a member may have records locked."""
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
        self._for_strangers = ErrorCode.group_id_not_found
        """What a member of a group hears that is not known. Kafka's code, for which clients give up; but a
        group that has read nothing yet is forgotten by a restart, and its members are to join again."""

    # ---- life --------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Rebuild everything from the log. What had to be put right is durable before anybody is served:
        once a lost record's offset is another's, nobody can tell that it was lost."""
        self.states.replay()
        for key, kept in self.states.known.items():
            self.groups.setdefault(key.group_id, ShareGroup(key.group_id))
            topic = self.broker.catalogue.by_id.get(key.topic_id)
            if topic is not None:
                self.keepers[key] = Keeper(self, key, topic.name, kept)
        changed = self.states.forget_lost() | self.dead_letters.finish()
        written: list[asyncio.Future[None]] = []
        for keeper in [self.keepers[key] for key in changed & self.keepers.keys()]:
            with self.broker.supervisor.duty("share groups", str(keeper)):  # else with the next one
                written.append(promise(*keeper.snapshot()))
        await asyncio.gather(*written, return_exceptions=True)
        if self.broker.catalogue.topics:
            self._for_strangers = ErrorCode.unknown_member_id

    def start(self) -> None:
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

    async def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for whoever waits for it: what was appended takes effect here, too, even if the client
        that asked for it goes away. Raises StorageFailed."""
        outcome = await asyncio.shield(self.spawn(_outcome(work)))
        if isinstance(outcome, StorageFailed):
            raise outcome
        return outcome

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
                raise GroupError(self._for_strangers, f"Share group {group_id} not found.")
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
        """Assign anew where that is due; a heartbeat that changes nothing costs nothing."""
        catalogue = self.broker.catalogue
        now = (group.changes, catalogue.version)
        if group.looked_at != now:
            group.looked_at = now
            known = catalogue.topics
            names = group.subscribed(frozenset(known))
            group.refresh({name: (known[name].id, known[name].partitions) for name in names})

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
            group.leave(member_id)
            self.end_session(SessionKey(group_id, member_id))
        self.refresh(group)
        deadline = group.next_deadline()
        if deadline is not None:
            self._deadlines.wake(f"group/{group_id}", deadline)

    # ---- sessions ----------------------------------------------------------------------------------

    def end_session(self, key: SessionKey) -> None:
        """What the member holds is free for others."""
        self.sessions.end(key)
        for held in self._held.pop(key, ()):
            keeper = self.keepers.get(held)
            if keeper is not None:
                keeper.release(key.member_id)

    def holds(self, member_id: str, key: Key) -> None:
        """The member has locked records of this share-partition."""
        self._held.setdefault(SessionKey(key.group_id, member_id), set()).add(key)

    def disconnected(self, connection: object) -> None:
        """A consumer that died without a word: its records need not wait for their locks."""
        if self.broker.stopping:
            return  # a restart forgets locks anyway, and the logs are being closed
        for key in self.sessions.of_connection(connection):
            self.end_session(key)

    # ---- share-partitions --------------------------------------------------------------------------

    def keeper(self, key: Key, topic: str) -> Keeper:
        """Made if it is not there. Raises StorageFailed if there is no room for it."""
        found = self.keepers.get(key)
        if found is None:
            if self.broker.state.take(SHARE_PARTITION_BYTES, known=True) is None:
                raise StorageFailed("there is no room for more share-partitions")
            kept = self.states.known.get(key) or Kept()
            found = self.keepers[key] = Keeper(self, key, topic, kept)
        return found

    # ---- groups as such ----------------------------------------------------------------------------

    def has(self, group_id: str) -> bool:
        return group_id in self.groups

    def list(self) -> list[tuple[str, str]]:
        """(group id, state) of every share group."""
        return [(group.id, group.state) for group in self.groups.values()]

    def drop_unused(self, group_id: str) -> None:
        """A group that was to begin somewhere, which the disk has refused: unless somebody has joined it,
        or it has begun elsewhere, there is none."""
        group = self.groups.get(group_id)
        if group is None or group.members or group.epoch:
            return
        if not any(key.group_id == group_id for key in self.states.known):
            del self.groups[group_id]

    async def delete(self, group_id: str) -> ErrorCode:
        """Forget a group that has no members, durably."""
        return await self.to_its_end(self._delete(group_id))

    async def _delete(self, group_id: str) -> ErrorCode:
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.group_id_not_found
        if group.members:
            return ErrorCode.non_empty_group
        try:
            await self._forget([key for key in self.states.known if key.group_id == group_id])
        except StorageFailed:
            return ErrorCode.kafka_storage_error
        self.groups.pop(group_id, None)
        for key in [key for key in self.keepers if key.group_id == group_id]:
            del self.keepers[key]
        return ErrorCode.none

    async def forget(self, keys: Sequence[Key]) -> None:
        """Remove the state of these share-partitions, durably. Raises StorageFailed."""
        await self.to_its_end(self._forget(keys))

    async def _forget(self, keys: Sequence[Key]) -> None:
        known = [self.keepers[key] for key in keys if key in self.keepers]
        others = [key for key in keys if key not in self.keepers]
        written = [promise(*self.states.append(key, SNAPSHOT, None)) for key in others]
        outcomes = await asyncio.gather(
            *(keeper.forget() for keeper in known), *written, return_exceptions=True
        )
        ordered = [*(keeper.key for keeper in known), *others]
        for key, outcome in zip(ordered, outcomes, strict=True):
            if outcome is None:  # whatever becomes of the others
                self.states.known.pop(key, None)
                self.keepers.pop(key, None)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    # ---- housekeeping ------------------------------------------------------------------------------

    async def tidy(self) -> None:
        """Called now and then: forget deleted topics, and let the state topic start later."""
        by_id, duty = self.broker.catalogue.by_id, self.broker.supervisor.duty
        with duty("share state", "deleted topics"):
            await self.forget([key for key in self.states.known if key.topic_id not in by_id])
        for key in self.states.stale(PRUNE_RECORDS):
            if (keeper := self.keepers.get(key)) and not keeper.is_gone:
                with duty("share state", str(keeper)):
                    await promise(*keeper.snapshot())
        if self.states.prune():
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self.broker.duties, self.broker.store.checkpoint_starts)


async def _outcome(work: Coroutine[Any, Any, T]) -> T | StorageFailed:
    """A disk that refuses is an answer here, and no failure of ours."""
    try:
        return await work
    except StorageFailed as error:
        return error
