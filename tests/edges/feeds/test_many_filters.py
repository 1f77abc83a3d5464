"""Many clients, each with a filter of its own: what comes is told to them a few at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from headwater.client.log import Log
from headwater.edges.caller import SENDER
from headwater.edges.config import Limits
from headwater.edges.feeds import bodies, channels
from headwater.edges.feeds.channels import Box, Channel
from headwater.edges.feeds.hub import Hub
from headwater.edges.feeds.outbox import Outbox
from headwater.edges.feeds.request import read
from headwater.edges.feeds.session import Session
from headwater.edges.feeds.wires import SSE
from tests.edges.feeds.clients import put

COUNT = 20


async def joined(
    open_ones: AsyncExitStack, hub: Hub, name: str, count: int = COUNT
) -> list[Session]:
    """Sessions that are told what comes, each with a filter of its own."""
    found = []
    for number in range(count):
        asked = read(where=[f"n!={number}"])
        opened = hub.session(name, bodies.of_record, asked, SSE)
        session = await open_ones.enter_async_context(opened)
        found.append(session)
        session._feed.join(asked, SSE, session.box, is_state=False)
    return found


async def test_others_have_a_turn_between_the_filters_of_one_batch(
    log: Log, topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand records for as many filters held up everybody for ten seconds."""
    monkeypatch.setattr(channels, "TURN_S", 0.0)
    name, hub = topic(), Hub(log, Limits())
    async with AsyncExitStack() as open_ones:
        sessions = await joined(open_ones, hub, name)
        its, turns = sessions[0]._feed, 0
        (own,) = its._audiences.values()
        put(log, name, {"n": -1})
        while not own.is_busy:
            await asyncio.sleep(0)
        while own.is_busy:
            its.beat()  # waits until all have been told
            assert all(
                each.box.is_empty or "heartbeat" not in str(each.box._chunks) for each in sessions
            )
            turns += 1
            await asyncio.sleep(0)
        assert turns >= COUNT - 1
        assert all(not each.box.is_empty for each in sessions)
    hub.close()


async def test_who_joins_while_a_batch_is_told_gets_it_once(
    log: Log, topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, hub = topic(), Hub(log, Limits())
    box: Box = Outbox(10**6, time.monotonic)
    missed: list[Any] = []
    async with AsyncExitStack() as open_ones:
        its = (await joined(open_ones, hub, name))[0]._feed
        publish = Channel.publish

        def joining(
            self: Channel, changes: Any, boxes: Sequence[Box], **words: Any
        ) -> Awaitable[int]:
            if not missed:  # in the middle: what came counts as here, and most have not been told
                missed.extend(its.recent.behind({0: 0}))
                its.join(read(where=[f"n!={COUNT - 1}"]), SSE, box, is_state=False)
            return publish(self, changes, boxes, **words)

        monkeypatch.setattr(Channel, "publish", joining)
        put(log, name, {"n": -1})
        await its.reached({0: 1})
        assert [each.record.offset for each in missed] == [0] and box.is_empty
        put(log, name, {"n": -2})
        await its.reached({0: 2})
        assert len(box._chunks) == 1 and b"id: 0=2" in box._chunks[0][0]
    hub.close()


async def test_large_values_are_looked_into_beside_the_loop(
    log: Log, topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of `[]` became values on the loop, once a record, while everybody waited."""
    name, hub = topic(), Hub(log, Limits())
    looked: dict[int, set[int]] = {}
    chosen = Channel.chosen

    def noted(self: Channel, changes: Any, **words: Any) -> Any:
        for item, _ in changes:
            looked.setdefault(item.record.offset, set()).add(threading.get_ident())
        return chosen(self, changes, **words)

    monkeypatch.setattr(Channel, "chosen", noted)
    async with AsyncExitStack() as open_ones:
        sessions = await joined(open_ones, hub, name)
        its = sessions[0]._feed
        put(log, name, {"n": -1})
        await its.reached({0: 1})
        put(log, name, {"n": -2, "x": [[]] * 200_000})
        await its.reached({0: 2})
        assert all(len(each.box._chunks) == 2 for each in sessions)
    assert looked[0] == {threading.get_ident()}
    assert threading.get_ident() not in looked[1]
    hub.close()


async def test_filters_of_one_sender_hold_up_no_other(
    log: Log, topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three hundred filters of one token took three milliseconds of each record that another followed."""
    monkeypatch.setattr(channels, "HELD_S", 0.01)
    name, hub, held, kept = topic(), Hub(log, Limits()), asyncio.Event(), []
    publish = Channel.publish

    async def slow(self: Channel, changes: Any, boxes: Sequence[Box], **words: Any) -> int:
        if SENDER.get() == "greedy":
            kept.append(1)
            await held.wait()
        return await publish(self, changes, boxes, **words)

    monkeypatch.setattr(Channel, "publish", slow)
    async with AsyncExitStack() as open_ones:
        SENDER.set("greedy")
        (greedy,) = await joined(open_ones, hub, name, 1)
        SENDER.set("other")
        (other,) = await joined(open_ones, hub, name, 1)
        its = other._feed
        for number in range(channels.WAITING_MAX + 2):
            put(log, name, {"n": -1 - number})
            await until(lambda wanted=number + 1: count(other) == wanted)
        assert kept == [1]
        assert greedy.box.dropped == channels.SLOW and other.box.dropped is None
        its.leave(other.box)
        SENDER.set("greedy")  # alone, it may take its time
        (greedy,) = await joined(open_ones, hub, name, 1)
        for number in range(channels.WAITING_MAX + 2):
            put(log, name, {"n": -100 - number})
        held.set()
        await until(lambda: count(greedy) == channels.WAITING_MAX + 2)
        assert greedy.box.dropped is None
    hub.close()


def count(session: Session) -> int:
    """Events that wait for the client."""
    return sum(each[0].count(b"data:") for each in session.box._chunks)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)
