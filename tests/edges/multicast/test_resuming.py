"""Where a receiver goes on after a restart, from what the log has of it."""

from __future__ import annotations

from headwater.edges.multicast.listener import TAKEN_MAX
from headwater.edges.multicast.packets import Message
from headwater.edges.multicast.receiver import Arrived, Gap, Joined
from headwater.edges.multicast.resumption import Place, event_of, folded, message_of, place_of
from headwater.edges.multicast.sessions import Resumed


def places(*sequences: int) -> list[Place]:
    return [Place(7, each) for each in sequences]


def test_a_receiver_goes_on_after_the_last_that_is_stored():
    assert folded(places(3, 1, 2), [Joined(7, 1)]) == {7: Resumed(4, [])}


def test_one_that_only_joined_begins_there():
    assert folded([], [Joined(7, 40)]) == {7: Resumed(40, [])}


def test_what_one_partition_lacks_of_the_last_batch_is_asked_for_again():
    assert folded(places(1, 2, 4, 6), [Joined(7, 1)]) == {7: Resumed(3, [4, 6])}


def test_the_first_of_a_session_may_lack_too():
    assert folded(places(41), [Joined(7, 40)]) == {7: Resumed(40, [41])}


def test_gaps_are_not_asked_for_again():
    events = [Joined(7, 1), Gap(7, 2, 3, "x"), Gap(7, 5, 9, "x")]
    assert folded(places(1, 4), events) == {7: Resumed(10, [])}


def test_no_further_back_than_the_last_batch():
    stored = places(*range(5000, 5000 + TAKEN_MAX))
    assert folded(stored, []) == {7: Resumed(5000 + TAKEN_MAX, [])}
    assert folded([], [Gap(7, 1, 2**60, "x")]) == {7: Resumed(2**60 + 1, [])}


def test_sessions_are_apart():
    both = [Place(1, 5), Place(2, 9)]
    assert folded(both, [Joined(1, 5), Joined(2, 9)]) == {1: Resumed(6, []), 2: Resumed(10, [])}


def test_events_come_back_from_the_records_that_they_became():
    arrived = message_of(Arrived(255, 17, Message(b"v", b"k", (("h", None),), 1234)))
    assert (arrived.key, arrived.value, arrived.timestamp_ms) == (b"k", b"v", 1234)
    assert arrived.id == "00000000000000ff-17"
    assert dict(arrived.headers)["h"] is None
    assert place_of(arrived.headers) == Place(255, 17)
    for event in (Joined(255, 3), Gap(255, 3, 9, "why")):
        told = message_of(event)
        assert told.beside == ".gaps"
        assert event_of(told.value) == event


def test_records_that_came_another_way_are_passed_over():
    assert place_of([("a", b"b")]) is None
    assert place_of([("multicast-session", None), ("multicast-sequence", b"x")]) is None
    assert (
        event_of(None) is event_of(b"{}") is event_of(b'{"session": 5}') is event_of(b"[]") is None
    )
