"""What one client may not do to the others: be slow, be many, stay for ever."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from headwater.client.errors import NotThere
from headwater.client.log import Log
from headwater.edges.caller import SENDER
from headwater.edges.config import Limits
from headwater.edges.errors import Overloaded
from headwater.edges.feeds import bodies, hub_of
from headwater.edges.feeds.channels import DROPPED
from headwater.edges.feeds.hub import STOPPING, Hub
from headwater.edges.feeds.request import Choice, read
from headwater.edges.feeds.session import Session
from headwater.edges.feeds.wires import SSE
from tests.edges.feeds.clients import following, put, wait_for
from tests.edges.running import Running, edges, until

SMALL = {"limits": {"client_buffer_bytes": 20_000}}
LINE = "x" * 10_000


def idle(running: Running, path: str) -> socket.socket:
    """A client that asks and then reads nothing."""
    parts = urlsplit(running.url)
    made = socket.create_connection((parts.hostname, parts.port))
    made.sendall(
        f"GET {path} HTTP/1.1\r\nhost: {parts.netloc}\r\naccept: text/event-stream\r\n\r\n".encode()
    )
    return made


async def test_who_follows_many_topics_leaves_files_and_threads_for_others(
    log: Log, topic: Callable[..., str]
):
    """Each takes nine files and five threads: a hundred were all that a process of 1,024 has."""
    hub, names = Hub(log, Limits(), feeds_max=4), [topic() for _ in range(6)]
    async with AsyncExitStack() as greedy, AsyncExitStack() as other:

        async def follow(whose: AsyncExitStack, sender: str, name: str) -> None:
            SENDER.set(sender)
            await whose.enter_async_context(hub.session(name, bodies.of_record, read(), SSE))

        for name in names[:3]:
            await follow(greedy, "greedy", name)
        with pytest.raises(Overloaded, match="as many topics"):
            await follow(greedy, "greedy", names[3])
        await follow(greedy, "greedy", names[0])  # one that is followed anyhow
        await follow(other, "other", names[4])
        with pytest.raises(Overloaded, match="as many topics"):
            await follow(other, "other", names[5])
        await greedy.aclose()  # theirs linger on, and make room
        for name in (names[5], names[3]):
            await follow(other, "other", name)
        assert len(hub.feeds()) == 4
    hub.close()


def test_a_client_that_reads_nothing_is_dropped_and_told_and_the_others_miss_nothing(
    log: Log, topic: Callable[..., str]
):
    name, count = topic(), 0
    with edges(log.bootstrap, SMALL) as running:
        hub = hub_of(running.context)
        with following(f"{running.url}/topics/{name}") as quick:
            slow = idle(running, f"/topics/{name}")
            feed = running.run(feed_of(hub, name))
            until(lambda: len(feed.boxes()) == 2, "both clients")
            # However much the kernel keeps for it, at some time it is full.
            while len(feed.boxes()) == 2:
                put(log, name, *[{"n": n, "line": LINE} for n in range(count, count + 10)])
                count += 10
                wait_for(quick, count)
            assert [each["value"]["n"] for each in quick.records()] == list(range(count))
            with slow:
                slow.settimeout(60)
                whole = b""
                while b"event: dropped" not in whole[-2000:]:
                    whole += slow.recv(1 << 20)
                assert b'"reason":"too slow: ' in whole[-2000:]
            until(lambda: hub.clients == 1, "one client")


async def feed_of(hub: Hub, name: str):
    async with hub.feed(name, bodies.of_record) as feed:
        return feed


async def test_a_client_that_takes_nothing_for_long_is_dropped(log: Log, topic):
    name, now = topic(), [0.0]
    hub = Hub(log, Limits(), clock=lambda: now[0])
    async with hub.session(name, bodies.of_record, read(), SSE) as session:
        chunks = session.chunks()
        first = asyncio.ensure_future(anext(chunks))
        async with hub.feed(name, bodies.of_record) as feed:
            await asyncio.to_thread(put, log, name, 1)
            assert b'"value":1' in await asyncio.wait_for(first, 60)
            feed.drop_stalled(30)
            assert session.box.dropped is None
            await asyncio.to_thread(put, log, name, 2)
            async with asyncio.timeout(60):
                while session.box.is_empty:
                    await asyncio.sleep(0.01)
            now[0] = 31.0
            feed.drop_stalled(30)
            assert session.box.dropped == "too slow: it has taken nothing for 30 s"
            assert feed.boxes() == []
        assert b"event: dropped" in await anext(chunks)
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)
    hub.close()


async def test_a_filter_that_fails_ends_its_own_client_and_the_others_go_on(
    log: Log, topic, monkeypatch
):
    """Whatever raises in one client's filter, by a mistake of ours and a record that brings it to light."""
    name, hub = topic(), Hub(log, Limits())

    def broken(self: Choice, record: object) -> bool:
        raise RecursionError("too deep")

    def ended() -> float:
        return DROPPED.labels("failed")._value.get()

    before = ended()
    # The failing one joins first: the others come behind it in each batch.
    async with (
        hub.session(name, bodies.of_record, read(where=["a=1"]), SSE) as failing,
        hub.session(name, bodies.of_record, read(), SSE) as other,
        hub.feed(name, bodies.of_record) as feed,
    ):
        lost, told = failing.chunks(), other.chunks()
        reason, first = (asyncio.ensure_future(anext(each)) for each in (lost, told))
        with monkeypatch.context() as patched:
            patched.setattr(Choice, "fits", broken)
            await asyncio.to_thread(put, log, name, 1)
            assert b'"value":1' in await asyncio.wait_for(first, 60)
        dropped = b'event: dropped\ndata: {"reason":"a mistake of ours: RecursionError"}\n\n'
        assert await asyncio.wait_for(reason, 60) == dropped
        await asyncio.to_thread(put, log, name, 2)
        assert b'"value":2' in await asyncio.wait_for(anext(told), 60)
        assert feed.boxes() == [other.box]
        assert ended() - before == 1
        await told.aclose()
    hub.close()


async def test_no_more_clients_are_let_in_than_the_limit(log: Log, topic):
    name = topic()
    hub = Hub(log, Limits(clients=1))
    async with hub.session(name, bodies.of_record, read(), SSE):
        with pytest.raises(Overloaded, match="1 changefeeds"):
            async with hub.session(name, bodies.of_record, read(), SSE):
                pass
    assert hub.clients == 0
    hub.close()


async def test_heartbeats_tell_a_filter_that_keeps_nothing_how_far_it_is(log: Log, topic):
    name = topic()
    hub = Hub(log, Limits())
    ask = read(key="nobody", start="beginning")
    async with hub.session(name, bodies.of_record, ask, SSE) as session:
        chunks = session.chunks()
        first = asyncio.ensure_future(anext(chunks))
        async with hub.feed(name, bodies.of_record) as feed:
            await asyncio.to_thread(put, log, name, 1, 2, 3)
            await feed.reached({0: 3})
            assert not first.done()
            feed.beat()
            assert await first == b"id: 0=3\nevent: heartbeat\ndata: {}\n\n"
        await chunks.aclose()
    hub.close()


async def test_a_topic_that_is_not_there_leaves_nothing_behind(log: Log):
    hub = Hub(log, Limits())
    with pytest.raises(NotThere):
        async with hub.session("misspelt", bodies.of_record, read(), SSE):
            pass
    assert (hub.feeds(), hub.clients) == ({}, 0)
    hub.close()


async def test_one_sender_leaves_changefeeds_for_others(log: Log, topic):
    name, hub = topic(), Hub(log, Limits(clients=8))
    async with AsyncExitStack() as open_ones:

        async def follow(sender: str) -> None:
            SENDER.set(sender)
            session = hub.session(name, bodies.of_record, read(), SSE)
            await open_ones.enter_async_context(session)

        for _ in range(6):
            await follow("token greedy")
        with pytest.raises(Overloaded, match="one sender"):
            await follow("token greedy")
        await follow("token other")
        SENDER.set("token greedy")
        with pytest.raises(Overloaded, match="one sender"):
            await follow("token greedy")
    assert (hub.clients, dict(hub.clients_of)) == (0, {})
    hub.close()


async def test_a_thousand_clients_share_one_reader_and_miss_nothing(log: Log, topic):
    name = topic(partitions=2)
    hub = Hub(log, Limits())

    async def follow(session: Session, got: list[int]) -> None:
        async for chunk in session.chunks():
            for line in chunk.decode().splitlines():
                if line.startswith("data: {"):
                    got.append(int(json.loads(line[6:])["value"]))
            if len(got) >= 100:
                return

    async def client(got: list[int]) -> None:
        async with hub.session(name, bodies.of_record, read(start="beginning"), SSE) as session:
            await follow(session, got)

    everything: list[list[int]] = [[] for _ in range(1000)]
    tasks = [asyncio.create_task(client(got)) for got in everything]
    for begin in range(0, 100, 10):
        some = [(str(n), n) for n in range(begin, begin + 10)]
        await asyncio.to_thread(put, log, name, *some)
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert hub.feeds() == {name: 0}
    assert all(sorted(got) == list(range(100)) for got in everything)
    hub.close()


async def test_who_is_far_behind_is_read_for_in_pieces_and_joins_exactly(log: Log, topic):
    """More than is kept in memory, and more comes while it is read."""
    name = topic(partitions=3)
    await asyncio.to_thread(put, log, name, *[(str(n), n) for n in range(20_000)])
    hub = Hub(log, Limits())
    got: list[int] = []

    async def more() -> None:
        for begin in range(20_000, 24_000, 500):
            some = [(str(n), n) for n in range(begin, begin + 500)]
            await asyncio.to_thread(put, log, name, *some)

    writing = asyncio.create_task(more())
    async with hub.session(name, bodies.of_record, read(after="0=0"), SSE) as session:
        async for chunk in session.chunks():
            for line in chunk.decode().splitlines():
                if line.startswith("data: {"):
                    got.append(int(json.loads(line[6:])["value"]))
            if len(got) >= 24_000:
                break
    await writing
    assert sorted(got) == list(range(24_000))
    hub.close()


# ---- sockets --------------------------------------------------------------------------------------


def said(socket) -> dict:
    return json.loads(socket.recv(60))


def test_a_socket_gets_the_same_events(log: Log, topic: Callable[..., str]):
    name = topic(cleanup_policy="compact")
    put(log, name, ("a", {"n": 1}), ("b", {"n": 2}))
    with edges(log.bootstrap) as running:
        url = f"{running.url.replace('http', 'ws', 1)}/topics/{name}"
        with connect(url) as socket:
            assert said(socket) == {"event": "snapshot", "data": {}}
            assert {said(socket)["data"]["key"] for _ in "ab"} == {"a", "b"}
            assert said(socket) == {"event": "live", "id": "0=2", "data": {"records": 2}}
            put(log, name, ("c", {"n": 3}))
            event = said(socket)
            assert (event["event"], event["id"]) == ("record", "0=3")
            assert event["data"]["value"] == {"n": 3}
        with connect(f"{url}?after=0=2&key=c") as socket:
            assert said(socket)["data"]["key"] == "c"
        wrong = {"after=x": "no event id", "where=n": "no condition", "wher=n=1": "did you mean"}
        for words, about in wrong.items():
            with connect(f"{url}?{words}") as socket:
                assert said(socket)["event"] == "refused"
                with pytest.raises(ConnectionClosed) as closed:
                    socket.recv(60)
            assert closed.value.rcvd.code == 1008
            assert about in closed.value.rcvd.reason


def test_clients_are_told_when_the_edges_stop(log: Log, topic: Callable[..., str]):
    name = topic()
    with edges(log.bootstrap) as running:
        hub = hub_of(running.context)
        url = f"{running.url.replace('http', 'ws', 1)}/topics/{name}"
        with following(f"{running.url}/topics/{name}") as reader, connect(url) as socket:
            until(lambda: hub.clients == 2, "both clients")
            running.loop.call_soon_threadsafe(hub.end)
            until(lambda: reader.named("dropped") == [{"reason": STOPPING}], "the last event")
            assert said(socket)["data"] == {"reason": STOPPING}
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(60)
            assert closed.value.rcvd.code == 1013
            answer = httpx.get(
                f"{running.url}/topics/{name}", headers={"accept": "text/event-stream"}
            )
            assert answer.status_code == 429
