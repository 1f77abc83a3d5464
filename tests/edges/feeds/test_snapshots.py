"""What a snapshot may cost others: neither the event loop nor all memory, whoever asks and never reads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack

import pytest

from headwater.client.log import Log
from headwater.client.records import Record
from headwater.edges.caller import SENDER
from headwater.edges.config import Limits
from headwater.edges.errors import Overloaded
from headwater.edges.feeds import bodies
from headwater.edges.feeds.history import Piece
from headwater.edges.feeds.hub import Hub
from headwater.edges.feeds.request import Choice, read
from headwater.edges.feeds.session import Session
from headwater.edges.feeds.state import State
from headwater.edges.feeds.wires import SSE, Item
from headwater.edges.memory_share import MemoryShare
from tests.edges.feeds.clients import put


async def until_live(session: Session) -> bytes:
    told = b""
    async for chunk in session.chunks():
        assert isinstance(chunk, bytes)
        told += chunk
        if b"event: live" in told:
            return told
    raise AssertionError(told)


def noted_threads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Those in which filters look at records from now on."""
    threads: set[str] = set()
    fits = Choice.fits

    def noted(self: Choice, record: Record) -> bool:
        threads.add(threading.current_thread().name)
        return fits(self, record)

    monkeypatch.setattr(Choice, "fits", noted)
    return threads


async def test_a_snapshot_has_what_came_in_the_turn_before_its_task_began() -> None:
    """It was read up to a position, and what came behind that was forgotten as the task began."""
    ends = {0: 1}

    async def read_up_to(at: Mapping[int, int], ends: Mapping[int, int]) -> Piece:
        return Piece([item(0, b"a")], {0: 1})

    state = State("t", 1000_000, MemoryShare(1000_000))
    asking = asyncio.create_task(state.snapshot(lambda: dict(ends), read_up_to))
    await asyncio.sleep(0)
    ends[0] = 2
    state.changes([item(1, b"b")])
    shown = await asking
    assert shown.position == {0: 2}
    assert [each.record.key for each in shown.items] == [b"a", b"b"]


def item(offset: int, key: bytes) -> Item:
    return Item(Record("t", 0, offset, 0, key, b"1"), f"0={offset + 1}", b"1")


async def test_a_filter_of_a_snapshot_never_runs_on_the_event_loop(
    log: Log, topic, monkeypatch: pytest.MonkeyPatch
):
    """It looks at every key there is: half a million held up everybody for five seconds."""
    name, hub = topic(), Hub(log, Limits())
    put(log, name, *[(str(n), {"n": n % 10}) for n in range(100)])
    threads = noted_threads(monkeypatch)
    asked = read(where=["n=3"], snapshot=True)
    async with hub.session(name, bodies.of_record, asked, SSE) as session:
        told = await until_live(session)
    assert told.count(b'"n": 3') == 10 and b'{"records":10}' in told
    assert threads and threading.current_thread().name not in threads
    hub.close()


async def test_nor_does_one_of_what_is_still_in_memory(
    log: Log, topic, monkeypatch: pytest.MonkeyPatch
):
    name, hub = topic(), Hub(log, Limits())
    put(log, name, *[{"n": n % 10} for n in range(100)])
    threads = noted_threads(monkeypatch)
    asked = read(where=["n=3"], start="beginning")
    async with hub.session(name, bodies.of_record, asked, SSE) as session:
        told = b""
        async for chunk in session.chunks():
            assert isinstance(chunk, bytes)
            told += chunk
            if b"id: 0=94\n" in told:
                break
    assert told.count(b'"n": 3') == 10
    assert threads and threading.current_thread().name not in threads
    hub.close()


async def test_those_who_are_told_one_state_share_its_list_and_leave_nothing(log: Log, topic):
    name, hub = topic(), Hub(log, Limits())
    put(log, name, *[(str(n), n) for n in range(50)])
    ask = read(snapshot=True)
    async with AsyncExitStack() as open_ones:
        some = [
            await open_ones.enter_async_context(hub.session(name, bodies.of_record, ask, SSE))
            for _ in range(20)
        ]
        assert len({id(each._snapshot) for each in some}) == 1
        both = hub.states.bytes  # the state, and the one list that is being told
        async with hub.feed(name, bodies.of_record) as feed:
            await feed.reached({0: 50})
            put(log, name, ("1", "new"))
            await feed.reached({0: 51})
        later = hub.session(name, bodies.of_record, ask, SSE)
        told = await until_live(await open_ones.enter_async_context(later))
        assert b'"value":"new"' in told
        assert await until_next(some[0], b'"value":"new"')
        assert hub.states.bytes >= both > 0
    async with hub.feed(name, bodies.of_record) as feed:
        assert 0 < hub.states.bytes < both
        feed.stop("the test is over")
    assert hub.states.bytes == 0
    hub.close()


async def until_next(session: Session, words: bytes) -> bytes:
    """What is told until then: its list is older, and the change comes behind it."""
    told = b""
    async for chunk in session.chunks():
        assert isinstance(chunk, bytes)
        told += chunk
        if words in told:
            assert told.index(b"event: live") < told.index(words)
            return told
    raise AssertionError(told)


async def test_the_states_of_all_topics_have_one_bound_and_a_sender_leaves_some_of_it(
    log: Log, topic
):
    names, hub = [topic() for _ in range(3)], Hub(log, Limits())
    for name in names:
        put(log, name, *[(str(n), n) for n in range(50)])
    ask = read(snapshot=True)
    async with AsyncExitStack() as open_ones:

        async def follow(sender: str, name: str) -> Session:
            SENDER.set(sender)
            session = hub.session(name, bodies.of_record, ask, SSE)
            return await open_ones.enter_async_context(session)

        await follow("token greedy", names[0])
        hub.states.most = hub.states.bytes * 5 // 2
        with pytest.raises(Overloaded, match="the states of topics take too much memory"):
            await follow("token greedy", names[1])
        await follow("token greedy", names[0])  # what is there already serves all
        hub.states.most *= 4
        await follow("token other", names[2])
    hub.close()
