"""Connections that say nothing, or half of something: they cost little, are counted, and keep nobody out."""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest

from headwater.broker.frame_buffer import BUFFER_BYTES, FrameBuffer
from headwater.broker.memory import LARGE_BYTES, SMALL_BYTES, MemoryBudget
from headwater.broker.security import admission
from headwater.broker.security.admission import Admission, Bound, Place
from tests.broker.processes import broker_process
from tests.broker.serving import serving
from tests.compat.waiting import until

FEW = ("-m", "tests.broker.few_files", "160", "160")


def connect(bootstrap: str) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


class Holder:
    """Of a frame."""

    client_host = "127.0.0.1"

    def room(self) -> None:
        """It need not be told."""

    def drop_if_stalled(self, now: float) -> None:
        raise AssertionError("nobody asks")


def put(frames: FrameBuffer, data: bytes) -> None:
    free = frames.free()
    free[: len(data)] = data
    frames.filled(len(data), 0.0)


@pytest.mark.parametrize("stranger", [False, True])
def test_a_connection_that_says_nothing_has_no_buffer_and_half_a_frame_is_counted(
    stranger: bool,
) -> None:
    memory = MemoryBudget(LARGE_BYTES)
    kind = "logins" if stranger else "frames"
    frames, holder = FrameBuffer(memory), Holder()
    frames.free()
    assert len(frames) == 0, "nothing has come"
    put(frames, struct.pack(">i", 100) + bytes(50))
    assert frames.reserve(holder, stranger=stranger)
    assert memory.used[kind] == len(frames) == BUFFER_BYTES
    assert frames.is_awaited
    put(frames, bytes(50))
    assert frames.take(8, 200, "") is not None
    frames.shrink_if_empty()
    assert len(frames) == memory.held == 0


def test_half_a_frame_turns_out_to_be_large_and_is_counted_once() -> None:
    memory = MemoryBudget(100 * LARGE_BYTES)
    frames, holder = FrameBuffer(memory), Holder()
    put(frames, b"\0")
    assert frames.reserve(holder, stranger=False)
    size = 2 * LARGE_BYTES
    put(frames, struct.pack(">i", size)[1:])
    assert frames.reserve(holder, stranger=False)
    assert memory.held == size + 4
    frames.clear()
    assert memory.held == 0


def test_where_the_budget_is_used_up_half_a_frame_waits_and_whole_ones_do_not() -> None:
    memory = MemoryBudget(LARGE_BYTES)
    memory.take("requests", 2 * LARGE_BYTES)
    frames, holder = FrameBuffer(memory), Holder()
    put(frames, struct.pack(">i", 100) + bytes(50))
    assert not frames.reserve(holder, stranger=False)
    assert memory.is_waited_for
    put(frames, bytes(50))
    assert frames.take(8, SMALL_BYTES, "") is not None
    frames.shrink_if_empty()
    assert frames.reserve(holder, stranger=False)


def test_who_comes_when_all_is_taken_comes_in_if_others_go() -> None:
    idle, places = 3, list[Place]()

    def make_room() -> int:
        return min(idle, 2)

    everywhere = Bound("max.connections", lambda: 1_000)
    gate = Admission(everywhere, everywhere, room=lambda: 3, make_room=make_room)
    for _ in range(3):
        place = gate.enter("one")
        assert isinstance(place, Place)
        places.append(place)
    for _ in range(2):
        assert isinstance(gate.enter("one"), Place), "two have been asked to go"
    idle = 0
    assert "descriptors" in str(gate.enter("one"))
    assert gate.refused == 1
    for place in places[:2]:
        place.leave()
    assert not isinstance(gate.enter("one"), Place), "those two have made room for two"
    places[2].leave()
    assert isinstance(gate.enter("one"), Place)


def test_the_idlest_go_and_first_those_who_never_spoke(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "IDLE_S", 0.0)
    monkeypatch.setattr(admission, "connections_max", lambda settings: 3)
    monkeypatch.setattr(admission, "GONE_AT_ONCE", 1)
    with serving(data) as broker, broker.wire() as first, broker.wire() as second:
        for wire in (first, second):
            wire.ask("api_versions", 0)
        with connect(broker.bootstrap) as silent:
            there = broker.broker.connections
            until(lambda: broker.call(lambda: len(there)) == 3, "a stranger to be there")
            with broker.wire() as third:
                third.ask("api_versions", 0)
                assert silent.recv(1) == b""
                second.ask("api_versions", 0)
                with broker.wire() as fourth:
                    fourth.ask("api_versions", 0)
                    second.ask("api_versions", 0)


def test_idle_strangers_up_to_the_limit_of_descriptors_keep_nobody_out(data: Path) -> None:
    with broker_process(data, program=FEW) as broker, ExitStack() as strangers:
        for _ in range(400):
            strangers.enter_context(connect(broker.bootstrap))
        for _ in range(3):
            until(lambda: answered(broker.bootstrap), "somebody who speaks to be heard")
        assert broker.stop() == 0


def answered(bootstrap: str) -> bool:
    """Whether a client that comes now is served."""
    with connect(bootstrap) as client:
        try:
            client.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            return len(client.recv(4)) == 4
        except OSError:
            return False
