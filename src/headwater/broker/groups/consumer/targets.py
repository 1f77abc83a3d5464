"""The next target assignment of a group.

`steps.assign` calls `update` when the group's epoch is ahead of the target's.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.broker.groups.consumer.assignors import ASSIGNORS, Claim
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.subscriptions import ids_of, sizes
from headwater.broker.groups.image import Image


def update(group: ConsumerGroup, image: Image, assignors: Sequence[str], now_ms: int) -> list[str]:
    """Assign anew; returns the members whose target has changed."""
    claims = {
        member.id: Claim(
            ids_of(group, member, image), group.target.get(member.id, {}), member.instance_id
        )
        for member in group.members.values()
    }
    preferred = group.preferred_assignor()
    name = preferred if preferred in assignors else assignors[0]
    assert name is not None
    target = ASSIGNORS[name](claims, sizes(group, image))
    changed = [
        member_id for member_id, wanted in target.items() if group.target.get(member_id) != wanted
    ]
    group.target = dict(target)
    group.target_epoch = group.epoch
    group.target_timestamp = now_ms
    return changed
