"""What time does to a group: sessions, rebalance time-outs, members that never come back."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import State

from .room import Room


def test_a_member_that_does_not_rejoin_in_time_is_removed(room: Room) -> None:
    leader, follower = room.stable(2, session=120_000, rebalance=60_000)
    ticket = room.send_join(leader, session=120_000)
    room.pass_ms(59_999)
    assert room.answer(ticket) is None
    room.pass_ms(1)
    assert room.answer(ticket).generation == 2
    assert follower not in room.group.members


def test_the_longest_rebalance_time_out_of_all_members_counts(room: Room) -> None:
    room.send_join(version=3, rebalance=10_000, session=120_000)
    room.send_join(version=3, rebalance=50_000, session=120_000)
    room.pass_ms(0)
    room.sync_all()
    leader = room.group.leader
    ticket = room.send_join(leader, rebalance=10_000, session=120_000)
    room.pass_ms(49_999)
    assert room.answer(ticket) is None
    room.pass_ms(1)
    assert room.answer(ticket).generation == 2


def test_another_leader_is_elected_when_the_leader_does_not_rejoin(room: Room) -> None:
    leader, follower = room.stable(2, session=120_000)
    newcomer = room.send_join(room.known_id())
    ticket = room.send_join(follower, session=120_000)
    room.pass_ms(60_000)
    assert leader not in room.group.members
    assert room.answer(ticket).leader == room.answer(newcomer).leader == room.group.leader
    assert room.group.leader in room.group.members


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_ends(room: Room) -> None:
    ids = room.stable_static("i1", "i2", session=200_000)
    ticket = room.send_join(ids["i1"], instance="i1", session=200_000)
    room.pass_ms(60_000)
    assert room.answer(ticket).generation == 2
    assert ids["i2"] in room.group.members


def test_a_static_leader_that_does_not_rejoin_hands_over_the_lead(room: Room) -> None:
    ids = room.stable_static("i1", "i2", session=200_000)
    assert room.group.leader == ids["i1"]
    room.send_join(version=3, session=200_000)
    ticket = room.send_join(ids["i2"], instance="i2", session=200_000)
    room.pass_ms(60_000)
    assert room.answer(ticket).leader == ids["i2"]


def test_if_no_static_member_rejoins_the_group_waits_until_their_sessions_end(room: Room) -> None:
    room.stable_static("i1", "i2", session=150_000)
    newcomer = room.send_join(version=3, session=150_000)
    room.send_leave(list(room.group.members)[-1])
    assert room.answer(newcomer).error is ErrorCode.unknown_member_id
    room.pass_ms(120_000)
    assert room.group.state is State.PREPARING
    room.pass_ms(30_000)
    assert room.group.state is State.EMPTY


def test_a_member_without_heartbeats_expires_and_the_others_rebalance(room: Room) -> None:
    leader, follower = room.stable(2, session=10_000)
    room.pass_ms(9_000)
    assert room.heartbeat(leader) is ErrorCode.none
    room.pass_ms(1_000)
    assert follower not in room.group.members
    assert room.heartbeat(leader) is ErrorCode.rebalance_in_progress


def test_a_heartbeat_starts_the_session_anew(room: Room) -> None:
    (member,) = room.stable(1, session=10_000)
    for _ in range(5):
        room.pass_ms(9_999)
        assert room.heartbeat(member) is ErrorCode.none


def test_a_member_that_waits_in_join_does_not_expire(room: Room) -> None:
    leader, follower = room.stable(2, session=10_000, rebalance=60_000)
    ticket = room.send_join(leader, session=10_000)
    for _ in range(5):
        room.pass_ms(9_000)
        room.heartbeat(follower)
    assert leader in room.group.members
    room.send_join(follower, session=10_000)
    assert room.answer(ticket).error is ErrorCode.none


def test_a_member_that_waits_in_sync_does_not_expire(room: Room) -> None:
    first, second = (room.known_id(session=10_000) for _ in range(2))
    room.send_join(first, session=10_000)
    room.send_join(second, session=10_000)
    room.pass_ms(0)
    waiting = room.send_sync(second)
    for _ in range(4):
        room.pass_ms(9_000)
        room.heartbeat(first)
    room.send_sync(first, {second: b"x"})
    assert room.answer(waiting).assignment == b"x"


def test_the_session_starts_anew_when_a_waiting_member_is_answered(room: Room) -> None:
    leader, follower = room.stable(2, session=10_000)
    room.send_join(leader, session=10_000)
    for _ in range(3):
        room.pass_ms(8_000)
        room.heartbeat(follower)
    room.send_join(follower, session=10_000)
    room.pass_ms(9_999)
    assert set(room.group.members) == {leader, follower}
    room.pass_ms(1)
    assert not room.group.members


def test_a_new_member_whose_join_is_never_completed_is_let_go_after_five_minutes(
    room: Room,
) -> None:
    _leader, _ = room.stable(2, rebalance=900_000, session=900_000)
    ticket = room.send_join(version=3, rebalance=900_000)
    room.pass_ms(299_999)
    assert room.answer(ticket) is None
    room.pass_ms(1)
    assert room.answer(ticket).error is ErrorCode.unknown_member_id


def test_members_that_never_sync_are_removed_after_the_rebalance_time_out(room: Room) -> None:
    first, second = (room.known_id(session=120_000) for _ in range(2))
    room.send_join(first, session=120_000)
    room.send_join(second, session=120_000)
    room.pass_ms(0)
    waiting = room.send_sync(first, {})
    assert room.answer(waiting).error is ErrorCode.none
    room.pass_ms(60_000)
    assert second not in room.group.members
    assert room.heartbeat(first) is ErrorCode.rebalance_in_progress


def test_a_leader_that_never_syncs_makes_the_others_rejoin(room: Room) -> None:
    first, second = (room.known_id(session=120_000) for _ in range(2))
    room.send_join(first, session=120_000)
    room.send_join(second, session=120_000)
    room.pass_ms(0)
    waiting = room.send_sync(second)
    room.pass_ms(60_000)
    assert room.answer(waiting).error is ErrorCode.rebalance_in_progress
    assert first not in room.group.members
    ticket = room.send_join(second, session=120_000)
    assert room.answer(ticket).leader == second


def test_a_group_whose_members_have_all_expired_is_empty_and_says_so_in_the_log(room: Room) -> None:
    room.stable(2, session=10_000)
    records = len(room.log)
    room.pass_ms(10_000)
    assert room.group.state is State.EMPTY
    assert room.group.generation == 2
    assert len(room.log) == records + 1


def test_an_idle_group_has_no_wake_up(room: Room) -> None:
    room.stable(2, session=10_000)
    room.pass_ms(10_000)
    assert room.group.wake_at is None
