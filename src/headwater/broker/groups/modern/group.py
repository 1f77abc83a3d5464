"""A group with epochs as data; `ConsumerGroup` and `StreamsGroup` say what its members hold.

Moves change it, a `service` owns the turn in which that happens. Nothing here does I/O or looks at a
clock. The group's state follows from the rest:

    Empty        no members
    NotReady     there can be no assignment (a streams group's topics are missing)
    Assigning    the group's epoch is ahead of the target assignment's
    Reconciling  some member has not reached its target yet
    Stable       every member has what the target gives it

Invariants: what can be owned has at most one owner, who holds it as assigned or as still being revoked;
the epoch of the group is never below that of the target, nor that below a member's; the epochs never
decrease; an instance id belongs to one member.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from kio.schema.errors import ErrorCode

from headwater.broker.groups.effects import Now
from headwater.broker.groups.group import HeartbeatRefused
from headwater.broker.groups.modern.member import MemberState, ModernMember

Member = TypeVar("Member", bound=ModernMember)
Target = TypeVar("Target")
Owned = TypeVar("Owned")


class ModernGroup(Generic[Member, Target, Owned]):
    """State of one group. Attributes are written by the moves of its package and by nobody else."""

    type: str

    def __init__(self, group_id: str, target_epoch: int) -> None:
        self.id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        """Of the group's topics as they were when the epoch was last raised."""
        self.topics_seen: int | None = None
        """The catalogue's version when the topics were last looked at."""
        self.target_epoch = target_epoch
        self.target_timestamp = 0
        self.target: dict[str, Target] = {}
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        self.owners: dict[Owned, str] = {}
        self.dead = False
        self.assign_at: int | None = None
        """When an assignment that was put off is to be made."""
        self.wake_at: int | None = None
        self.unsaved = False
        """A record could not be written: the next turn writes it again."""
        self.stale_keys: set[bytes] = set()
        """Keys of records that could not be written."""

    # ---- questions -------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """May there be an assignment?"""
        return True

    @property
    def state_name(self) -> str:
        if self.dead:
            return "Dead"
        if not self.members:
            return "Empty"
        if not self.is_ready:
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

    def unknown_member(self, member_id: str) -> HeartbeatRefused:
        return HeartbeatRefused(
            ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {self.id}."
        )

    # ---- offsets and the group's end -------------------------------------------------------------

    def stale(self, member: Member) -> ErrorCode:
        """What somebody hears whose epoch is not the member's."""
        return ErrorCode.stale_member_epoch

    def fetch_error(self, member_id: str | None, generation: int) -> ErrorCode:
        """May this caller read the offsets? Without member id and epoch anybody may."""
        if member_id is None and generation < 0:
            return ErrorCode.none
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.unknown_member_id
        return ErrorCode.none if generation == member.epoch else self.stale(member)

    def delete_error(self) -> ErrorCode:
        if self.dead:
            return ErrorCode.group_id_not_found
        return ErrorCode.none if self.is_empty else ErrorCode.non_empty_group

    def offset_delete_error(self) -> ErrorCode:
        return ErrorCode.group_id_not_found if self.dead else ErrorCode.none

    def offsets_idle_since(self, commit_timestamp: int) -> int | None:
        """KIP-211 as Kafka reads it for these groups: always since the commit."""
        return commit_timestamp

    def set_dead(self, dead: bool) -> None:
        assert not self.members
        self.dead = dead

    # ---- time ------------------------------------------------------------------------------------

    def wake(self, at: int) -> None:
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

    def stay(self, member: Member, now: Now, session_timeout_ms: int) -> None:
        """The member was heard of."""
        member.session_deadline = now.monotonic_ms + session_timeout_ms
        self.wake(member.session_deadline)

    def await_release(self, member: Member, now: Now) -> None:
        """A member that has to let go of something has so much time for it."""
        if member.state is not MemberState.UNREVOKED:
            member.rebalance_deadline = None
        elif member.rebalance_deadline is None:
            member.rebalance_deadline = now.monotonic_ms + member.rebalance_timeout_ms
            self.wake(member.rebalance_deadline)

    def puts_off_assignment(self, interval_ms: int, now: Now) -> bool:
        """Was the last one made only just now (KIP-1263)? Then the next waits for its time."""
        age_ms = now.wall_ms - self.target_timestamp
        if self.target_timestamp and 0 <= age_ms < interval_ms:  # below 0: the clock was set back
            self.assign_at = now.monotonic_ms + interval_ms - age_ms
            self.wake(self.assign_at)
            return True
        self.assign_at = None
        return False

    def set_target(self, target: dict[str, Target], now: Now) -> list[str]:
        """Take over a new one; returns the members for whom it is another."""
        changed = [id for id, wanted in target.items() if self.target.get(id) != wanted]
        self.target = target
        self.target_epoch, self.target_timestamp = self.epoch, now.wall_ms
        return changed
