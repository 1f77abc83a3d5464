"""Member ids are the clients' own, and so may be anything: one that is in use under another instance id, too.

Whatever a client calls itself, every partition has an owner who is there and knows of it.
"""

from __future__ import annotations

import pytest

from headwater.broker.groups.consumer.group import ConsumerGroup

from .hall import Client, Hall

T = frozenset({"t"})


@pytest.fixture
def hall() -> Hall:
    hall = Hall()
    hall.image.put("t", 4)
    return hall


def check(group: ConsumerGroup) -> None:
    """Owners and instance ids are those of members who know of it."""
    held = {
        (topic_id, number): member.id
        for member in group.members.values()
        for parts in (member.assigned, member.revoking)
        for topic_id, numbers in parts.items()
        for number in numbers
    }
    assert group.owners == held
    named = {m.instance_id: m.id for m in group.members.values() if m.instance_id is not None}
    assert group.static_ids == named


def joined(hall: Hall, member: str, instance: str | None = None) -> Client:
    client = Client(hall, member, T, instance)
    client.join()
    client.beat_until_settled()
    return client


def test_a_member_that_takes_an_instance_id_keeps_its_partitions(hall: Hall) -> None:
    joined(hall, "m1")
    again = joined(hall, "m1", "i1")
    assert again.count == 4
    check(hall.group)


def test_what_such_a_member_leaves_is_free_for_others(hall: Hall) -> None:
    joined(hall, "m1")
    joined(hall, "m1", "i1").leave()
    other = joined(hall, "m2")
    assert other.count == 4
    check(hall.group)


def test_an_instance_id_that_a_member_has_left_is_free(hall: Hall) -> None:
    joined(hall, "m1", "i1")
    joined(hall, "m1", "i2").leave()
    back = joined(hall, "m3", "i1")
    assert back.count == 4
    check(hall.group)


def test_a_member_that_comes_back_in_the_place_of_a_static_one_is_one_member(hall: Hall) -> None:
    away, here = joined(hall, "m1", "i1"), joined(hall, "m2")
    away.beat_until_settled()
    here.beat_until_settled()
    assert (away.count, here.count) == (2, 2)
    away.leave(epoch=-2)
    both = joined(hall, "m2", "i1")
    assert both.count == 4
    check(hall.group)


def test_it_is_the_same_after_a_restart(hall: Hall) -> None:
    joined(hall, "m1", "i1")
    joined(hall, "m1", "i2")
    restored = hall.restored()
    check(restored)
    assert restored.static_ids == {"i2": "m1"}
