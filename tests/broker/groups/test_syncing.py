"""SyncGroup, Heartbeat and LeaveGroup, and who may commit."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import State
from headwater.broker.groups.records import read_group_value
from headwater.broker.groups.sync import Identity

from .room import Room, subscription


def completing(room: Room, count: int = 2) -> list[str]:
    members = [room.known_id() for _ in range(count)]
    for member in members:
        room.send_join(member)
    room.pass_ms(0)
    assert room.group.state is State.COMPLETING
    return members


def test_everybody_gets_the_part_that_the_leader_assigned(room: Room) -> None:
    leader, follower = completing(room)
    tickets = [room.send_sync(follower), room.send_sync(leader, {leader: b"l", follower: b"f"})]
    assert [room.answer(ticket).assignment for ticket in tickets] == [b"f", b"l"]
    assert room.answer(tickets[0]).protocol == "range"
    assert room.answer(tickets[0]).protocol_type == "consumer"


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment(room: Room) -> None:
    leader, follower = completing(room)
    room.send_sync(leader, {leader: b"l"})
    assert room.answer(room.send_sync(follower)).assignment == b""


def test_the_assignment_is_durable_before_anybody_hears_of_it(room: Room) -> None:
    leader, follower = completing(room)
    room.hold = True
    tickets = [room.send_sync(follower), room.send_sync(leader, {follower: b"f"})]
    assert [room.answer(ticket) for ticket in tickets] == [None, None]
    assert room.group.state is State.COMPLETING
    room.write()
    assert room.answer(tickets[0]).assignment == b"f"
    stored = read_group_value(room.log[-1])
    assert (stored.generation, stored.leader) == (1, leader)
    assert {m.member_id: m.assignment for m in stored.members} == {leader: b"", follower: b"f"}


def test_an_assignment_that_cannot_be_stored_is_an_error_and_a_new_rebalance(room: Room) -> None:
    leader, follower = completing(room)
    room.hold = True
    tickets = [room.send_sync(follower), room.send_sync(leader, {follower: b"f"})]
    room.fail()
    errors = [room.answer(ticket).error for ticket in tickets]
    assert errors == [ErrorCode.not_coordinator] * 2
    assert room.group.state is State.PREPARING
    assert room.group.members[follower].assignment == b""


def test_a_leader_that_repeats_its_sync_does_not_change_the_assignment(room: Room) -> None:
    leader, _ = completing(room)
    room.hold = True
    room.send_sync(leader, {leader: b"first"})
    again = room.send_sync(leader, {leader: b"second"})
    room.write()
    assert room.answer(again).assignment == b"first"
    assert not room.writing


def test_an_assignment_that_was_overtaken_by_a_rebalance_is_not_handed_out(room: Room) -> None:
    leader, follower = completing(room)
    room.hold = True
    ticket = room.send_sync(leader, {leader: b"old"})
    room.send_leave(follower)
    assert room.answer(ticket).error is ErrorCode.rebalance_in_progress
    room.write()
    assert room.group.state is State.PREPARING


def test_a_sync_in_a_stable_group_is_answered_at_once(room: Room) -> None:
    _, follower = room.stable(2)
    assert room.answer(room.send_sync(follower)).assignment == follower.encode()


def test_a_sync_during_the_join_phase_must_rejoin(room: Room) -> None:
    leader, follower = room.stable(2)
    room.send_join(leader)
    assert room.answer(room.send_sync(follower)).error is ErrorCode.rebalance_in_progress


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"generation": 7}, ErrorCode.illegal_generation),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol": "sticky"}, ErrorCode.inconsistent_group_protocol),
        ({"instance": "nobody"}, ErrorCode.unknown_member_id),
    ],
)
def test_a_sync_must_fit_the_group(room: Room, fields: dict[str, Any], error: ErrorCode) -> None:
    leader, _ = completing(room)
    member_id = fields.pop("member_id", leader)
    assert room.answer(room.send_sync(member_id, **fields)).error is error


def test_a_heartbeat_must_fit_the_group(room: Room) -> None:
    (member,) = room.stable()
    assert room.heartbeat(member) is ErrorCode.none
    assert room.heartbeat(member, generation=0) is ErrorCode.illegal_generation
    assert room.heartbeat("stranger") is ErrorCode.unknown_member_id


def test_a_heartbeat_during_sync_is_accepted(room: Room) -> None:
    leader, _ = completing(room)
    assert room.heartbeat(leader) is ErrorCode.none


def test_when_a_member_leaves_the_others_rebalance(room: Room) -> None:
    leader, follower = room.stable(2)
    assert room.answer(room.send_leave(follower)).members == (ErrorCode.none,)
    assert room.heartbeat(leader) is ErrorCode.rebalance_in_progress
    assert room.answer(room.send_join(leader)).generation == 2


def test_when_the_last_member_leaves_the_group_is_empty_once_that_is_durable(room: Room) -> None:
    (member,) = room.stable()
    room.hold = True
    ticket = room.send_leave(member)
    assert room.answer(ticket) is None
    room.write()
    assert room.answer(ticket).members == (ErrorCode.none,)
    assert room.group.state is State.EMPTY
    assert read_group_value(room.log[-1]).members == ()


def test_members_leave_together_and_rebalance_once(room: Room) -> None:
    ids = room.stable_static("i1", "i2", "i3")
    ticket = room.send_leave(
        Identity("", "i2"), Identity(ids["i3"], "i3"), Identity("", "nobody"), Identity("stranger")
    )
    unknown = ErrorCode.unknown_member_id
    assert room.answer(ticket).members == (ErrorCode.none, ErrorCode.none, unknown, unknown)
    assert room.group.static_ids == {"i1": ids["i1"]}
    assert room.group.state is State.PREPARING


def test_a_member_id_that_was_handed_out_can_leave(room: Room) -> None:
    member_id = room.known_id()
    assert room.answer(room.send_leave(member_id)).members == (ErrorCode.none,)
    assert not room.group.pending_joins


def test_a_member_that_leaves_while_its_join_waits_gets_an_answer(room: Room) -> None:
    leader, _ = room.stable(2)
    waiting = room.send_join(leader)
    room.send_leave(leader)
    assert room.answer(waiting).error is ErrorCode.unknown_member_id


def test_a_leave_completes_the_join_phase_that_waited_for_it(room: Room) -> None:
    leader, follower = room.stable(2)
    waiting = room.send_join(leader)
    room.send_leave(follower)
    assert room.answer(waiting).generation == 2


def test_who_may_commit(room: Room) -> None:
    group = room.group
    assert group.commit_error("", None, -1) is ErrorCode.none
    leader, follower = room.stable(2)
    assert group.commit_error(leader, None, 1) is ErrorCode.none
    assert group.commit_error(leader, None, 0) is ErrorCode.illegal_generation
    assert group.commit_error("stranger", None, 1) is ErrorCode.unknown_member_id
    assert group.commit_error("", None, -1) is ErrorCode.unknown_member_id
    room.send_join(leader)
    assert group.commit_error(follower, None, 1) is ErrorCode.none
    room.send_join(follower)
    assert group.commit_error(leader, None, 2) is ErrorCode.rebalance_in_progress
    assert group.commit_error(leader, None, 2, transactional=True) is ErrorCode.none
    assert group.commit_error("", None, -1, transactional=True) is ErrorCode.none


def test_a_consumer_group_knows_its_topics(room: Room) -> None:
    room.send_join(version=3, protocols=[("range", subscription("a", "b"))])
    room.send_join(version=3, protocols=[("range", subscription("c"))])
    room.pass_ms(0)
    assert [room.group.subscribes(topic) for topic in "abcd"] == [True, True, True, False]


def test_a_subscription_that_cannot_be_read_counts_as_one_to_all_topics(room: Room) -> None:
    room.stable(1, protocols=[("range", b"\x00")])
    assert room.group.subscribes("anything")


def test_a_group_of_another_protocol_subscribes_to_nothing(room: Room) -> None:
    room.stable(1, protocol_type="connect")
    assert not room.group.subscribes("anything")
