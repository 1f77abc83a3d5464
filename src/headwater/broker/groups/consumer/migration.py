"""From a classic group to one of the newer protocol and back, while its members keep reading.

Upgrade: a member of the newer protocol joins a classic group of consumers. The group becomes a
consumer group in which the others are classic members; their generation is the first epoch, their
assignment the first target. Downgrade: the last member of the newer protocol goes, and classic ones
are left. The group becomes a classic group again, and its members are called together to assign.

Both must be one batch in the log: the tombstones of the one type and the records of the other.
"""

from __future__ import annotations

from collections.abc import Collection

from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.consumer import subscriptions
from headwater.broker.groups.consumer.changes import Changes
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ClassicSide, ConsumerMember, Held, partitions_of
from headwater.broker.groups.consumer.steps import Setting
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.effects import Joined, Now, Synced, Turn
from headwater.broker.groups.group import HeartbeatRefused, Image
from headwater.broker.groups.member import Member
from headwater.broker.groups.rebalance import answer_join, answer_sync, live_for
from headwater.broker.groups.subscription import (
    read_assignment,
    read_subscription,
    write_assignment,
)

UPGRADES = ("bidirectional", "upgrade")
DOWNGRADES = ("bidirectional", "downgrade")


def check_upgrade(group: ClassicGroup, policy: str, max_size: int) -> None:
    """Raises `HeartbeatRefused` if this group cannot become a consumer group."""
    problem = None
    if policy not in UPGRADES:
        problem = "online upgrade is disabled"
    elif not group.is_consumer_group:
        problem = "the group does not use the consumer embedded protocol"
    elif len(group.members) > max_size:
        problem = "the group size exceeds the consumer group maximum size"
    elif group.state is State.DEAD or not all(map(_readable, group.members.values())):
        problem = "its members' subscriptions cannot be read"
    if problem is not None:
        raise HeartbeatRefused(
            ErrorCode.group_id_not_found,
            f"Cannot upgrade classic group {group.id} to consumer group because {problem}.",
        )


def _readable(member: Member) -> bool:
    try:
        for _, metadata in member.protocols:
            read_subscription(metadata)
        read_assignment(member.assignment)
    except BadRecord:
        return False
    return bool(member.protocols)


def to_consumer(old: ClassicGroup, turn: Turn, setting: Setting) -> tuple[ConsumerGroup, Changes]:
    """The group as a consumer group; whoever waits in the old one is told to join again."""
    group = ConsumerGroup(old.id)
    group.epoch = group.target_epoch = old.generation
    group.target_timestamp = 0
    for each in old.members.values():
        answer_join(each, turn, Joined(ErrorCode.rebalance_in_progress, each.id))
        answer_sync(each, turn, Synced(ErrorCode.rebalance_in_progress))
        member = _consumer_member(group, each, old.protocol, setting.image)
        group.add(member)
        group.target[member.id] = partitions_of(member.assigned)
        group.stay(member, setting.now, each.session_timeout_ms)
    subscriptions.refresh(group, setting.image)
    changes = Changes(group)
    changes.everything()
    changes.first += [(key, None) for key in old.tombstone_keys()]
    return group, changes


def _consumer_member(
    group: ConsumerGroup, old: Member, protocol: str | None, image: Image
) -> ConsumerMember:
    said = read_subscription(old.metadata(protocol) or old.protocols[0][1])
    assigned: Held = {}
    for name, numbers in read_assignment(old.assignment).items():
        topic = image.topics.get(name)
        for number in numbers if topic is not None else ():
            assert topic is not None
            # Clients assigned these: two of them may have been given the same partition.
            if (topic.id, number) not in group.owners and number < topic.partitions:
                assigned.setdefault(topic.id, {})[number] = group.epoch
    return ConsumerMember(
        old.id,
        old.instance_id,
        said.rack,
        old.client_id,
        old.client_host,
        old.rebalance_timeout_ms,
        topic_names=said.topics,
        classic=ClassicSide(old.session_timeout_ms, old.protocols),
        epoch=group.epoch,
        previous_epoch=group.epoch,
        assigned=assigned,
    )


def becomes_classic(
    group: ConsumerGroup, leaving: Collection[str], policy: str, max_size: int
) -> bool:
    """Will only classic members be left, and may the group then be a classic one again?"""
    left = [member for member in group.members.values() if member.id not in leaving]
    return (
        policy in DOWNGRADES
        and 0 < len(left) <= max_size
        and all(member.classic is not None for member in left)
    )


def to_classic(group: ConsumerGroup, image: Image, now: Now, turn: Turn) -> ClassicGroup:
    """The group as a classic, stable group: everybody has what the target gives."""
    names = {topic.id: name for name, topic in image.topics.items()}
    new = ClassicGroup(group.id, now)
    new.generation = group.epoch
    new.protocol_type = group.protocol_type
    for member in group.members.values():
        side = member.classic
        assert side is not None
        version = read_subscription(side.protocols[0][1]).version
        partitions = {
            names[topic_id]: numbers
            for topic_id, numbers in group.target.get(member.id, {}).items()
            if topic_id in names
        }
        each = Member(
            member.id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            side.session_timeout_ms,
            side.protocols,
            write_assignment(version, partitions),
        )
        new.add(each)
        live_for(new, each, turn, side.session_timeout_ms)
    new.protocol = new.vote()
    new.go(State.STABLE, now)
    new.read_subscriptions()
    return new
