"""Heartbeats of a streams group: delays, epochs, restarts, members and topics in any order."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.groups.group import HeartbeatRefused
from headwater.broker.groups.streams.heartbeat import Beat
from headwater.broker.groups.streams.member import Assignment, Endpoint, each_task
from headwater.broker.groups.streams.status import StatusCode

from .theatre import Player, Theatre, settle

ALL = {(id, number) for id in "01" for number in range(4)}


def test_the_first_member_gets_every_task() -> None:
    theatre = Theatre()
    member = theatre.player("a")
    answer = member.join()
    assert (answer.epoch, answer.statuses) == (2, ())
    assert member.active == ALL
    assert theatre.group.state_name == "Stable"
    assert member.beat().assignment is None, "nothing has changed"


def test_a_first_assignment_waits_for_more_members() -> None:
    theatre = Theatre(initial_delay_ms=3_000)
    first, second = theatre.player("a"), theatre.player("b")
    answer = first.join()
    assert [each.code for each in answer.statuses] == [StatusCode.ASSIGNMENT_DELAYED]
    assert answer.epoch == 1, "not 0, which would be to join again"
    theatre.ms += 1_000
    second.join()
    assert theatre.group.state_name == "Assigning"
    theatre.ms += 2_000
    settle(first, second)
    assert len(first.active) == len(second.active) == 4
    third = theatre.player("c")
    assert third.join().statuses == (), "the group has members: nothing waits"


def test_assignments_come_no_more_often_than_the_interval() -> None:
    theatre = Theatre(assignment_interval_ms=1_000)
    first, second = theatre.player("a"), theatre.player("b")
    first.join()
    answer = second.join()
    assert [each.code for each in answer.statuses] == [StatusCode.ASSIGNMENT_DELAYED]
    assert theatre.group.wake_at == theatre.ms + 1_000
    theatre.ms += 1_000
    assert second.beat().statuses == ()
    settle(first, second)
    assert first.active | second.active == ALL


def test_a_lost_answer_does_not_cost_a_member_its_place() -> None:
    theatre = Theatre()
    first = theatre.player("a")
    first.join()
    theatre.player("b").join()
    old, had = first.epoch, first.owned
    first.beat()
    first.let_go()
    first.beat()
    assert first.epoch > old
    again = theatre.beat(Beat("a", old, owned=first.owned))
    assert again.epoch == first.epoch
    with pytest.raises(HeartbeatRefused) as refused:
        theatre.beat(Beat("a", old, owned=had))
    assert refused.value.error is ErrorCode.fenced_member_epoch


def test_a_full_group_takes_no_more_members_and_keeps_those_it_has() -> None:
    theatre = Theatre(max_size=1)
    first = theatre.player("a")
    first.join()
    with pytest.raises(HeartbeatRefused) as refused:
        theatre.player("b").join()
    assert refused.value.error is ErrorCode.group_max_size_reached
    assert first.join().epoch == first.epoch, "a member may join again"


def test_a_process_never_has_a_task_twice() -> None:
    """A standby of the process must be gone before the task becomes active in its other thread."""
    theatre = Theatre(standbys=1)
    threads = [theatre.player("a1", "p"), theatre.player("a2", "p")]
    other = theatre.player("b", "q")
    for player in (*threads, other):
        player.join()
    settle(*threads, other)
    theatre.leave("b")
    for _ in range(6):
        for player in threads:
            player.beat()
            held = [task for each in threads for role in each.told for task in each_task(role)]
            assert len(held) == len(set(held))
        for player in threads:
            player.let_go()
    settle(*threads)
    assert threads[0].active | threads[1].active == ALL


def test_queries_hear_of_other_tasks_when_these_have_changed() -> None:
    theatre = Theatre()
    first = theatre.player("a", endpoint=Endpoint("h", 1))
    answer = first.join()
    assert answer.endpoints is not None
    ((endpoint, active, standby),) = answer.endpoints
    assert endpoint == ("h", 1)
    assert dict(active) == {"lines": (0, 1, 2, 3), "words": (0, 1, 2, 3)}
    assert standby == ()
    known = answer.endpoint_epoch
    assert first.beat(endpoint_epoch=known).endpoints is None
    theatre.player("b").join()
    assert first.beat(endpoint_epoch=known).endpoint_epoch > known


def test_a_new_topology_waits_until_its_group_is_gone() -> None:
    theatre = Theatre()
    theatre.player("a").join()
    theatre.leave("a")
    from dataclasses import replace

    other = replace(theatre.topology, epoch=1)
    with pytest.raises(HeartbeatRefused) as refused:
        theatre.player("b", topology=other).join()
    assert refused.value.message == "Topology updates are not supported yet."


def test_a_restart_goes_on_where_it_was() -> None:
    theatre = Theatre(standbys=1)
    players = [theatre.player(each) for each in "abc"]
    for player in players:
        player.join()
    settle(*players)
    epochs = [player.epoch for player in players]
    before = theatre.group
    theatre.restart()
    assert theatre.group.owners == before.owners
    assert theatre.group.copies == before.copies
    assert theatre.group.target == before.target
    assert theatre.group.state_name == "Stable"
    for player in players:
        answer = player.beat()
        assert (answer.assignment, answer.statuses) == (None, ())
    assert [player.epoch for player in players] == epochs, "nobody has noticed"


@pytest.mark.parametrize("seed", range(40))
def test_in_any_order_no_task_has_two_owners_and_all_end_with_one(seed: int) -> None:
    random = Random(seed)
    theatre = Theatre(standbys=random.randrange(3))
    players: dict[str, Player] = {}
    for _ in range(120):
        _something(random, theatre, players)
        owners = [task for player in players.values() for task in player.active]
        assert len(owners) == len(set(owners)), f"two have a task (seed {seed})"
    if not players:
        players["z"] = theatre.player("z")
        players["z"].join()
    settle(*players.values())
    counts = [len(player.active) for player in players.values()]
    wanted = {(id, n) for id in "01" for n in range(theatre.image.topics["lines"].partitions)}
    assert set().union(*(player.active for player in players.values())) == wanted
    if len({player.process_id for player in players.values()}) == len(players):
        assert max(counts) - min(counts) <= 1


def _something(random: Random, theatre: Theatre, players: dict[str, Player]) -> None:
    choice = random.randrange(12)
    if choice == 0 and len(players) < 6:
        name = f"m{random.randrange(10**6)}"
        players[name] = theatre.player(name, f"p{random.randrange(4)}")
        players[name].join()
    elif choice == 1 and players:
        name = random.choice(sorted(players))
        theatre.leave(name)
        del players[name]
    elif choice == 2 and random.random() < 0.2:
        theatre.restart()
    elif choice == 3 and random.random() < 0.2:
        count = theatre.image.topics["lines"].partitions + 1
        for name in ("lines", "words", "counts"):
            theatre.image.put(name, count)
    elif players:
        player = players[random.choice(sorted(players))]
        if random.random() < 0.5:
            player.let_go()
        player.beat()


def test_what_a_member_owns_must_be_a_task() -> None:
    theatre = Theatre()
    member = theatre.player("a")
    member.join()
    member.owned = Assignment({"1": frozenset({9})})
    with pytest.raises(HeartbeatRefused) as refused:
        member.beat()
    assert refused.value.error is ErrorCode.invalid_request
