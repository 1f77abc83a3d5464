"""Sender and receivers on a lossy network: every message arrives, or is named within a gap. From seeds."""

from __future__ import annotations

import random

import pytest

from headwater.edges.multicast.packets import Data, Heartbeat, Message, encode
from headwater.edges.multicast.receiver import Arrived, Gap, Joined, Patience, Session
from headwater.edges.multicast.sender import Holding, Sender
from headwater.edges.multicast.sessions import SESSIONS_MAX, Resumed, Sessions
from tests.edges.multicast.lossy import Weather, World

AWFUL = Weather(drop=0.3, duplicate=0.1, delay_s=0.02)
CALM = Weather()


def numbers(events: list[object]) -> list[int | tuple[int, int]]:
    return [e.sequence if isinstance(e, Arrived) else (e.first, e.last) for e in events]  # type: ignore[attr-defined]


def data(sequence: int, oldest: int = 1) -> Data:
    return Data(1, sequence, oldest, Message(b"%d" % sequence))


def session(expected: int = 1, **patience: float) -> Session:
    return Session(1, expected, Patience(**patience), 0.0, lambda: 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_a_live_sender_with_room_loses_nothing_whatever_the_network_does(seed: int):
    draw = random.Random(seed)
    weather = Weather(draw.random() * 0.4, draw.random() * 0.3, draw.random() * 0.05)
    world = World(seed, weather)
    first, second = world.receiver(), world.receiver()
    for _ in range(5):
        world.run(draw.random() * 0.2, each_step=draw.randrange(3))
    world.send()
    world.settle()
    for each in (first, second):
        world.check(each, last=world.sender.last)  # type: ignore[union-attr]
        assert each.gaps == [], f"seed {seed}"
    assert world.network.dropped or weather.drop < 0.02


@pytest.mark.parametrize("seed", range(12))
def test_what_the_sender_no_longer_holds_is_named_and_nothing_else_is(seed: int):
    world = World(seed, AWFUL, Holding(held_bytes_max=3_000, hold_s=0))
    receiver = world.receiver()
    world.run(0.6, each_step=2)
    world.settle()
    world.check(receiver, last=1200)
    assert {gap.reason for gap in receiver.gaps} <= {"the sender no longer holds it"}
    assert receiver.gaps, f"seed {seed}: 40 packets held and 30 % lost, and no gap"


@pytest.mark.parametrize("seed", range(6))
def test_a_sender_that_dies_leaves_gaps_as_far_as_it_was_heard(seed: int):
    world = World(seed, AWFUL)
    receiver = world.receiver(silence_s=1.0)
    world.run(0.05, each_step=4)
    world.sender = None
    world.settle()
    world.run(1.5)
    heard = max(e.sequence for e in receiver.events if isinstance(e, Arrived))
    world.check(receiver, last=heard)
    assert {gap.reason for gap in receiver.gaps} <= {"the sender fell silent"}


@pytest.mark.parametrize("seed", range(6))
def test_a_restarted_sender_is_a_new_session_with_its_own_numbers(seed: int):
    world = World(seed, AWFUL)
    receiver = world.receiver(silence_s=1.0)
    world.run(0.1, each_step=1)
    world.settle()
    world.sender = Sender(2, world.holding)
    world.run(0.1, each_step=1)
    world.settle()
    world.check(receiver, session=1, last=100)
    world.check(receiver, session=2, last=100)
    assert receiver.gaps == []


@pytest.mark.parametrize("seed", range(8))
def test_what_a_killed_sender_took_with_it_is_named_once_it_is_back(seed: int):
    """Even its last messages, of which nobody heard: the next start tells how far it came."""
    world = World(seed, AWFUL)
    one, two = world.receiver(silence_s=60), world.receiver(silence_s=60)
    world.run(0.1, each_step=1)
    world.receivers.remove(two)  # deaf from here on
    world.run(0.05, each_step=1)
    world.receivers.append(two)
    world.sender = Sender(2, world.holding, previous=((1, 150),))
    world.run(0.1, each_step=1)
    world.settle()
    for each in (one, two):
        world.check(each, session=1, last=150)
        world.check(each, session=2, last=100)
        assert {gap.session for gap in each.gaps} <= {1}
    assert two.gaps[-1].last == 150


def test_a_whole_session_of_which_nothing_was_heard_is_named_too():
    world = World(1, CALM)
    receiver = world.receiver()
    world.send(10)
    world.settle()
    world.sender = Sender(3, world.holding, previous=((1, 10), (2, 99_999)))
    world.run(0.1, each_step=1)
    world.settle()
    world.check(receiver, session=1, last=10)
    world.check(receiver, session=2, last=99_999)
    world.check(receiver, session=3, last=100)
    assert receiver.gaps == [Gap(2, 1, 99_999, "the sender was restarted")]


def test_sessions_before_a_receiver_was_there_are_no_concern_of_it():
    world = World(1, CALM)
    receiver = world.receiver()
    world.sender = Sender(3, world.holding, previous=((1, 10), (2, 99)))
    world.run(0.1, each_step=1)
    world.settle()
    assert receiver.gaps == []
    assert receiver.joined == [Joined(3, 1)]


def test_a_restarted_receiver_hears_how_the_session_that_it_knew_ended():
    world = World(1, CALM)
    receiver = world.receiver(resumed={1: Resumed(5, [6, 8])})
    world.sender = Sender(2, world.holding, previous=((1, 9),))
    world.run(0.2)
    assert receiver.events == [Gap(1, n, n, "the sender was restarted") for n in (5, 7, 9)]


def test_a_session_heard_of_too_late_by_one_who_was_there_begins_with_a_gap():
    heard = Sessions(Patience(), resumed={1: Resumed(8)})
    assert heard.heard(encode(Data(2, 50, 50, Message(b""))), ("h", 1), 0.0)[0] == Joined(2, 50)
    beat = encode(Heartbeat(2, 50, 50, previous=((1, 7),)))
    assert heard.heard(beat, ("h", 1), 0.0) == [Gap(2, 1, 49, "it was heard of too late")]
    assert heard.heard(beat, ("h", 1), 0.0) == []


def test_a_receiver_that_comes_later_begins_with_what_is_still_held():
    world = World(1, CALM, Holding(held_bytes_max=3_000, hold_s=0))
    world.run(0.1, each_step=2)
    late = world.receiver()
    world.settle()
    world.run(0.1, each_step=2)
    world.settle()
    assert late.gaps == []
    begun = late.events[0]
    assert isinstance(begun, Arrived) and 1 < begun.sequence < 201
    assert late.joined == [Joined(1, begun.sequence)]
    world.check(late, first=begun.sequence, last=400)


@pytest.mark.parametrize("seed", range(6))
def test_a_restarted_receiver_goes_on_where_the_log_says(seed: int):
    world = World(seed, AWFUL)
    before = world.receiver()
    world.run(0.2, each_step=1)
    world.receivers.remove(before)
    assert before.gaps == []
    done = len(before.events)
    world.run(0.1, each_step=1)
    after = world.receiver(resumed={1: Resumed(done + 1)})
    world.run(0.1, each_step=1)
    world.settle()
    world.check(after, first=done + 1, last=400)
    assert after.gaps == []


def test_a_receiver_that_was_away_too_long_names_what_it_missed():
    world = World(3, CALM, Holding(held_bytes_max=3_000, hold_s=0))
    world.run(0.1, each_step=2)
    after = world.receiver(resumed={1: Resumed(51)})
    world.run(0.1, each_step=1)
    world.settle()
    world.check(after, first=51, last=300)
    assert after.gaps[0].first == 51
    assert {gap.reason for gap in after.gaps} == {"the sender no longer holds it"}


def test_what_was_stored_out_of_order_before_a_restart_is_not_handed_out_again():
    """Two partitions: 5 was stored before the kill, 4 was not."""
    one = session(4)
    one.had([5, 7])
    assert numbers(one.heard(data(8), 0.0)) == []
    assert numbers(one.heard(data(4), 0.0)) == [4]
    assert numbers(one.heard(data(5), 0.0)) == []
    assert numbers(one.heard(data(6), 0.0)) == [6, 8]


def test_messages_are_held_back_until_the_one_before_them_is_there():
    one = session()
    assert numbers(one.heard(data(2), 0.0)) == []
    assert numbers(one.heard(data(3), 0.0)) == []
    assert numbers(one.heard(data(1), 0.0)) == [1, 2, 3]
    assert numbers(one.heard(data(2), 0.0)) == []
    assert one.duplicates == 1


def test_a_heartbeat_tells_of_messages_whose_packets_were_lost():
    one = session()
    one.heard(Heartbeat(1, 3, 1), 0.0)
    assert one.tick(0.001) == ([], None)
    _, ask = one.tick(0.01)
    assert ask is not None and ask.ranges == ((1, 3),)
    assert one.tick(0.011) == ([], None)
    assert one.tick(0.1)[1] == ask


def test_a_repair_under_way_is_waited_for_when_the_sender_has_let_go():
    one = session(grace_s=0.1)
    one.heard(data(2), 0.0)
    one.heard(data(9, oldest=9), 0.0)
    assert numbers(one.heard(data(1), 0.05)) == [1, 2]
    assert numbers(one.tick(0.2)[0]) == [(3, 8), 9]


def test_no_more_waits_than_the_window_allows():
    one = session(window=4)
    for each in (2, 3, 4):
        assert one.heard(data(each), 0.0) == []
    assert numbers(one.heard(data(5), 0.0)) == [(1, 1), 2, 3, 4, 5]
    assert numbers(one.heard(data(2**60), 0.0)) == [(6, 2**60 - 4)]
    assert len(one.holes) == 3


def test_no_more_bytes_wait_than_the_window_allows():
    one = session(window_bytes=1000)
    big = Message(b"x" * 600)
    assert one.heard(Data(1, 2, 1, big), 0.0) == []
    assert numbers(one.heard(Data(1, 4, 1, big), 0.0)) == [(1, 1), 2]
    assert one.waiting_bytes <= 1000


def test_a_receiver_that_is_never_answered_gives_up():
    one = session()
    one.heard(data(2), 0.0)
    now, events = 0.0, []
    while not events:
        now += 0.01
        one.heard(Heartbeat(1, 2, 1), now)  # alive, but deaf
        events, _ = one.tick(now)
        assert now < 20
    assert events[0] == Gap(1, 1, 1, "the sender did not send it again")


def test_a_sender_that_only_pauses_is_not_given_up_for_its_silence_in_between():
    one = session(silence_s=60)
    one.heard(data(2), 0.0)
    for step in range(1, 5000):
        assert one.tick(step / 100)[0] == []
    assert numbers(one.heard(data(1), 50.0)) == [1, 2]


def test_so_many_senders_are_known_and_no_more():
    all_of_them = Sessions(Patience())
    for number in range(1, SESSIONS_MAX + 1):
        packet = encode(Data(number, 2, 1, Message(b"")))
        assert all_of_them.heard(packet, ("h", 1), 0.0) == [Joined(number, 1)]
    found = all_of_them.heard(encode(Data(9999, 1, 1, Message(b""))), ("h", 1), 0.0)
    assert [type(each) for each in found] == [Gap, Arrived, Joined, Arrived]
    assert all_of_them.status()["sessions"] == SESSIONS_MAX
    again = all_of_them.heard(encode(Data(1, 2, 1, Message(b""))), ("h", 1), 0.0)
    assert [each for each in again if each.session == 1] == []  # it was all handed out before


def test_the_sender_waits_where_young_packets_fill_its_buffer():
    sender = Sender(1, Holding(held_bytes_max=1000, hold_s=2.0))
    now = 10.0
    while sender.wait_s(100, now) == 0.0:
        sender.take(Message(b"x" * 40), now)
    assert sender.oldest == 1
    assert sender.wait_s(100, 11.0) == pytest.approx(1.0)
    assert sender.wait_s(100, 12.0) == 0.0


@pytest.mark.soak
def test_many_more_seeds():
    for seed in range(1000, 1200):
        test_a_live_sender_with_room_loses_nothing_whatever_the_network_does(seed)
        test_what_the_sender_no_longer_holds_is_named_and_nothing_else_is(seed)
        test_a_sender_that_dies_leaves_gaps_as_far_as_it_was_heard(seed)
        test_a_restarted_sender_is_a_new_session_with_its_own_numbers(seed)
        test_what_a_killed_sender_took_with_it_is_named_once_it_is_back(seed)
        test_a_restarted_receiver_goes_on_where_the_log_says(seed)


def test_a_canary_a_receiver_that_hands_out_at_once_is_found_out():
    """The check itself: had it nothing to say about this, it would say nothing about anything."""
    world = World(1, AWFUL)
    receiver = world.receiver()
    world.run(0.2, each_step=1)
    world.settle()
    receiver.events[10], receiver.events[11] = receiver.events[11], receiver.events[10]
    with pytest.raises(AssertionError, match="seed 1"):
        world.check(receiver, last=200)
