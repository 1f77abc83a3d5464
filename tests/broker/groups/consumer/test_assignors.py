"""The server-side assignors: complete, balanced, sticky, and the same whatever the order."""

from __future__ import annotations

import sys
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.groups.consumer.assignors import (
    ASSIGNORS,
    Assignor,
    Claim,
    Claims,
    Sizes,
    Target,
    range_,
    uniform,
)

A, B, C = (UUID(int=n) for n in (1, 2, 3))


def claims(*members: str, topics: frozenset[UUID] = frozenset({A}), target: Target | None = None):
    target = target or {}
    return {member: Claim(topics, target.get(member, {})) for member in members}


def counts(target: Target) -> list[int]:
    return sorted(sum(map(len, topics.values())) for topics in target.values())


def moves(before: Target, after: Target) -> int:
    """Partitions that a member had and has lost, though it is still there."""
    return sum(
        len(numbers - after[member].get(topic_id, frozenset()))
        for member, topics in before.items()
        if member in after
        for topic_id, numbers in topics.items()
    )


def test_uniform_gives_everybody_the_same_number() -> None:
    assert counts(uniform(claims("a", "b", "c"), {A: 7})) == [2, 2, 3]


def test_uniform_moves_no_more_than_a_newcomer_needs() -> None:
    before = uniform(claims("a", "b"), {A: 6})
    after = uniform(claims("a", "b", "c", target=before), {A: 6})
    assert counts(after) == [2, 2, 2]
    assert moves(before, after) == 2


def test_uniform_moves_nothing_of_those_who_stay_when_one_leaves() -> None:
    before = uniform(claims("a", "b", "c"), {A: 9})
    after = uniform(claims("a", "c", target=before), {A: 9})
    assert counts(after) == [4, 5]
    assert moves(before, after) == 0


def test_uniform_keeps_everything_when_nothing_has_changed() -> None:
    before = uniform(claims("a", "b", "c"), {A: 7})
    assert uniform(claims("c", "b", "a", target=before), {A: 7}) == before


def test_uniform_gives_a_topic_only_to_those_who_subscribe_to_it() -> None:
    target = uniform(
        {
            "a": Claim(frozenset({A})),
            "b": Claim(frozenset({A, B})),
            "c": Claim(frozenset({B})),
        },
        {A: 4, B: 2},
    )
    assert target["a"].keys() <= {A}
    assert target["c"].keys() <= {B}
    assert counts(target) == [2, 2, 2]


def test_range_gives_each_a_run_of_every_topic() -> None:
    both = frozenset({A, B})
    target = range_(claims("a", "b", topics=both), {A: 3, B: 3})
    assert target["a"] == {A: {0, 1}, B: {0, 1}}
    assert target["b"] == {A: {2}, B: {2}}


def test_range_orders_static_members_by_instance() -> None:
    """A static member that returns under another id finds its old partitions."""
    first = range_(
        {"x": Claim(frozenset({A}), {}, "i1"), "y": Claim(frozenset({A}), {}, "i2")}, {A: 2}
    )
    later = range_(
        {"z": Claim(frozenset({A}), {}, "i1"), "y": Claim(frozenset({A}), {}, "i2")}, {A: 2}
    )
    assert first["x"] == later["z"]


subscriptions = st.dictionaries(
    st.sampled_from("pqrstuv"), st.frozensets(st.sampled_from([A, B, C])), min_size=1
)
sizes_of_all = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in (A, B, C)})


@given(subscriptions, subscriptions, sizes_of_all, st.sampled_from(sorted(ASSIGNORS)))
def test_every_subscribed_partition_gets_one_subscriber(
    first: dict[str, frozenset[UUID]],
    then: dict[str, frozenset[UUID]],
    sizes: dict[UUID, int],
    name: str,
) -> None:
    assign = ASSIGNORS[name]
    before = assign({member: Claim(topics) for member, topics in first.items()}, sizes)
    claimed = {member: Claim(topics, before.get(member, {})) for member, topics in then.items()}
    after = assign(claimed, sizes)

    given_out = [
        (topic_id, number)
        for topics in after.values()
        for topic_id, numbers in topics.items()
        for number in numbers
    ]
    wanted = frozenset().union(*then.values())
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == {(t, n) for t in wanted for n in range(sizes[t])}
    assert all(after[member].keys() <= topics for member, topics in then.items())
    if name == "uniform" and len(set(then.values())) == 1:
        assert counts(after)[-1] - counts(after)[0] <= 1
        again = assign({m: Claim(t, after[m]) for m, t in then.items()}, sizes)
        assert again == after


def calls(assign: Assignor, wanted: Claims, sizes: Sizes) -> tuple[Target, int]:
    """What it gives, and how often it calls something; hashing topic ids is counted, too."""
    called = [0]

    def count(frame: object, event: str, argument: object) -> None:
        called[0] += event == "call"

    sys.setprofile(count)
    try:
        target = assign(wanted, sizes)
    finally:
        sys.setprofile(None)
    return target, called[0]


def test_the_work_for_different_subscriptions_does_not_grow_with_members_times_partitions() -> None:
    """All of it is done in one turn of the event loop."""
    members, partitions = [f"m{n:03}" for n in range(200)], 1000
    wanted = {m: Claim(frozenset({A, B} if m == "m000" else {A})) for m in members}
    target, called = calls(uniform, wanted, {A: partitions, B: 1})
    assert counts(target) == [5] * 199 + [6]
    assert called < 20 * (len(members) + partitions) < len(members) * partitions


@pytest.mark.parametrize("assign", ASSIGNORS.values())
def test_the_work_does_not_grow_with_members_times_topics_that_many_subscribe_to(
    assign: Assignor,
) -> None:
    members, topics = [f"m{n:03}" for n in range(300)], [UUID(int=n) for n in range(1, 301)]
    most = frozenset(topics)
    wanted = {m: Claim(frozenset({A}) if m == "m000" else most) for m in members}
    target, called = calls(assign, wanted, dict.fromkeys(topics, 1))
    assert sum(counts(target)) == len(topics)
    assert called < 40 * (len(members) + len(topics)) < len(members) * len(topics)
    again = {m: Claim(claim.topics, target[m]) for m, claim in wanted.items()}
    after, called = calls(assign, again, dict.fromkeys(topics, 1))
    assert after == target
    assert called < 40 * (len(members) + len(topics))
