"""What members subscribe to is looked at once for all who say the same, and has a bound where they differ."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.groups.consumer import steps
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.member import ConsumerMember
from headwater.broker.groups.consumer.steps import check_names, same_names
from headwater.broker.groups.group import HeartbeatRefused


def test_a_group_has_so_many_names_in_subscriptions_that_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "NAMES_MAX", 100)
    group = ConsumerGroup("g")
    same = frozenset(f"t{n}" for n in range(60))
    for number in range(10):
        check_names(group, f"m{number}", same_names(group, frozenset(same)))
        group.add(ConsumerMember(f"m{number}", topic_names=same_names(group, frozenset(same))))
    assert len({id(each.topic_names) for each in group.members.values()}) == 1, "kept once"
    other = frozenset(f"u{n}" for n in range(60))
    with pytest.raises(HeartbeatRefused) as refused:
        check_names(group, "m11", other)
    assert refused.value.error is ErrorCode.group_max_size_reached
    check_names(group, "m11", same)
