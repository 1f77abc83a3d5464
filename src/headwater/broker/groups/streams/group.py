"""A streams group as data: topology, members, epochs, targets, who has which task.

The moves of this package change it; `service` owns the turn in which that happens. Nothing here does I/O
or looks at a clock. The group's state follows from the rest:

    Empty        no members
    NotReady     topics of the topology are missing, or have the wrong number of partitions
    Assigning    the group's epoch is ahead of the target assignment's
    Reconciling  some member has not reached its target yet
    Stable       every member has what the target gives it

Invariants: an active task has at most one owner, who holds it as assigned or as still being revoked; the
epoch of the group is never below that of the target; the epochs never decrease.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker.groups.streams import records
from headwater.broker.groups.streams.member import (
    Assignment,
    Holding,
    StreamsMember,
    Task,
    each_task,
)
from headwater.broker.groups.streams.partitions import Configured
from headwater.broker.groups.streams.topology import Topology


class StreamsGroup:
    """State of one group. Attributes are written by this package's moves and by nobody else."""

    type = "streams"
    protocol_type: str | None = "streams"

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        """Of the topology's topics as they were when the epoch was last raised."""
        self.topics_seen: int | None = None
        """The catalogue's version when the topics were last looked at."""
        self.validated_epoch = 0
        """The topology's, if all its topics were there when the epoch was last raised; else -1."""
        self.configs: dict[str, str] = {}
        """What the last assignment was asked for."""
        self.topology: Topology | None = None
        self.configured: Configured | None = None
        """The topology beside the topics; None: nobody has looked yet."""
        self.target_epoch = 1
        """Never 0, also before the first assignment: a member of epoch 0 would be taken to join again."""
        self.target_timestamp = 0
        self.target: dict[str, Assignment] = {}
        self.members: dict[str, StreamsMember] = {}
        self.static_ids: dict[str, str] = {}
        self.owners: dict[Task, str] = {}
        """Active task → member."""
        self.copies: dict[Task, set[str]] = {}
        """Task → members that have it as a standby or to warm up."""
        self.endpoint_epoch = 0
        """Grows when a process that answers queries gets other tasks."""
        self.shutdown_by: str | None = None
        """The member who asked that the whole application ends."""
        self.dead = False
        self.delayed_until: int | None = None
        """A first assignment waits for more members until then."""
        self.assign_at: int | None = None
        """When an assignment that was put off is to be made."""
        self.wake_at: int | None = None
        self.unsaved = False
        """A record could not be written: the next turn writes it again."""
        self.stale_keys: set[bytes] = set()
        """Keys of records that could not be written."""

    # ---- questions -------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        if self.dead:
            return "Dead"
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        reached = all(member.is_at(self.target_epoch) for member in self.members.values())
        return "Stable" if reached else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members and not self.dead

    @property
    def is_idle(self) -> bool:
        return self.is_empty

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

    def fetch_error(self, member_id: str | None, generation: int) -> ErrorCode:
        """May this caller read the offsets? Without member id and epoch anybody may."""
        if member_id is None and generation < 0:
            return ErrorCode.none
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.unknown_member_id
        return ErrorCode.none if generation == member.epoch else ErrorCode.stale_member_epoch

    def delete_error(self) -> ErrorCode:
        if self.dead:
            return ErrorCode.group_id_not_found
        return ErrorCode.none if self.is_empty else ErrorCode.non_empty_group

    def offset_delete_error(self) -> ErrorCode:
        return ErrorCode.group_id_not_found if self.dead else ErrorCode.none

    def offsets_idle_since(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def set_dead(self, dead: bool) -> None:
        assert not self.members
        self.dead = dead

    def tombstone_keys(self) -> list[bytes]:
        kinds = (records.CURRENT, records.MEMBER_TARGET, records.MEMBER)
        of_members = [records.key(kind, self.id, each) for kind in kinds for each in self.members]
        of_group = [
            records.key(k, self.id) for k in (records.TARGET, records.GROUP, records.TOPOLOGY)
        ]
        return list(dict.fromkeys([*of_members, *self.stale_keys, *of_group]))

    # ---- changes ---------------------------------------------------------------------------------

    def wake(self, at: int) -> None:
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

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
