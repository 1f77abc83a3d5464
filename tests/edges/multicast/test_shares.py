"""What senders and askers of one group have in common: who is greedy leaves some of it for the others."""

from __future__ import annotations

from headwater.edges.multicast.packets import ASKED_MAX, Ask, Heartbeat, Message, encode
from headwater.edges.multicast.receiver import Gap, Patience
from headwater.edges.multicast.sender import REPAIR_BURST_S, Holding, Sender
from headwater.edges.multicast.sessions import SESSIONS_MAX, Sessions

PACKET = 1000


def filled(repair_bytes_per_s: float, value_bytes: int = PACKET) -> Sender:
    sender = Sender(7, Holding(repair_bytes_per_s=repair_bytes_per_s))
    for _ in range(ASKED_MAX):
        sender.take(Message(None, bytes(value_bytes)), 0.0)
    return sender


def test_who_asks_for_much_leaves_repairs_for_others():
    sender = filled(100 * PACKET / REPAIR_BURST_S)
    ask = Ask(7, [(1, ASKED_MAX)])
    greedy = sum(len(sender.asked(ask, 1.0, "10.0.0.1")) for _ in range(10))
    other = len(sender.asked(ask, 1.0, "10.0.0.2"))
    assert greedy > 50 and other > 5
    assert len(sender.asked(ask, 1.0 + REPAIR_BURST_S, "10.0.0.1")) > 50, "a moment later, again"


def test_a_packet_that_takes_all_of_a_moment_is_repaired_nevertheless():
    sender = filled(1.2 * PACKET / REPAIR_BURST_S)
    assert len(sender.asked(Ask(7, [(1, 1)]), 1.0, "10.0.0.1")) == 1


def test_who_opens_many_sessions_ends_nobody_elses():
    sessions = Sessions(Patience())
    beat = lambda number: encode(Heartbeat(number, 5, 1, False, ()))  # noqa: E731
    sessions.heard(beat(1), ("10.0.0.2", 1), 0.0)
    for number in range(2, 3 * SESSIONS_MAX):
        events = sessions.heard(beat(number), ("10.0.0.1", number), 1.0)
        assert not any(isinstance(each, Gap) and each.session == 1 for each in events)
    assert 1 in sessions._open and len(sessions._open) == SESSIONS_MAX
