"""The share coordinator: the one owner of all share groups in a running broker.

Handlers of the share APIs talk to this; it puts the parts together. All of it runs on the event loop,
so between two awaits nobody else changes anything. At start it is rebuilt from `__share_group_state`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from headwater.broker.groups.deadlines import Deadlines
from headwater.broker.promise import promise
from headwater.broker.shares import administration
from headwater.broker.shares.deadletters import DeadLetters
from headwater.broker.shares.membership import JOIN, GroupError, Member, ShareGroup
from headwater.broker.shares.node import Node
from headwater.broker.shares.partition_owner import PartitionOwner
from headwater.broker.shares.records import SNAPSHOT, Key
from headwater.broker.shares.sessions import Releases, SessionKey, Sessions
from headwater.broker.shares.state_topic import Kept, StateTopic
from headwater.broker.slices import SLICE_ELEMENTS, pieces
from headwater.broker.state_budget import SHARE_PARTITION_BYTES
from headwater.log.partition import StorageFailed

logger = logging.getLogger("headwater.broker")

PRUNE_RECORDS = 5000
"""Records of the state topic after which idle share-partitions get a fresh snapshot."""
T = TypeVar("T")


class ShareCoordinator:
    """Groups, share-partitions, sessions, dead letters."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.settings = node.settings
        self.clock = node.clock
        self.groups: dict[str, ShareGroup] = {}
        self.owners: dict[Key, PartitionOwner] = {}
        self.sessions = Sessions()
        self.releases = Releases(self.owners, node.supervisor)
        self.states = StateTopic(node.topics, node.catalogue, node.clock.now_ms)
        self.dead_letters = DeadLetters(self)
        self.wakers: set[Callable[[], None]] = set()
        """Fetches that wait; called when the broker stops."""
        self.updates_per_snapshot: int = node.settings.get(
            "share.coordinator.snapshot.update.records.per.snapshot"
        )
        self._deadlines = Deadlines(node.clock, self._due, node.supervisor)
        self._due_owners: dict[str, PartitionOwner] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._for_strangers = ErrorCode.group_id_not_found
        """What a member of a group hears that is not known. Kafka's code, for which clients give up; but a
        group that has read nothing yet is forgotten by a restart, and its members are to join again."""

    # ---- life --------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Rebuild everything from the log. What had to be put right is durable before anybody is served:
        once a lost record's offset is another's, nobody can tell that it was lost."""
        self.states.load()
        for key, kept in self.states.known.items():
            self.groups.setdefault(key.group_id, ShareGroup(key.group_id))
            topic = self.node.catalogue.by_id.get(key.topic_id)
            if topic is not None:
                self.owners[key] = PartitionOwner(self, key, topic.name, kept)
        changed = self.states.forget_lost() | self.dead_letters.finish()
        written: list[asyncio.Future[None]] = []
        for owner in [self.owners[key] for key in changed & self.owners.keys()]:
            with self.node.supervisor.duty("share groups", str(owner)):  # else with the next one
                written.append(promise(*owner.snapshot()))
        await asyncio.gather(*written, return_exceptions=True)
        if self.node.catalogue.topics:
            self._for_strangers = ErrorCode.unknown_member_id

    def start(self) -> None:
        self._deadlines.start()

    async def stop(self) -> None:
        self._deadlines.stop()
        self.stopping()
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
        return await loop.run_in_executor(self.node.readers, function, *arguments)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work that goes on even if the client that began it goes away."""
        task = self.node.supervisor.spawn("share groups", work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """The same, waited for; a stop may come before it has begun. Raises StorageFailed."""
        task = self.spawn(_outcome(work))
        task.add_done_callback(lambda _: work.close())
        outcome = await asyncio.shield(task)
        if isinstance(outcome, StorageFailed):
            raise outcome
        return outcome

    def wake_at(self, owner: PartitionOwner, deadline: int) -> None:
        name = f"lock/{id(owner)}"
        self._due_owners[name] = owner
        self._deadlines.wake(name, deadline)

    def _due(self, name: str) -> None:
        owner = self._due_owners.pop(name, None)
        if owner is not None:
            owner.expire()
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
        if group_id not in self.groups and self.node.is_other_group(group_id):
            raise GroupError(
                ErrorCode.group_id_not_found, f"Group {group_id} is not a share group."
            )

    def refresh(self, group: ShareGroup) -> None:
        """Assign anew where that is due; a heartbeat that changes nothing costs nothing."""
        catalogue = self.node.catalogue
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
        gone = group.expired(self.now())
        for member_id in gone:
            logger.info("share group %s: member %s is silent, removed", group_id, member_id)
            group.leave(member_id)
        self.end_sessions(*[SessionKey(group_id, member_id) for member_id in gone])
        self.refresh(group)
        deadline = group.next_deadline()
        if deadline is not None:
            self._deadlines.wake(f"group/{group_id}", deadline)

    # ---- sessions ----------------------------------------------------------------------------------

    def end_sessions(self, *keys: SessionKey) -> None:
        """What the members hold is free for others, if it is much not all of it at once."""
        for key in keys:
            self.sessions.end(key)
        self.releases.begin(*keys)

    async def close_session(self, key: SessionKey) -> None:
        """The same at the member's own wish: done when all of it is free."""
        self.end_sessions(key)
        await self.releases.over(key)

    def disconnected(self, connection: object) -> None:
        """A consumer that died without a word: its records need not wait for their locks."""
        if self.node.is_stopping():
            return  # a restart forgets locks anyway, and the logs are being closed
        self.end_sessions(*self.sessions.of_connection(connection))

    # ---- share-partitions --------------------------------------------------------------------------

    def owner(self, key: Key, topic: str) -> PartitionOwner:
        """Made if it is not there. Raises StorageFailed if there is no room for it, or its group goes."""
        found = self.owners.get(key)
        if found is None:
            if key.group_id in self.groups and self.groups[key.group_id].is_dead:
                raise StorageFailed(f"share group {key.group_id} is being deleted")
            if self.node.state.take(SHARE_PARTITION_BYTES, known=True) is None:
                raise StorageFailed("there is no room for more share-partitions")
            kept = self.states.known.get(key) or Kept()
            found = self.owners[key] = PartitionOwner(self, key, topic, kept)
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
        is_unused = group is not None and not (group.members or group.epoch or group.is_held)
        if is_unused and not any(key.group_id == group_id for key in self.states.known):
            del self.groups[group_id]

    async def delete(self, group_id: str) -> ErrorCode:
        """Forget a group that has no members, durably."""
        return await self.to_its_end(administration.delete(self, group_id))

    async def forget(self, keys: Sequence[Key]) -> None:
        """Remove the state of these share-partitions, durably. Raises StorageFailed."""
        await self.to_its_end(self._forget(keys))

    async def _forget(self, keys: Sequence[Key]) -> None:
        """Of some at a time; if the disk refuses one, the others go all the same."""
        refused: list[BaseException] = []
        for some in pieces(keys, SLICE_ELEMENTS):
            going = [self._forget_one(key) for key in some]
            refused += filter(None, await asyncio.gather(*going, return_exceptions=True))
        if refused:
            raise refused[0]

    async def _forget_one(self, key: Key) -> None:
        owner = self.owners.get(key)
        if owner is not None:
            await owner.forget()
        else:
            await promise(*self.states.append(key, SNAPSHOT, None))
        self.states.known.pop(key, None)
        self.owners.pop(key, None)

    # ---- housekeeping ------------------------------------------------------------------------------

    async def tidy(self) -> None:
        """Called now and then: forget deleted topics, and let the state topic start later."""
        by_id, duty = self.node.catalogue.by_id, self.node.supervisor.duty
        with duty("share state", "deleted topics"):
            await self.forget([key for key in self.states.known if key.topic_id not in by_id])
        for key in self.states.stale(PRUNE_RECORDS):
            if (owner := self.owners.get(key)) and not owner.is_gone:
                with duty("share state", str(owner)):
                    await promise(*owner.snapshot())
        if self.states.prune():
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self.node.duties, self.node.store.checkpoint_starts)


async def _outcome(work: Coroutine[Any, Any, T]) -> T | StorageFailed:
    """A disk that refuses is an answer here, and no failure of ours."""
    try:
        return await work
    except StorageFailed as error:
        return error
