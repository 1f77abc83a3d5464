"""Real sockets on loopback: nothing is lost in silence, whoever loses it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from headwater.edges import counts
from headwater.edges.udp.batches import Batches, host_of, port_of, read_each
from headwater.edges.udp.receiver import Receiving
from headwater.edges.udp.sockets import (
    DropCount,
    drops_in_proc,
    kernel_drops,
    listening,
)

DEADLINE_S = 100.0


@pytest.fixture
def sender() -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as made:
        made.bind(("127.0.0.1", 0))
        yield made


def counting(made: socket.socket) -> DropCount:
    drops = DropCount(made)
    if drops.total is None:
        pytest.skip("this system does not say what its kernel drops")
    return drops


@pytest.mark.parametrize("way", ["recvmmsg", "recvfrom"])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_datagrams_are_read_whole_with_their_senders(host: str, way: str):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_DGRAM)) as sender:
        try:
            sender.bind((host, 0))
        except OSError:
            pytest.skip(f"no {host} on this machine")
        with closing(listening(host, 0, 1024**2)) as made:
            sent = [b"", b"x", b"y" * 60_000, b"z" * 9]
            for each in sent:
                sender.sendto(each, made.getsockname())
            # What is sent over loopback is in the receiver's buffer when the call returns.
            found = Batches(made).read() if way == "recvmmsg" else read_each(made)
            assert [datagram for datagram, _ in found] == sent
            assert {host_of(name) for _, name in found} == {host}
            assert {port_of(name) for _, name in found} == {sender.getsockname()[1]}
            assert Batches(made).read() == read_each(made) == []


def test_what_the_kernel_drops_is_counted_to_the_last_one(sender: socket.socket):
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as made:
        made.bind(("127.0.0.1", 0))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        made.setblocking(False)
        drops = counting(made)
        sent = 0
        while not drops.look():
            sender.sendto(b"x" * 500, made.getsockname())
            sent += 1
            assert sent < 1_000_000
        drops.look()
        assert drops.total == sent - len(read_each(made))
        assert drops_in_proc(made) in (kernel_drops(made), None)


async def taken(receiving: Receiving, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < count:
            found += [datagram for datagram, _ in await receiving.take()]
    return found


async def test_datagrams_are_taken_in_the_order_in_which_they_came(sender: socket.socket):
    made = listening("127.0.0.1", 0, 1024**2)
    receiving = Receiving("test", made, 1024**2)
    place = made.getsockname()
    for first in range(0, 500, 50):
        batch = [b"%d" % number for number in range(first, first + 50)]
        for each in batch:
            sender.sendto(each, place)
        assert await taken(receiving, 50) == batch
    assert receiving.counts.datagrams == 500
    assert receiving.waiting_bytes == 0
    await receiving.close()


async def test_what_the_inbox_cannot_hold_is_counted_apart_and_told(
    sender: socket.socket, caplog: pytest.LogCaptureFixture
):
    made = listening("127.0.0.1", 0, 1024**2)
    place = made.getsockname()
    receiving = Receiving("test", made, inbox_bytes=65_536)
    sent = 0
    async with asyncio.timeout(DEADLINE_S):
        while not receiving.counts.dropped_by_inbox:
            sender.sendto(b"x" * 1000, place)
            sent += 1
            await asyncio.sleep(0)
    with caplog.at_level(logging.WARNING, "headwater.edges.udp"):
        await receiving.close()
    assert "the log does not keep up" in caplog.text
    assert "datagrams that the log had not yet" in caplog.text
    assert receiving.counts.datagrams == receiving.counts.dropped_by_inbox
    if receiving.drops.total is not None:
        assert sent >= receiving.counts.datagrams + receiving.drops.total
    assert receiving.waiting_bytes <= 65_536


async def test_what_the_kernel_drops_is_told_and_in_the_metrics(
    sender: socket.socket, caplog: pytest.LogCaptureFixture
):
    made = listening("127.0.0.1", 0, 1)
    counting(made)
    place = made.getsockname()
    receiving = Receiving("kernel-test", made, 1024**3)
    sent = 0
    async with asyncio.timeout(DEADLINE_S):
        while not receiving.drops.total:
            for _ in range(1000):
                sender.sendto(b"x" * 500, place)
            sent += 1000
            await asyncio.sleep(0.01)
    await receiving.close()
    assert "the kernel dropped" in caplog.text
    assert sent == receiving.counts.datagrams + receiving.drops.total
    counted = counts.REGISTRY.get_sample_value(
        "headwater_udp_dropped_total", {"bridge": "kernel-test", "by": "kernel"}
    )
    assert counted == receiving.drops.total


async def test_senders_who_may_not_are_not_heard(sender: socket.socket):
    made = listening("127.0.0.1", 0, 1024**2)
    allowed = {"127.0.0.2"}
    receiving = Receiving("test", made, 1024**2, allowed.__contains__)
    sender.sendto(b"no", made.getsockname())
    async with asyncio.timeout(DEADLINE_S):
        while not receiving.counts.not_allowed:
            await asyncio.sleep(0.01)
    allowed.add("127.0.0.1")
    sender.sendto(b"yes", made.getsockname())
    assert await taken(receiving, 1) == [b"yes"]
    await receiving.close()


def test_a_thread_that_fails_tells_whoever_waits_for_datagrams(
    sender: socket.socket, caplog: pytest.LogCaptureFixture
):
    def broken(host: str) -> bool:
        raise KeyError("an error of ours")

    async def scenario() -> None:
        made = listening("127.0.0.1", 0, 1024**2)
        receiving = Receiving("test", made, 1024**2, broken)
        sender.sendto(b"x", made.getsockname())
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(OSError, match="receiving failed"):
                await receiving.take()
        await receiving.close()

    asyncio.run(scenario())
    assert any(record.exc_info for record in caplog.records), "the traceback is missing"


async def test_who_floods_the_inbox_loses_his_own_and_leaves_room_for_others(sender: socket.socket):
    made = listening("127.0.0.1", 0, 1024**2)
    place = made.getsockname()
    receiving = Receiving("test", made, inbox_bytes=100_000)
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as other:
        other.bind(("127.0.0.2", 0))
        async with asyncio.timeout(DEADLINE_S):
            while not receiving.counts.dropped_by_inbox:
                sender.sendto(b"x" * 1000, place)
                await asyncio.sleep(0)
            for number in range(5):
                other.sendto(b"other %d" % number, place)
            seen = receiving.counts.datagrams
            while receiving.counts.datagrams < seen + 5:
                sender.sendto(b"x" * 1000, place)
                await asyncio.sleep(0.01)  # its thread reads
        found: list[bytes] = []
        async with asyncio.timeout(DEADLINE_S):
            while receiving.waiting_bytes:
                found += [datagram for datagram, _ in await receiving.take()]
        assert [each for each in found if each.startswith(b"other")] == [
            b"other %d" % number for number in range(5)
        ]
        assert sum(each.startswith(b"x") for each in found) > 50, "one alone may have most of it"
        # Nothing is remembered of who has nothing left there.
        sender.sendto(b"again", place)
        assert await taken(receiving, 1) == [b"again"]
        assert not receiving._inbox_of
    await receiving.close()
