"""KIP-345: members that keep their place over a restart of their process."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import State
from headwater.broker.groups.records import read_group_value
from headwater.broker.groups.snapshot import restored
from headwater.broker.groups.sync import Identity

from .room import Room, subscription


def test_a_static_member_joins_without_asking_for_an_id_first(room: Room) -> None:
    ticket = room.send_join(instance="i1")
    room.pass_ms(0)
    assert room.answer(ticket).error is ErrorCode.none
    assert room.answer(ticket).member_id.startswith("i1-")


def test_a_returning_static_member_gets_a_new_id_and_no_rebalance(room: Room) -> None:
    old = room.stable_static("i1", "i2")
    answer = room.answer(room.send_join(instance="i2"))
    assert answer.error is ErrorCode.none
    assert answer.member_id != old["i2"]
    assert (answer.generation, answer.leader) == (1, old["i1"])
    assert room.group.state is State.STABLE


def test_a_returning_static_member_has_its_old_assignment(room: Room) -> None:
    old = room.stable_static("i1", "i2")
    new_id = room.answer(room.send_join(instance="i2")).member_id
    synced = room.answer(room.send_sync(new_id, instance="i2"))
    assert synced.assignment == old["i2"].encode()


def test_a_returning_static_leader_is_told_to_skip_the_assignment(room: Room) -> None:
    room.stable_static("i1", "i2")
    answer = room.answer(room.send_join(instance="i1"))
    assert answer.leader == answer.member_id
    assert answer.skip_assignment
    assert len(answer.members) == 2


def test_an_older_client_that_returns_does_not_learn_that_it_leads(room: Room) -> None:
    old = room.stable_static("i1", "i2")
    answer = room.answer(room.send_join(instance="i1", version=8))
    assert answer.leader == old["i1"] != answer.member_id
    assert answer.members == ()
    assert not answer.skip_assignment


def test_the_new_id_is_durable_before_the_member_hears_of_it(room: Room) -> None:
    room.stable_static("i1")
    room.hold = True
    ticket = room.send_join(instance="i1")
    assert room.answer(ticket) is None
    room.write()
    assert room.answer(ticket).error is ErrorCode.none


def test_if_the_new_id_cannot_be_stored_the_old_one_stays(room: Room) -> None:
    old = room.stable_static("i1")
    room.hold = True
    ticket = room.send_join(instance="i1", session=99_000)
    room.fail()
    assert room.answer(ticket).error is ErrorCode.not_coordinator
    assert room.group.static_ids == old
    assert room.group.members[old["i1"]].session_timeout_ms == 10_000
    assert room.heartbeat(old["i1"], "i1") is ErrorCode.none


def test_a_static_member_that_returns_with_other_topics_is_taken_at_its_word(room: Room) -> None:
    room.stable_static("i1", protocols=[("range", subscription("old"))])
    room.hold = True
    ticket = room.send_join(instance="i1", protocols=[("range", subscription("new"))])
    assert room.group.subscribed == {frozenset({"old"})}  # the log does not say otherwise yet
    room.write()
    assert room.answer(ticket).generation == 1
    assert room.group.subscribed == {frozenset({"new"})}
    again = restored("g", read_group_value(room.log[-1]), room.now())
    assert again.subscribed == {frozenset({"new"})}


def test_if_other_topics_cannot_be_stored_the_old_ones_stay(room: Room) -> None:
    room.stable_static("i1", protocols=[("range", subscription("old"))])
    room.hold = True
    room.send_join(instance="i1", protocols=[("range", subscription("new"))])
    room.fail()
    assert room.group.subscribed == {frozenset({"old"})}


def test_the_older_process_is_fenced(room: Room) -> None:
    old = room.stable_static("i1", "i2")
    room.send_join(instance="i2")
    fenced = ErrorCode.fenced_instance_id
    assert room.heartbeat(old["i2"], "i2") is fenced
    assert room.answer(room.send_sync(old["i2"], instance="i2")).error is fenced
    assert room.answer(room.send_join(old["i2"], instance="i2")).error is fenced
    assert room.group.commit_error(old["i2"], "i2", 1) is fenced
    left = room.answer(room.send_leave(Identity(old["i2"], "i2")))
    assert left.members == (fenced,)


def test_an_old_process_that_waits_in_join_is_fenced_at_once(room: Room) -> None:
    old = room.stable_static("i1", "i2")
    waiting = room.send_join(old["i1"], instance="i1")
    room.send_join(instance="i1")
    assert room.answer(waiting).error is ErrorCode.fenced_instance_id


def test_an_old_process_that_waits_in_sync_is_fenced_at_once(room: Room) -> None:
    room.send_join(instance="i1")
    room.send_join(instance="i2")
    room.pass_ms(0)
    waiting = room.send_sync(room.group.static_ids["i2"], instance="i2")
    room.send_join(instance="i2")
    assert room.answer(waiting).error is ErrorCode.fenced_instance_id


def test_a_static_member_that_returns_during_sync_starts_another_rebalance(room: Room) -> None:
    room.send_join(instance="i1")
    room.send_join(instance="i2")
    room.pass_ms(0)
    leader = room.group.leader
    ticket = room.send_join(instance="i2")
    assert room.group.state is State.PREPARING
    room.send_join(leader, instance="i1")
    assert room.answer(ticket).generation == 2


def test_a_static_member_that_returns_during_join_takes_part_in_it(room: Room) -> None:
    old = room.stable_static("i1", "i2")
    room.send_join(old["i1"], instance="i1")
    ticket = room.send_join(instance="i2")
    assert room.answer(ticket).generation == 2


def test_a_static_member_that_returns_with_another_protocol_starts_a_rebalance(room: Room) -> None:
    both = [("a", b""), ("b", b"")]
    room.stable_static("i1", protocols=both)
    ticket = room.send_join(instance="i1", protocols=[("b", b""), ("a", b"")])
    assert room.answer(ticket).generation == 2
    assert room.answer(ticket).protocol == "b"


def test_an_unknown_instance_id_with_a_member_id_is_refused(room: Room) -> None:
    (member,) = room.stable()
    ticket = room.send_join(member, instance="nobody")
    assert room.answer(ticket).error is ErrorCode.unknown_member_id


def test_a_rebalance_that_starts_while_the_new_id_is_stored_answers_the_join(room: Room) -> None:
    old = room.stable_static("i1", "i2")
    room.hold = True
    ticket = room.send_join(instance="i2")
    room.send_join(old["i1"], instance="i1")
    assert room.answer(ticket).generation == 2
    room.write()
    assert room.answer(ticket).generation == 2
