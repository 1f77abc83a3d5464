"""The records of streams groups: round trips, and any bytes are a value or `BadRecord`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.modern.member import MemberState
from headwater.broker.groups.modern.records import Key, target_value
from headwater.broker.groups.streams import records
from headwater.broker.groups.streams.member import Assignment, Endpoint, Holding, StreamsMember
from headwater.broker.groups.streams.records import KINDS, GroupValue
from headwater.broker.groups.streams.replay import READERS, CurrentValue
from headwater.broker.groups.streams.topology import Copartition, Subtopology, TopicInfo, Topology

MEMBER = StreamsMember(
    "",
    None,
    "rack",
    "client",
    "/host",
    30_000,
    topology_epoch=3,
    process_id="p",
    endpoint=Endpoint("h", 65_000),
    tags=(("zone", "a"),),
)
HELD = Holding({"0": {0: 3, 2: 5}}, {"1": {1: 5}}, {})
REVOKING = Holding({"1": {0: 4}}, {}, {})
HOLDER = StreamsMember(
    "m", epoch=5, previous_epoch=4, state=MemberState.UNREVOKED, assigned=HELD, revoking=REVOKING
)
CURRENT = CurrentValue(5, 4, MemberState.UNREVOKED, HELD, REVOKING)
TARGET = Assignment({"0": frozenset({1, 0})}, {"1": frozenset({2})}, {})
TOPOLOGY = Topology(
    2,
    (
        Subtopology("0", ("a", "b"), (), (), ("r",), (), (Copartition((0, 1), (), ()),)),
        Subtopology(
            "1",
            ("a",),
            changelogs=(TopicInfo("c", 0, 1, (("cleanup.policy", "compact"),)),),
            repartitions=(TopicInfo("r", 3),),
            copartitions=(Copartition((0,), (), (0,)),),
        ),
    ),
)
GROUP = GroupValue(7, -9, 2, (("num.standby.replicas", "1"),))

EXAMPLES = [
    (records.GROUP, records.group_value(GROUP), GROUP),
    (records.GROUP, records.group_value(GroupValue(7, 0)), GroupValue(7, 0)),
    (records.MEMBER, records.member_value(MEMBER), MEMBER),
    (records.MEMBER, records.member_value(StreamsMember("")), StreamsMember("")),
    (records.TARGET, target_value(7, 123), (7, 123)),
    (records.MEMBER_TARGET, records.member_target_value(TARGET), TARGET),
    (records.CURRENT, records.current_value(HOLDER), CURRENT),
    (records.TOPOLOGY, records.topology_value(TOPOLOGY), TOPOLOGY),
]


@pytest.mark.parametrize(("kind", "data", "value"), EXAMPLES)
def test_a_value_is_read_as_it_was_written(kind: int, data: bytes, value: object) -> None:
    assert READERS[kind](data) == value


@pytest.mark.parametrize(("kind", "data", "value"), EXAMPLES)
def test_a_value_that_is_cut_or_followed_by_bytes_is_refused(
    kind: int, data: bytes, value: object
) -> None:
    for wrong in (*(data[:end] for end in range(len(data))), data + b"\0"):
        with pytest.raises(BadRecord):
            READERS[kind](wrong)


@pytest.mark.parametrize("kind", sorted(READERS))
def test_a_key_is_read_as_it_was_written(kind: int) -> None:
    name = "m" if KINDS.has_name(kind) else ""
    assert KINDS.read_key(KINDS.key(kind, "g", name)) == Key(kind, "g", name)


def test_a_topology_that_copartitions_what_it_has_not_is_refused() -> None:
    wrong = Subtopology("0", ("a",), copartitions=(Copartition((1,), (), ()),))
    with pytest.raises(BadRecord):
        READERS[records.TOPOLOGY](records.topology_value(Topology(0, (wrong,))))


@given(st.sampled_from(sorted(READERS)), st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_bad_record(kind: int, data: bytes) -> None:
    try:
        READERS[kind](b"\0\0" + data)
    except BadRecord:
        pass
