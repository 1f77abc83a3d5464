"""A streams group as data: the topology, and who has which of its tasks, in which role.

The moves of this package change it; `service` owns the turn in which that happens. What it has in common
with other groups that have epochs, its states and invariants stand in `modern.group`; a group whose topics
are missing or have the wrong number of partitions is NotReady.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker.groups.modern.group import ModernGroup
from headwater.broker.groups.streams.member import (
    Assignment,
    Holding,
    StreamsMember,
    Task,
    each_task,
)
from headwater.broker.groups.streams.partitions import Configured
from headwater.broker.groups.streams.records import KINDS, TOPOLOGY
from headwater.broker.groups.streams.topology import Topology


class StreamsGroup(ModernGroup[StreamsMember, Assignment, Task]):
    """The owners are those of active tasks."""

    type = "streams"
    protocol_type: str | None = "streams"

    def __init__(self, group_id: str) -> None:
        # Never 0, also before the first assignment: a member of epoch 0 would be taken to join again.
        super().__init__(group_id, target_epoch=1)
        self.validated_epoch = 0
        """The topology's, if all its topics were there when the epoch was last raised; else -1."""
        self.configs: dict[str, str] = {}
        """What the last assignment was asked for."""
        self.topology: Topology | None = None
        self.configured: Configured | None = None
        """The topology beside the topics; None: nobody has looked yet."""
        self.copies: dict[Task, set[str]] = {}
        """Task → members that have it as a standby or to warm up."""
        self.endpoint_epoch = 0
        """Grows when a process that answers queries gets other tasks."""
        self.shutdown_by: str | None = None
        """The member who asked that the whole application ends."""
        self.delayed_until: int | None = None
        """A first assignment waits for more members until then."""

    # ---- questions -------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return self.topology is not None and self.topology.epoch == self.validated_epoch

    def subscribes(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    def process_of(self, member_id: str) -> str | None:
        member = self.members.get(member_id)
        return None if member is None else member.process_id

    # ---- offsets and the group's end -------------------------------------------------------------

    def commit_error(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool = False,
        knows_epochs: bool = True,
    ) -> ErrorCode:
        """An older epoch is for `partition_commit_error` to judge."""
        if self.dead:
            return ErrorCode.coordinator_not_available
        if generation < 0 and not self.members:
            return ErrorCode.none
        if transactional and generation == -1 and not member_id and instance_id is None:
            return ErrorCode.none
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if not knows_epochs:
            return ErrorCode.unsupported_version
        return ErrorCode.stale_member_epoch if generation > member.epoch else ErrorCode.none

    def partition_commit_error(
        self, member_id: str, generation: int, topic: str, topic_id: UUID | None, partition: int
    ) -> ErrorCode:
        """A commit with an older epoch counts for the tasks that the member had then and still has."""
        member = self.members.get(member_id)
        if member is None or generation == member.epoch:
            return ErrorCode.none
        reader = None if self.topology is None else self.topology.readers.get(topic)
        for held in (member.assigned.active, member.revoking.active):
            since = held.get(reader, {}).get(partition) if reader is not None else None
            if since is not None:
                return ErrorCode.none if since <= generation else ErrorCode.stale_member_epoch
        return ErrorCode.stale_member_epoch

    def tombstone_keys(self) -> list[bytes]:
        of_members = [
            KINDS.key(kind, self.id, id) for kind in KINDS.of_member for id in self.members
        ]
        of_group = [KINDS.key(kind, self.id) for kind in (KINDS.target, KINDS.group, TOPOLOGY)]
        return list(dict.fromkeys([*of_members, *self.stale_keys, *of_group]))

    # ---- changes ---------------------------------------------------------------------------------

    def add(self, member: StreamsMember) -> None:
        self.members[member.id] = member
        self._own(member)

    def remove(self, member: StreamsMember) -> None:
        self._disown(member)
        del self.members[member.id]
        self.target.pop(member.id, None)
        if not self.members:
            self.shutdown_by = self.delayed_until = self.assign_at = None

    def hold(self, member: StreamsMember, assigned: Holding, revoking: Holding) -> None:
        """Change what a member has; whoever owns is always in step with it."""
        self._disown(member)
        member.assigned, member.revoking = assigned, revoking
        self._own(member)

    def _own(self, member: StreamsMember) -> None:
        for task in _active(member):
            assert self.owners.get(task, member.id) == member.id, f"{task} has an owner"
            self.owners[task] = member.id
        for task in _copies(member):
            self.copies.setdefault(task, set()).add(member.id)

    def _disown(self, member: StreamsMember) -> None:
        for task in _active(member):
            if self.owners.get(task) == member.id:
                del self.owners[task]
        for task in _copies(member):
            others = self.copies.get(task, set())
            others.discard(member.id)
            if not others:
                self.copies.pop(task, None)


def _active(member: StreamsMember) -> Iterator[Task]:
    for held in (member.assigned, member.revoking):
        yield from each_task(held.active)


def _copies(member: StreamsMember) -> Iterator[Task]:
    for held in (member.assigned, member.revoking):
        yield from each_task(held.standby)
        yield from each_task(held.warmup)
