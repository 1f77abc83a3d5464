"""Copies of sealed packets, and asks in another's name: neither makes anybody hear or send anything."""

from __future__ import annotations

import socket
import time

import pytest

from headwater.edges.multicast import sockets, speaker
from headwater.edges.multicast.packets import Ask, Data, Message, Stamp, encode
from headwater.edges.multicast.receiver import Arrived, Joined, Patience
from headwater.edges.multicast.replay_window import ReplayWindow, Stamps, origin_of
from headwater.edges.multicast.sender import Holding, Sender
from headwater.edges.multicast.sessions import Sessions
from headwater.edges.multicast.speaker import Speaking
from tests.edges.multicast.sending import group, multicast_or_skip

SECRET = b"k" * 32
SENDER, MALLORY = ("10.0.0.1", 1000), ("10.0.0.66", 1000)


class Wall:
    """A clock on the wall."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_recorded_session_that_is_played_again_is_not_heard():
    wall = Wall()
    sender = Sender(7, Holding(secret=SECRET), stamps=Stamps(SENDER, wall))
    packet = sender.take(Message(b"buy"), 0.0)

    def receiver() -> Sessions:
        return Sessions(Patience(), SECRET, window=ReplayWindow(wall))

    live = receiver()
    assert [type(each) for each in live.heard(packet, SENDER, 0.0)] == [Joined, Arrived]
    assert live.heard(packet, SENDER, 0.0) == []
    assert live.status()["duplicates"] == 1

    from_elsewhere = receiver()
    assert from_elsewhere.heard(packet, MALLORY, 0.0) == []
    wall.now += 31
    later = receiver()
    assert later.heard(packet, SENDER, 0.0) == []
    assert later.status()["stale"] == from_elsewhere.status()["stale"] == 1


def test_a_clock_that_goes_back_does_not_stop_asks_and_copies_of_them_stay_copies():
    wall = Wall()
    window, stamps = ReplayWindow(wall), Stamps(SENDER, wall)
    first = stamps.next()
    assert window.is_new(first, SENDER) and not window.is_new(first, SENDER)
    wall.now -= 20
    second = stamps.next()
    assert window.is_new(second, SENDER)
    assert not window.is_new(first, SENDER)
    assert not window.is_new(Stamp(second.made_us + 1, second.origin), MALLORY)


def asked(speaking: Speaking, datagram: bytes, *sources: socket.socket) -> None:
    for source in sources:
        source.sendto(datagram, speaking._socket.getsockname())


@pytest.mark.parametrize("secret", ["shared by both sides", None])
async def test_an_ask_is_answered_once_and_only_to_whoever_made_it(
    secret: str | None, monkeypatch: pytest.MonkeyPatch
):
    multicast_or_skip()
    where = group(secret=secret)
    if secret is None:  # as if it were reached by others
        monkeypatch.setattr(type(where), "answers_all", True)
        monkeypatch.setattr(speaker, "BEAT_S", 60.0)
    speaking = Speaking("test", where, sockets.speaking(where), Holding(secret=where.secret))
    with sockets.asking(where, 65_536) as honest, sockets.asking(where, 65_536) as mallory:
        try:
            await speaking.send([Message(b"x" * 1000)])
            made = Stamp(time.time_ns() // 1000, origin_of(honest.getsockname()))
            ask = encode(Ask(speaking.sender.session, ((1, 1),), made), where.secret)
            asked(speaking, ask, mallory, honest, honest)
            honest.settimeout(1.0)
            mallory.settimeout(1.0)
            if secret is not None:
                assert len(honest.recv(2000)) > 1000
            for each in (honest, mallory):
                with pytest.raises(TimeoutError):
                    each.recv(2000)
            assert speaking.asks == (1 if secret else 3)
        finally:
            await speaking.close()


def test_a_seal_has_sixteen_bytes_and_every_one_of_them_counts():
    whole = bytearray(encode(Data(5, 9, 3, Message(b"value")), SECRET))
    sessions = Sessions(Patience(), SECRET)
    for place in range(48, 64):
        whole[place] ^= 1
        assert sessions.heard(bytes(whole), SENDER, 0.0) == []
        whole[place] ^= 1
    assert sessions.counts.unreadable == 16
