"""JoinGroup: who becomes a member, who leads, who is refused."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import State

from .room import Room, subscription


def test_a_new_member_is_first_told_its_id(room: Room) -> None:
    answer = room.answer(room.send_join())
    assert answer.error is ErrorCode.member_id_required
    assert answer.member_id in room.group.pending_joins
    assert not room.group.members


def test_a_client_older_than_version_4_joins_at_once(room: Room) -> None:
    ticket = room.send_join(version=3)
    room.pass_ms(0)
    assert room.answer(ticket).error is ErrorCode.none
    assert room.answer(ticket).generation == 1


def test_a_member_id_that_nobody_uses_expires_with_its_session(room: Room) -> None:
    room.known_id(session=10_000)
    room.pass_ms(9_999)
    assert room.group.pending_joins
    room.pass_ms(1)
    assert not room.group.pending_joins
    assert room.group.state is State.EMPTY


def test_an_expired_member_id_cannot_join(room: Room) -> None:
    member_id = room.known_id(session=10_000)
    room.pass_ms(10_000)
    assert room.answer(room.send_join(member_id)).error is ErrorCode.unknown_member_id


def test_only_the_leader_sees_the_members(room: Room) -> None:
    first, second = room.known_id(), room.known_id()
    tickets = [room.send_join(first), room.send_join(second)]
    room.pass_ms(0)
    leader, follower = (room.answer(ticket) for ticket in tickets)
    assert leader.leader == follower.leader == first
    assert [member.member_id for member in leader.members] == [first, second]
    assert follower.members == ()
    assert leader.generation == follower.generation == 1


def test_the_leader_sees_instance_ids_and_metadata(room: Room) -> None:
    ticket = room.send_join(instance="i1")
    room.pass_ms(0)
    (member,) = room.answer(ticket).members
    assert (member.instance_id, member.metadata) == ("i1", subscription("t"))


def test_the_first_rebalance_waits_for_the_initial_delay() -> None:
    room = Room(initial_rebalance_delay_ms=3_000)
    ticket = room.send_join(room.known_id())
    room.pass_ms(2_999)
    assert room.answer(ticket) is None
    room.pass_ms(1)
    assert room.answer(ticket).generation == 1


def test_a_member_that_comes_during_the_initial_delay_extends_it() -> None:
    #  0        2.9     3.0 (extended)   6.0
    #  first ── second ──┴──────────────▶ both answered
    room = Room(initial_rebalance_delay_ms=3_000)
    first = room.send_join(version=3)
    room.pass_ms(2_900)
    second = room.send_join(version=3)
    room.pass_ms(3_000)
    assert room.answer(first) is None
    room.pass_ms(100)
    assert room.answer(first).generation == room.answer(second).generation == 1


def test_the_initial_delay_never_exceeds_the_rebalance_time_out() -> None:
    room = Room(initial_rebalance_delay_ms=3_000)
    first = room.send_join(version=3, rebalance=7_000)
    for _ in range(7):
        room.pass_ms(1_000)
        room.send_join(version=3, rebalance=7_000)
    assert room.answer(first).generation == 1


def test_a_group_needs_a_protocol(room: Room) -> None:
    refused = ErrorCode.inconsistent_group_protocol
    assert room.answer(room.send_join(protocols=())).error is refused
    assert room.answer(room.send_join(protocol_type="")).error is refused


def test_a_member_without_a_common_protocol_is_refused(room: Room) -> None:
    room.stable(2)
    ticket = room.send_join(protocols=(("sticky", b""),))
    assert room.answer(ticket).error is ErrorCode.inconsistent_group_protocol
    ticket = room.send_join(protocol_type="connect")
    assert room.answer(ticket).error is ErrorCode.inconsistent_group_protocol


def test_the_protocol_with_most_votes_is_chosen(room: Room) -> None:
    for names in (["a", "b"], ["b", "a"], ["b", "a", "c"]):
        ticket = room.send_join(version=3, protocols=[(name, b"") for name in names])
    room.pass_ms(0)
    assert room.answer(ticket).protocol == "b"


def test_only_a_protocol_that_all_know_can_be_chosen(room: Room) -> None:
    for names in (["a", "b"], ["a", "b"], ["b"]):
        ticket = room.send_join(version=3, protocols=[(name, b"") for name in names])
    room.pass_ms(0)
    assert room.answer(ticket).protocol == "b"


def test_a_stranger_with_a_member_id_is_refused(room: Room) -> None:
    room.stable()
    assert room.answer(room.send_join("stranger")).error is ErrorCode.unknown_member_id


def test_a_follower_without_news_gets_the_current_generation(room: Room) -> None:
    leader, follower = room.stable(2)
    answer = room.answer(room.send_join(follower))
    assert (answer.generation, answer.leader, answer.members) == (1, leader, ())
    assert room.group.state is State.STABLE


def test_a_leader_that_rejoins_starts_a_rebalance(room: Room) -> None:
    leader, follower = room.stable(2)
    ticket = room.send_join(leader)
    assert room.answer(ticket) is None
    assert room.heartbeat(follower) is ErrorCode.rebalance_in_progress
    room.send_join(follower)
    assert room.answer(ticket).generation == 2


def test_a_follower_with_new_metadata_starts_a_rebalance(room: Room) -> None:
    leader, follower = room.stable(2)
    room.send_join(follower, protocols=[("range", subscription("t", "u"))])
    assert room.group.state is State.PREPARING
    assert room.heartbeat(leader) is ErrorCode.rebalance_in_progress


def test_a_new_member_starts_a_rebalance_that_ends_when_all_have_joined(room: Room) -> None:
    leader, follower = room.stable(2)
    newcomer = room.send_join(room.known_id())
    room.send_join(follower)
    assert room.answer(newcomer) is None
    room.send_join(leader)
    assert room.answer(newcomer).generation == 2
    assert len(room.group.members) == 3


def test_a_rebalance_waits_for_ids_that_were_handed_out(room: Room) -> None:
    leader, follower = room.stable(2)
    room.known_id(session=20_000)
    room.send_join(leader)
    ticket = room.send_join(follower)
    for _ in range(4):
        room.pass_ms(5_000)
    assert room.answer(ticket).generation == 2


def test_a_member_that_missed_the_answer_can_ask_again_during_sync(room: Room) -> None:
    first, second = room.known_id(), room.known_id()
    room.send_join(first)
    room.send_join(second)
    room.pass_ms(0)
    assert room.group.state is State.COMPLETING
    again = room.answer(room.send_join(first))
    assert again.generation == 1
    assert len(again.members) == 2
    assert room.answer(room.send_join(second)).members == ()
    assert room.group.state is State.COMPLETING


def test_a_join_that_is_repeated_answers_the_older_one(room: Room) -> None:
    leader, _ = room.stable(2)
    older = room.send_join(leader)
    newer = room.send_join(leader)
    assert room.answer(older).error is ErrorCode.rebalance_in_progress
    assert room.answer(newer) is None


def test_a_full_group_refuses_new_members_and_keeps_its_own() -> None:
    room = Room(group_max_size=2)
    _leader, follower = room.stable(2)
    refused = room.answer(room.send_join())
    assert refused.error is ErrorCode.group_max_size_reached
    assert refused.member_id == ""
    assert room.answer(room.send_join(follower)).error is ErrorCode.none


def test_a_group_above_a_lowered_limit_sheds_those_who_rejoin_last() -> None:
    room = Room()
    members = room.stable(3)
    room.limits = room.limits._replace(group_max_size=2)
    tickets = [room.send_join(member) for member in members]
    errors = [room.answer(ticket).error for ticket in tickets]
    assert errors == [ErrorCode.none, ErrorCode.none, ErrorCode.group_max_size_reached]


def test_ids_that_are_handed_out_are_bounded() -> None:
    room = Room(pending_members_max=2)
    room.known_id()
    last = room.known_id()
    assert room.answer(room.send_join()).error is ErrorCode.group_max_size_reached
    room.send_join(last)
    assert last in room.group.members


def test_a_dead_group_sends_members_to_look_again(room: Room) -> None:
    room.group.set_dead(True)
    assert room.answer(room.send_join()).error is ErrorCode.coordinator_not_available
