"""A consumer group of the newer protocol as data: who subscribes to what, and who has which partitions.

The moves of this package change it; `service` owns the turn in which that happens. What it has in common with
other groups that have epochs, its states and invariants stand in `modern.group`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker.groups.consumer.member import ConsumerMember, Held, Partitions
from headwater.broker.groups.consumer.records import KINDS, REGEX, RegexValue
from headwater.broker.groups.consumer.topic_regex import TopicRegex
from headwater.broker.groups.modern.group import ModernGroup
from headwater.broker.groups.subscription import CONSUMER

Owned = tuple[UUID, int]


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions, Owned]):
    type = "consumer"
    protocol_type: str | None = CONSUMER

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, target_epoch=0)
        self.regexes: dict[str, RegexValue] = {}
        """What the members' regular expressions stand for."""
        self.matchers: dict[str, TopicRegex] = {}
        """What has been looked at for them."""
        self.known: frozenset[str] | None = None
        """The topics that there were when they were last looked at; None: they have not been yet."""
        self.subscribed: frozenset[str] = frozenset()
        """Those of them that members subscribe to."""

    # ---- questions -------------------------------------------------------------------------------

    def subscribes(self, topic: str) -> bool:
        named = (member.topic_names for member in self.members.values())
        return topic in self.subscribed or any(topic in names for names in named)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """All that a member subscribes to, by name and by regular expression."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        return member.topic_names | resolved.topics if resolved else member.topic_names

    def subscribe(self) -> None:
        """Recompute which topics the members subscribe to."""
        one_of_each = {member.subscription: member for member in self.members.values()}
        self.subscribed = frozenset().union(*map(self.known_topics_of, one_of_each.values()))

    def known_topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Those that there are: what a member says of others may be very much, and costs nothing."""
        if self.known is None:
            return self.topics_of(member)
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        named = member.topic_names & self.known
        return named | (resolved.topics & self.known) if resolved else named

    def preferred_assignor(self) -> str | None:
        """The assignor that most members ask for."""
        votes = Counter(m.assignor for m in self.members.values() if m.assignor)
        return votes.most_common(1)[0][0] if votes else None

    def find(self, member_id: str, instance_id: str | None) -> ConsumerMember | ErrorCode:
        """The member who says that it is this one, or why it is not."""
        if instance_id is not None:
            holder = self.static_ids.get(instance_id)
            if holder is None:
                return ErrorCode.unknown_member_id
            if holder != member_id:
                return ErrorCode.fenced_instance_id
        return self.members.get(member_id) or ErrorCode.unknown_member_id

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Is a partition of its target still owned by somebody else?"""
        return any(
            self.owners.get((topic_id, number), member.id) != member.id
            for topic_id, numbers in self.target.get(member.id, {}).items()
            for number in numbers
        )

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
        if transactional and generation < 0 and not member_id and instance_id is None:
            return ErrorCode.none
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if member.classic is None and not knows_epochs:
            return ErrorCode.unsupported_version
        if generation > member.epoch or (generation < member.epoch and generation <= 0):
            return self.stale(member)
        return ErrorCode.none

    def partition_commit_error(
        self, member_id: str, generation: int, topic: str, topic_id: UUID | None, partition: int
    ) -> ErrorCode:
        """A commit with an older epoch counts for what the member held then and still holds."""
        member = self.members.get(member_id)
        if member is None or generation == member.epoch:
            return ErrorCode.none
        for held in (member.assigned, member.revoking):
            since = held.get(topic_id, {}).get(partition) if topic_id is not None else None
            if since is not None and since <= generation:
                return ErrorCode.none
        return self.stale(member)

    def stale(self, member: ConsumerMember) -> ErrorCode:
        return ErrorCode.illegal_generation if member.classic else super().stale(member)

    def tombstone_keys(self) -> list[bytes]:
        return [
            *self.member_keys(),
            *(KINDS.key(REGEX, self.id, regex) for regex in self.regexes),
            *self.stale_keys,
            KINDS.key(KINDS.target, self.id),
            KINDS.key(KINDS.group, self.id),
        ]

    def member_keys(self) -> Iterator[bytes]:
        for kind in KINDS.of_member:
            for member_id in self.members:
                yield KINDS.key(kind, self.id, member_id)

    # ---- changes ---------------------------------------------------------------------------------

    def add(self, member: ConsumerMember) -> None:
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.id
        self.own(member)

    def remove(self, member: ConsumerMember) -> None:
        self.disown(member)
        del self.members[member.id]
        self.target.pop(member.id, None)
        if member.instance_id is not None and self.static_ids[member.instance_id] == member.id:
            del self.static_ids[member.instance_id]

    def disown(self, member: ConsumerMember) -> None:
        for owned in _all_of(member):
            if self.owners.get(owned) == member.id:
                del self.owners[owned]

    def own(self, member: ConsumerMember) -> None:
        for owned in _all_of(member):
            assert self.owners.get(owned, member.id) == member.id, f"{owned} has an owner"
            self.owners[owned] = member.id

    def hold(self, member: ConsumerMember, assigned: Held, revoking: Held) -> None:
        """Change what a member has; whoever owns is always in step with it."""
        self.disown(member)
        member.assigned, member.revoking = assigned, revoking
        self.own(member)


def _all_of(member: ConsumerMember) -> Iterator[Owned]:
    for held in (member.assigned, member.revoking):
        for topic_id, partitions in held.items():
            for number in partitions:
                yield topic_id, number
