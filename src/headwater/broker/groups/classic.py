"""A classic consumer group as data: members, generation, leader, deadlines, and what they permit.

`join`, `rebalance` and `sync` move a group from state to state; `core` owns the groups.
Nothing here does I/O or looks at a clock. The states and their meaning (KIP-62, KIP-345):

    Empty ──join──▶ PreparingRebalance ──all joined or time-out──▶ CompletingRebalance
      ▲                 ▲    │ none left                               │ leader's assignment durable
      └─────────────────┼────┘                                        ▼
                        └──────────── join, leave, expiry ◀───────── Stable         Dead: removed

Invariants: the leader must be a member (or None, if there is none); an instance id maps to exactly
one member; all members of a group share its protocol type and at least one protocol; the generation
never decreases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker.groups import records
from headwater.broker.groups.effects import Joined, JoinedMember, Limits, Now
from headwater.broker.groups.member import Member, Protocols
from headwater.broker.groups.subscription import CONSUMER


class State(Enum):
    """The names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    """State of one group. Attributes are written by this package's moves and by nobody else."""

    type = "classic"

    def __init__(self, group_id: str, now: Now) -> None:
        self.id = group_id
        self.state = State.EMPTY
        self.previous_state = State.EMPTY
        self.state_timestamp = now.wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        self.pending_joins: dict[str, int] = {}
        """Member ids that were handed out and not used yet, each with its deadline (KIP-394)."""
        self.pending_syncs: set[str] = set()
        self.join_deadline: int | None = None
        self.initial_delay_left_ms: int | None = None
        """Not None while a first rebalance waits for more members (KIP-134)."""
        self.new_member_added = False
        self.sync_deadline: int | None = None
        self.storing = False
        """The leader's assignment is on its way to the log; a repeated SyncGroup waits for it."""
        self.subscribed: frozenset[frozenset[str]] | None = None
        """What the members of this generation subscribe to; None: one of them cannot be understood."""
        self.wake_at: int | None = None
        """When the coordinator must call `rebalance.tick` next; a call too early does no harm."""
        self._supporters: Counter[str] = Counter()

    # ---- questions -------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_idle(self) -> bool:
        return self.is_empty and not self.pending_joins

    def in_state(self, *states: State) -> bool:
        return self.state in states

    def all_joined(self) -> bool:
        if self.pending_joins:
            return False
        return all(member.join is not None for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Could a member that speaks these join without breaking the group apart?"""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._supporters[name] == len(self.members) for name, _ in protocols)

    def accepts(self, member_id: str, limits: Limits) -> bool:
        """Is there room for this member (`group.max.size`, and our bound on ids handed out)?"""
        stranger = member_id not in self.members and member_id not in self.pending_joins
        if stranger and len(self.pending_joins) >= limits.pending_members_max:
            return False
        if self.in_state(State.EMPTY, State.DEAD) or len(self.members) < limits.group_max_size:
            return True
        member = self.members.get(member_id)
        if self.state is not State.PREPARING:
            return member is not None
        if member is not None and member.join is not None:
            return True
        # Those who wait, not all members: a group above a lowered limit sheds its last ones.
        waiting = sum(other.join is not None for other in self.members.values())
        return waiting < limits.group_max_size

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Is this who it says it is? Fences the older of two static members (KIP-345)."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                return ErrorCode.unknown_member_id
            if current != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    def commit_error(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool = False,
        knows_epochs: bool = True,
    ) -> ErrorCode:
        if self.state is State.DEAD:
            return ErrorCode.coordinator_not_available
        if generation < 0 and self.is_empty:
            return ErrorCode.none
        if generation >= 0 or member_id or instance_id is not None:
            error = self.member_error(member_id, instance_id)
            if error is ErrorCode.none and generation != self.generation:
                error = ErrorCode.illegal_generation
            if error is not ErrorCode.none:
                return error
        elif not transactional and not self.is_empty:
            return ErrorCode.unknown_member_id
        if not transactional and self.state is State.COMPLETING:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def partition_commit_error(
        self, member_id: str, generation: int, topic: str, topic_id: UUID | None, partition: int
    ) -> ErrorCode:
        return ErrorCode.none

    def fetch_error(self, member_id: str | None, generation: int) -> ErrorCode:
        return ErrorCode.none

    def delete_error(self) -> ErrorCode:
        if self.state is State.DEAD:
            return ErrorCode.group_id_not_found
        return ErrorCode.none if self.is_empty else ErrorCode.non_empty_group

    def offset_delete_error(self) -> ErrorCode:
        if self.state is State.DEAD:
            return ErrorCode.group_id_not_found
        if self.is_empty or self.is_consumer_group:
            return ErrorCode.none
        return ErrorCode.non_empty_group

    def subscribes(self, topic: str) -> bool:
        """A consumer group whose subscription we cannot read is taken to subscribe to all."""
        if self.subscribed is None:
            return self.is_consumer_group
        return any(topic in each for each in self.subscribed)

    def offsets_idle_since(self, commit_timestamp: int) -> int | None:
        """KIP-211: since the group is empty; a simple consumer's offset since its commit; that of
        a topic that a stable group no longer subscribes to since its commit."""
        if self.protocol_type is None:
            return commit_timestamp
        if self.is_empty:
            return self.state_timestamp if self.state_timestamp >= 0 else commit_timestamp
        if self.state is State.STABLE and self.is_consumer_group and self.subscribed is not None:
            return commit_timestamp
        return None

    def deadlines(self) -> Iterator[tuple[int, str, str]]:
        """Everything that will time out: when, what kind, which member."""
        if self.join_deadline is not None:
            yield self.join_deadline, "join", ""
        if self.sync_deadline is not None:
            yield self.sync_deadline, "sync", ""
        for member_id, deadline in self.pending_joins.items():
            yield deadline, "pending", member_id
        for member in self.members.values():
            if member.session_deadline is not None:
                yield member.session_deadline, "session", member.id

    # ---- what the group says of itself -----------------------------------------------------------

    def joined(self, member_id: str, skip_assignment: bool = False) -> Joined:
        """The current generation as JoinGroup shows it; only the leader sees the members."""
        return Joined(
            member_id=member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            members=self._roll() if member_id == self.leader else (),
            skip_assignment=skip_assignment,
        )

    def _roll(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    def tombstone_keys(self) -> list[bytes]:
        return [records.group_key(self.id)]

    # ---- changes ---------------------------------------------------------------------------------

    def wake(self, at: int) -> None:
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

    def go(self, state: State, now: Now) -> None:
        self.previous_state, self.state = self.state, state
        self.state_timestamp = now.wall_ms

    def set_dead(self, dead: bool) -> None:
        """While its tombstones are written a group is dead; if they fail it is empty again."""
        assert self.in_state(State.EMPTY, State.DEAD)
        self.pending_joins.clear()
        self.state = State.DEAD if dead else State.EMPTY

    def add(self, member: Member) -> None:
        assert member.id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids
            self.static_ids[member.instance_id] = member.id
        self.leader = self.leader or member.id
        self.members[member.id] = member
        self.pending_joins.pop(member.id, None)
        self._supporters.update(name for name, _ in member.protocols)
        self._read(member)

    def _read(self, member: Member) -> None:
        """In the turn in which it says so what it subscribes to: that of all at once may be very much.
        Most say the same as the leader, and share it."""
        if self.is_consumer_group and self.leader is not None:
            leader = self.members[self.leader]
            for name, _ in member.protocols:
                if member.topics(name) == leader.read.get(name):
                    member.read[name] = leader.read.get(name)

    def remove(self, member_id: str) -> None:
        """Forget a member or a member id that was only handed out."""
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._supporters.subtract(name for name, _ in member.protocols)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        self._supporters.subtract(name for name, _ in member.protocols)
        member.protocols, member.read = protocols, {}
        self._supporters.update(name for name, _ in protocols)
        self._read(member)

    def rename(self, old_id: str, new_id: str) -> Member:
        """Give a static member another member id; its place in the group stays (KIP-345)."""
        member = self.members.pop(old_id)
        assert member.instance_id is not None
        member.id = new_id
        self.members[new_id] = member
        self.static_ids[member.instance_id] = new_id
        self.pending_syncs.discard(old_id)
        if self.leader == old_id:
            self.leader = new_id
        return member

    def vote(self) -> str:
        """The protocol that most members put first, among those that all of them know."""
        total = len(self.members)
        votes = Counter(
            next(name for name, _ in member.protocols if self._supporters[name] == total)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def read_subscriptions(self) -> None:
        self.subscribed = None
        if self.is_consumer_group:
            found = [member.topics(self.protocol or "") for member in self.members.values()]
            if None not in found:
                self.subscribed = frozenset(each for each in found if each)
