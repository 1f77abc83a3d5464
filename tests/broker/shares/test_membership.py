"""Members of a share group, the assignor and the sessions: pure, by hand."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from headwater.broker.shares.membership import GroupError, Member, ShareGroup, assign
from headwater.broker.shares.sessions import (
    FINAL,
    SessionError,
    SessionKey,
    Sessions,
)
from headwater.broker.shares.start_offset import duration_ms, offset_at
from tests.log.plain import NOW_MS, append, new_log

ID = {name: uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in "abcd"}
CLIENT = ("client", "/host")


def beat(group: ShareGroup, member: str, epoch: int, *topics: str, size_max: int = 100) -> Member:
    found = group.heartbeat(
        member, epoch, topics or None, client=CLIENT, rack_id=None, size_max=size_max
    )
    group.refresh({"a": (ID["a"], 2)})
    return found


def test_a_new_member_bumps_the_epoch_and_everybody_hears_of_it_in_turn() -> None:
    group = ShareGroup("g")
    one = beat(group, "one", 0, "a")
    assert group.tell(one, 0, always=True) == {ID["a"]: [0, 1]}
    two = beat(group, "two", 0, "a")
    assert group.tell(two, 0, always=True) == {ID["a"]: [1]}
    beat(group, "one", one.epoch)
    assert group.tell(one, one.epoch, always=False) == {ID["a"]: [0]}
    assert group.tell(one, one.epoch, always=False) is None
    assert (one.epoch, two.epoch) == (2, 2)


def test_a_heartbeat_whose_answer_was_lost_may_come_again() -> None:
    group = ShareGroup("g")
    one = beat(group, "one", 0, "a")
    group.tell(one, 0, always=True)
    beat(group, "two", 0, "a")
    beat(group, "one", 1)
    assert group.tell(one, 1, always=False) == {ID["a"]: [0]}
    beat(group, "one", 1)
    assert group.tell(one, 1, always=False) == {ID["a"]: [0]}, "told again"
    with pytest.raises(GroupError):
        beat(group, "one", 7)


def test_a_full_group_takes_nobody_in() -> None:
    group = ShareGroup("g")
    beat(group, "one", 0, "a", size_max=1)
    with pytest.raises(GroupError) as refused:
        beat(group, "two", 0, "a", size_max=1)
    assert refused.value.code is ErrorCode.group_max_size_reached
    beat(group, "one", 0, "a", size_max=1)


@given(
    st.dictionaries(
        st.text("xyz", min_size=1, max_size=4),
        st.sets(st.sampled_from("abcd")),
        min_size=1,
        max_size=8,
    ),
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9)),
)
def test_every_partition_has_a_reader_and_every_reader_something(
    wanted: dict[str, set[str]], counts: dict[str, int]
) -> None:
    topics = {name: (ID[name], count) for name, count in counts.items()}
    known = {member: sorted(names & counts.keys()) for member, names in wanted.items()}
    result = assign(known, topics)
    assert result.keys() == wanted.keys()
    for member, assignment in result.items():
        assert {ID[name] for name in known[member]} >= assignment.keys(), "only what it wants"
        assert bool(known[member]) == bool(assignment)
        for numbers in assignment.values():
            assert numbers == sorted(set(numbers))
    for name, count in counts.items():
        if any(name in names for names in known.values()):
            held = {n for each in result.values() for n in each.get(ID[name], ())}
            assert held == set(range(count))


def test_members_beyond_the_partitions_share_them_evenly() -> None:
    result = assign({str(n): ["a"] for n in range(7)}, {"a": (ID["a"], 3)})
    readers = [n for each in result.values() for n in each[ID["a"]]]
    assert sorted(readers.count(n) for n in range(3)) == [2, 2, 3]


def test_the_work_of_an_assignment_is_that_of_its_members_and_partitions() -> None:
    """A hundred readers of thousands of small topics took the event loop a second, for each who came."""
    names = [f"t{n}" for n in range(400)]
    topics = {name: (uuid.uuid5(uuid.NAMESPACE_DNS, name), 1) for name in names}

    def assigned(members: int) -> int:
        wanted = {f"m{n}": frozenset(names) for n in range(members)}
        return sum(
            len(each) for parts in assign(wanted, topics).values() for each in parts.values()
        )

    assert assigned(10) == assigned(100) == len(names)
    assert assigned(1000) == 1000


def test_a_session_counts_its_requests() -> None:
    sessions = Sessions()
    key = SessionKey("g", "m")
    with pytest.raises(SessionError) as missing:
        sessions.resume(key, 1)
    assert missing.value.code is ErrorCode.share_session_not_found
    sessions.begin(key, "connection", 2)
    sessions.resume(key, 1)
    with pytest.raises(SessionError) as wrong:
        sessions.resume(key, 1)
    assert wrong.value.code is ErrorCode.invalid_share_session_epoch
    sessions.resume(key, FINAL)
    assert sessions.resume(key, 2).epoch == 3


def test_the_number_of_sessions_is_bounded_but_a_member_may_begin_again() -> None:
    sessions = Sessions()
    sessions.begin(SessionKey("g", "one"), "c1", 1)
    sessions.begin(SessionKey("g", "one"), "c2", 1)
    assert sessions.of_connection("c1") == []
    with pytest.raises(SessionError) as refused:
        sessions.begin(SessionKey("g", "two"), "c2", 1)
    assert refused.value.code is ErrorCode.share_session_limit_reached


def test_partitions_of_a_session_take_turns() -> None:
    sessions = Sessions()
    session = sessions.begin(SessionKey("g", "m"), "c", 1)
    sessions.update(session, [(ID["a"], n) for n in range(3)], [])
    firsts = [session.rotate()[0][1] for _ in range(3)]
    assert sorted(firsts) == [0, 1, 2]
    sessions.update(session, [], [(ID["a"], 1)])
    assert sorted(n for _, n in session.rotate()) == [0, 2]


@pytest.mark.parametrize(
    ("text", "ms"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("PT0.5S", 500), ("P2DT1S", 172_801_000)],
)
def test_durations_are_read(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_a_duration_of_four_hundred_digits_is_longer_than_any_log() -> None:
    for text in (f"P{'9' * 400}D", f"PT{'1' * 400}.5S", f"P{'9' * 300}D"):
        assert duration_ms(text) > 10**18
    log = new_log()
    append(log, b"a")
    assert offset_at(f"by_duration:P{'9' * 400}D", log, NOW_MS) == 0
