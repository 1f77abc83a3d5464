"""What happens to members of a consumer group that are too late: they are removed.

`service` looks when a group's `wake_at` has come. Late can be: a heartbeat (session), the
letting go of partitions (rebalance), and for classic members the JoinGroup after they were told to
rejoin and the SyncGroup after that. An assignment that was put off is made when its time has come.
"""

from __future__ import annotations

import logging

from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ConsumerMember
from headwater.broker.groups.effects import Now

log = logging.getLogger(__name__)


def late(group: ConsumerGroup, now: Now) -> list[ConsumerMember]:
    gone = [
        member
        for member in group.members.values()
        if any(deadline <= now.monotonic_ms for deadline in member.deadlines())
    ]
    if gone:
        names = ", ".join(member.id for member in gone)
        log.info("group %s: members that were not heard of in time: %s", group.id, names)
    return gone


def set_wake(group: ConsumerGroup) -> None:
    """The next time at which something is due."""
    deadlines = [deadline for m in group.members.values() for deadline in m.deadlines()]
    if group.assign_at is not None and group.members:
        deadlines.append(group.assign_at)
    group.wake_at = min(deadlines, default=None)
