"""The classic group protocol at the level of bytes: join, sync, heartbeat, leave, fencing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .asking import Member, find_coordinator, subscription
from .cluster import Cluster
from .wire import ErrorCode, Wire


@pytest.fixture
def new_member(cluster: Cluster, group: str) -> Iterator[Callable[..., Member]]:
    """Members of the test's group, each on a connection of its own."""
    with ExitStack() as open_connections:

        def make(**join: Any) -> Member:
            wire = open_connections.enter_context(cluster.wire())
            find_coordinator(wire, group)
            return Member(wire, group, **join)

        yield make


def alone(member: Member) -> Member:
    """Joined and synced as the only member."""
    assert member.join().error_code is ErrorCode.none
    assert member.sync({member.member_id: b"all"}).assignment == b"all"
    return member


def ask_to_join(newcomer: Member) -> None:
    """Up to the join that is answered when the rebalance is over."""
    newcomer.send_join()
    if newcomer.options.get("group_instance_id") is None:
        assert newcomer.receive_join().error_code is ErrorCode.member_id_required
        newcomer.send_join()


def together(
    first: Member, *newcomers: Member, plan: Callable[[Member], bytes] = lambda each: b""
) -> None:
    """The first is (or becomes) the leader; the newcomers join it and all are synced."""
    if first.generation < 0:
        alone(first)
    for each in newcomers:
        ask_to_join(each)
    first.until_heartbeat(ErrorCode.rebalance_in_progress)
    first.send_join()
    members = (first, *newcomers)
    answers = [each.receive_join() for each in members]
    assert {each.error_code for each in answers} == {ErrorCode.none}
    assert {each.leader for each in answers} == {first.member_id}
    for each in members:
        each.send_sync({one.member_id: plan(one) for one in members} if each is first else None)
    for each in members:
        synced = each.wire.receive()[1]
        assert (synced.error_code, synced.assignment) == (ErrorCode.none, plan(each))


def test_a_new_member_is_told_its_id_first(new_member: Callable[..., Member]) -> None:
    member = new_member()
    member.send_join()
    answer = member.receive_join()
    assert answer.error_code is ErrorCode.member_id_required
    assert answer.member_id
    assert answer.generation_id == -1
    member.send_join()
    joined = member.receive_join()
    assert (joined.error_code, joined.member_id) == (ErrorCode.none, answer.member_id)
    assert (joined.generation_id, joined.leader) == (1, joined.member_id)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [each.metadata for each in joined.members] == [subscription()]


def test_only_the_leader_sees_the_members(new_member: Callable[..., Member]) -> None:
    first = alone(new_member())
    second = new_member()
    ask_to_join(second)
    first.until_heartbeat(ErrorCode.rebalance_in_progress)
    first.send_join()
    answers = [first.receive_join(), second.receive_join()]
    assert [len(each.members) for each in answers] == [2, 0]
    assert {each.generation_id for each in answers} == {2}


def test_assignments_reach_each_member(new_member: Callable[..., Member]) -> None:
    first = alone(new_member())
    second = new_member()
    ask_to_join(second)
    first.until_heartbeat(ErrorCode.rebalance_in_progress)
    first.join()
    second.receive_join()
    second.send_sync()
    mine = first.sync({first.member_id: b"one", second.member_id: b"two"})
    theirs = second.wire.receive()[1]
    assert (mine.assignment, theirs.assignment) == (b"one", b"two")
    assert (theirs.protocol_type, theirs.protocol_name) == ("consumer", "range")


def test_heartbeat_answers_what_the_member_must_know(new_member: Callable[..., Member]) -> None:
    member = alone(new_member())
    assert member.heartbeat() is ErrorCode.none
    assert member.heartbeat(generation_id=9) is ErrorCode.illegal_generation
    assert member.heartbeat(member_id="stranger") is ErrorCode.unknown_member_id
    assert member.heartbeat(group_id="") is ErrorCode.invalid_group_id
    assert member.heartbeat(group_id="no-such-group-at-all") is ErrorCode.unknown_member_id


def test_sync_answers_what_the_member_must_know(new_member: Callable[..., Member]) -> None:
    member = alone(new_member())
    assert member.sync(generation_id=9).error_code is ErrorCode.illegal_generation
    assert member.sync(member_id="stranger").error_code is ErrorCode.unknown_member_id
    wrong_type = member.sync(protocol_type="connect")
    assert wrong_type.error_code is ErrorCode.inconsistent_group_protocol
    wrong_name = member.sync(protocol_name="roundrobin")
    assert wrong_name.error_code is ErrorCode.inconsistent_group_protocol
    again = member.sync()
    assert (again.error_code, again.assignment) == (ErrorCode.none, b"all")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        (
            {"protocols": [{"name": "other", "metadata": subscription()}]},
            ErrorCode.inconsistent_group_protocol,
        ),
        ({"protocols": []}, ErrorCode.inconsistent_group_protocol),
        ({"session_timeout": 1}, ErrorCode.invalid_session_timeout),
        ({"session_timeout": 2**31 - 1}, ErrorCode.invalid_session_timeout),
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
    ],
)
def test_joins_that_cannot_be_are_refused(
    new_member: Callable[..., Member], changes: dict[str, Any], expected: ErrorCode
) -> None:
    alone(new_member())
    other = new_member()
    answer = other.join(**changes)
    assert answer.error_code is expected
    assert answer.generation_id == -1


def test_the_first_member_needs_a_protocol(new_member: Callable[..., Member]) -> None:
    answer = new_member().join(protocols=[])
    assert answer.error_code is ErrorCode.inconsistent_group_protocol
    answer = new_member().join(protocol_type="")
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


def test_the_protocol_is_one_that_all_members_know(new_member: Callable[..., Member]) -> None:
    one, two, three = (subscription(note=each) for each in (b"1", b"2", b"3"))
    both = [{"name": "sticky", "metadata": one}, {"name": "range", "metadata": two}]
    first = new_member(protocols=both)
    assert first.join().protocol_name == "sticky"
    first.sync({first.member_id: b""}, protocol_name="sticky")
    second = new_member(protocols=[{"name": "range", "metadata": three}])
    ask_to_join(second)
    first.until_heartbeat(ErrorCode.rebalance_in_progress)
    answer = first.join()
    assert answer.protocol_name == second.receive_join().protocol_name == "range"
    assert sorted(each.metadata for each in answer.members) == [two, three]


def test_an_old_generation_is_fenced(
    cluster: Cluster, new_member: Callable[..., Member], topic: str
) -> None:
    cluster.create_topic(topic)
    member = alone(new_member())
    old = member.generation
    together(member, new_member())
    assert member.generation > old
    assert member.heartbeat(generation_id=old) is ErrorCode.illegal_generation
    stale = member.commit(topic, 1, generation_id_or_member_epoch=old)
    assert stale is ErrorCode.illegal_generation
    assert member.sync(generation_id=old).error_code is ErrorCode.illegal_generation


def test_a_member_that_leaves_starts_a_rebalance(new_member: Callable[..., Member]) -> None:
    first, second = alone(new_member()), new_member()
    together(first, second)
    answer = second.leave()
    assert (answer.error_code, answer.members[0].error_code) == (ErrorCode.none, ErrorCode.none)
    first.until_heartbeat(ErrorCode.rebalance_in_progress)
    assert len(first.join().members) == 1
    again = second.leave()
    assert again.members[0].error_code is ErrorCode.unknown_member_id


def test_a_silent_member_is_dropped_after_its_session(new_member: Callable[..., Member]) -> None:
    first = alone(new_member())
    silent = new_member(session_timeout=800)
    together(first, silent)
    first.until_heartbeat(ErrorCode.rebalance_in_progress)
    assert len(first.join().members) == 1
    assert silent.heartbeat() is ErrorCode.unknown_member_id


def test_a_member_that_does_not_rejoin_is_dropped(new_member: Callable[..., Member]) -> None:
    """Its session lives on by heartbeats; the rebalance time-out is what ends it."""
    first = alone(new_member(rebalance_timeout=700))
    slow = new_member(rebalance_timeout=700)
    together(first, slow)
    newcomer = new_member(rebalance_timeout=700)
    ask_to_join(newcomer)
    first.until_heartbeat(ErrorCode.rebalance_in_progress)
    answer = first.join()
    assert newcomer.receive_join().error_code is ErrorCode.none
    assert len(answer.members) == 2
    assert slow.heartbeat() is ErrorCode.unknown_member_id


def test_a_rejoining_follower_with_nothing_new_does_not_rebalance(
    new_member: Callable[..., Member],
) -> None:
    leader, follower = new_member(), new_member()
    together(leader, follower)
    before = follower.generation
    assert follower.join().generation_id == before
    assert leader.heartbeat() is ErrorCode.none


def test_a_leader_that_rejoins_starts_a_rebalance(new_member: Callable[..., Member]) -> None:
    leader, follower = new_member(), new_member()
    together(leader, follower)
    leader.send_join()
    follower.until_heartbeat(ErrorCode.rebalance_in_progress)
    before = follower.generation
    assert follower.join().generation_id == before + 1
    assert leader.receive_join().generation_id == before + 1


def test_a_static_member_comes_back_without_a_rebalance(
    new_member: Callable[..., Member],
) -> None:
    leader, follower = (new_member(group_instance_id=each) for each in ("desk-1", "desk-2"))
    together(leader, follower, plan=lambda each: each.options["group_instance_id"].encode())
    for gone in (follower, leader):
        name = gone.options["group_instance_id"]
        back = new_member(group_instance_id=name)
        answer = back.join()
        assert (answer.error_code, answer.generation_id) == (ErrorCode.none, gone.generation)
        assert answer.member_id != gone.member_id
        assert back.sync().assignment == name.encode()


def test_the_second_of_two_with_one_instance_id_fences_the_first(
    cluster: Cluster, new_member: Callable[..., Member], topic: str
) -> None:
    cluster.create_topic(topic)
    first = alone(new_member(group_instance_id="desk-1"))
    second = new_member(group_instance_id="desk-1")
    answer = second.join()
    assert answer.error_code is ErrorCode.none
    assert first.heartbeat() is ErrorCode.fenced_instance_id
    assert first.sync().error_code is ErrorCode.fenced_instance_id
    stale = first.commit(topic, 1, group_instance_id="desk-1")
    assert stale is ErrorCode.fenced_instance_id
    first.send_join()
    assert first.receive_join().error_code is ErrorCode.fenced_instance_id


def test_a_static_member_is_removed_by_name(new_member: Callable[..., Member]) -> None:
    member = alone(new_member(group_instance_id="desk-1"))
    wire = member.wire
    gone = [{"member_id": "", "group_instance_id": "desk-1"}]
    answer = wire.ask("leave_group", 5, group_id=member.group, members=gone)
    assert answer.members[0].error_code is ErrorCode.none
    again = wire.ask("leave_group", 5, group_id=member.group, members=gone)
    assert again.members[0].error_code is ErrorCode.unknown_member_id


def test_find_coordinator_answers_for_many_groups(wire: Wire, group: str) -> None:
    find_coordinator(wire, group)
    keys = [f"{group}-{each}" for each in range(3)]
    answer = wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=keys)
    assert [each.key for each in answer.coordinators] == keys
    (node,) = {each.node_id for each in answer.coordinators}
    assert node == wire.ask("metadata", 9, topics=[]).brokers[0].node_id
    assert {each.error_code for each in answer.coordinators} == {ErrorCode.none}


def test_find_coordinator_of_an_unknown_kind_is_invalid(wire: Wire, group: str) -> None:
    answer = wire.ask("find_coordinator", 4, key_type=9, coordinator_keys=[group])
    codes = {each.error_code for each in answer.coordinators} | {
        getattr(answer, "error_code", None)
    }
    assert ErrorCode.invalid_request in codes
