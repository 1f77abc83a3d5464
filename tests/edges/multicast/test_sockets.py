"""The same over real sockets, some of which lose packets by a seed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headwater.edges.multicast import sockets
from headwater.edges.multicast.addresses import Group
from headwater.edges.multicast.listener import Listening
from headwater.edges.multicast.packets import Data, Message, encode
from headwater.edges.multicast.receiver import Arrived, Event, Gap, Joined, Patience
from headwater.edges.multicast.sender import Holding
from headwater.edges.multicast.sessions import Sessions
from headwater.edges.multicast.speaker import Speaking
from headwater.edges.udp.addresses import networks
from tests.edges.multicast.lossy import Weather
from tests.edges.multicast.sending import group, lossy, multicast_or_skip

DEADLINE_S = 100
NASTY = Weather(drop=0.2, duplicate=0.05, delay_s=0.2)
CALM = Weather()
PATIENT = Patience(silence_s=60)  # a busy machine is not a dead sender


@pytest.fixture(autouse=True, scope="module")
def _possible() -> None:
    multicast_or_skip()


@asynccontextmanager
async def speaker(
    where: Group, seed: int = 0, weather: Weather = CALM, holding: Holding | None = None
) -> AsyncIterator[Speaking]:
    made = lossy(sockets.speaking(where), seed, weather)
    speaking = Speaking("test", where, made, holding or Holding(secret=where.secret))
    try:
        yield speaking
    finally:
        await speaking.close()


@asynccontextmanager
async def listener(
    where: Group, seed: int = 0, weather: Weather = CALM, patience: Patience = PATIENT
) -> AsyncIterator[Listening]:
    both = sockets.hearing(where, 1024**2), lossy(sockets.asking(where, 1024**2), seed, weather)
    listening = Listening("test", where, both, Sessions(patience, where.secret))
    try:
        yield listening
    finally:
        await listening.close()


async def events(listening: Listening, last: int) -> list[Event]:
    """Up to this sequence, in order and each once, or the check fails."""
    found: list[Event] = []
    expected = 1
    async with asyncio.timeout(DEADLINE_S):
        while expected <= last:
            for event in await listening.take():
                found.append(event)
                if isinstance(event, Joined):
                    assert event.first == 1
                    continue
                first = event.sequence if isinstance(event, Arrived) else event.first
                assert first == expected
                expected = (event.last if isinstance(event, Gap) else event.sequence) + 1
    return found


def messages(first: int, count: int) -> list[Message]:
    return [Message(b"%d" % number) for number in range(first, first + count)]


@pytest.mark.parametrize("seed", [1, 2])
async def test_everything_arrives_in_order_though_a_fifth_is_lost_each_way(seed: int):
    where = group()
    async with (
        listener(where, seed, NASTY) as one,
        listener(where, seed + 50, NASTY) as two,
        speaker(where, seed, NASTY) as speaking,
    ):
        for first in range(1, 1001, 250):
            assert await speaking.send(messages(first, 250)) == []
        for each in (one, two):
            found = await events(each, 1000)
            values = [e.message.value for e in found if isinstance(e, Arrived)]
            assert values == [b"%d" % number for number in range(1, 1001)], f"seed {seed}"
        assert speaking.sender.repaired > 0 and speaking.asks > 0


async def test_a_receiver_whose_log_is_slow_stops_reading_and_asks_for_the_rest_later():
    where = group()
    both = sockets.hearing(where, 4096), sockets.asking(where, 1024**2)
    listening = Listening("test", where, both, Sessions(PATIENT), inbox_bytes=1000)
    async with speaker(where) as speaking:
        await speaking.send([Message(b"x" * 1000)] * 500)
        found = await events(listening, 500)
    await listening.close()
    assert [type(each) for each in found] == [Joined] + [Arrived] * 500


async def test_what_the_sender_let_go_of_is_named_in_gaps():
    where = group()
    small = Holding(held_bytes_max=70_000, hold_s=0)
    async with listener(where, 5, NASTY) as one, speaker(where, 5, NASTY, small) as speaking:
        for first in range(1, 3001, 500):
            await speaking.send(messages(first, 500))
        found = await events(one, 3000)
    lost = sum(e.last - e.first + 1 for e in found if isinstance(e, Gap))
    assert lost + sum(isinstance(e, Arrived) for e in found) == 3000


async def test_a_message_that_fits_into_no_packet_is_refused_and_the_others_go():
    where = group()
    async with listener(where) as one, speaker(where) as speaking:
        batch = [Message(b"a"), Message(b"x" * 70_000), Message(b"b")]
        ((number, why),) = await speaking.send(batch)
        assert number == 1 and "65507" in why
        found = await events(one, 2)
    assert [e.message.value for e in found if isinstance(e, Arrived)] == [b"a", b"b"]


async def test_packets_with_another_secret_are_nothing():
    ours, theirs = group(secret="ours"), group(secret="theirs")
    theirs = Group(ours.host, ours.port, ours.interface, 1, (), theirs.secret)
    async with listener(ours) as one, speaker(theirs) as wrong, speaker(ours) as right:
        await wrong.send([Message(b"wrong")])
        await right.send([Message(b"right")])
        found = await events(one, 1)
        assert [e.message.value for e in found if isinstance(e, Arrived)] == [b"right"]
        async with asyncio.timeout(DEADLINE_S):
            while not one.sessions.counts.unreadable:
                await asyncio.sleep(0.01)


async def test_who_may_not_speak_is_not_heard():
    where = group()
    strict = Group(where.host, where.port, where.interface, 1, networks(["10.0.0.1"]), b"")
    async with listener(strict) as one, speaker(where) as speaking:
        await speaking.send([Message(b"x")])
        async with asyncio.timeout(DEADLINE_S):
            while not one.not_allowed:
                await asyncio.sleep(0.01)
    assert one.sessions.status()["sessions"] == 0


async def test_a_sender_that_dies_with_something_missing_leaves_a_gap():
    where = group()
    async with listener(where, patience=Patience(silence_s=0.3)) as one:
        with sockets.speaking(where) as dying:
            dying.sendto(encode(Data(7, 1, 1, Message(b"1"))), where.place)
            dying.sendto(encode(Data(7, 4, 1, Message(b"4"))), where.place)
        found = await events(one, 4)
    assert found == [
        Joined(7, 1),
        Arrived(7, 1, Message(b"1")),
        Gap(7, 2, 3, "the sender fell silent"),
        Arrived(7, 4, Message(b"4")),
    ]
