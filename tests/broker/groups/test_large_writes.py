"""A group whose records are too much for one write goes on, and can end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.groups import timeouts
from headwater.broker.groups.consumer import heartbeat as consumer
from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.groups.streams import heartbeat as streams
from headwater.broker.groups.streams.member import Assignment
from tests.conftest import SOAK

from .consumer.hall import FakeImage
from .desk import Desk, settle
from .streams.theatre import COUNTING

MakeDesk = Callable[..., Desk]
Join = Callable[[Desk, str], Awaitable[ErrorCode]]
SIZES = {"group_consumer_max_size": 1_000, "group_streams_max_size": 1_000}


async def _join_consumer(desk: Desk, member: str) -> ErrorCode:
    beat = consumer.Beat(
        member, 0, rebalance_timeout_ms=30_000, topic_names=frozenset({"lines"}), owned={}
    )
    return (await desk.groups.consumer_heartbeat("g", beat)).error


async def _join_streams(desk: Desk, member: str) -> ErrorCode:
    beat = streams.Beat(
        member,
        0,
        rebalance_timeout_ms=30_000,
        topology=COUNTING,
        process_id=member,
        owned=Assignment(),
    )
    return (await desk.groups.streams_heartbeat("g", beat)).error


@pytest.fixture(params=[_join_consumer, _join_streams], ids=["consumer", "streams"])
def join(request: Any) -> Join:
    found: Join = request.param
    return found


@pytest.fixture
def image() -> FakeImage:
    image = FakeImage()
    for name in ("lines", "words", "counts"):
        image.put(name, 4)
    return image


async def _until_empty(desk: Desk) -> None:
    async with asyncio.timeout(60):
        while desk.groups.groups["g"].members:
            await settle()
    await settle()


async def test_members_time_out_together_whose_end_does_not_fit_one_write(
    make_desk: MakeDesk, image: FakeImage, join: Join
) -> None:
    """After a restart all have the same time. Each is three tombstones."""
    desk = make_desk(image=image, **SIZES)
    for number in range(20):
        assert await join(desk, f"{'m' * 1000}{number}") is ErrorCode.none
    desk.store.bytes_max = 30_000
    again = make_desk(store=desk.store, image=image, **SIZES)
    again.pass_ms(45_000)
    await _until_empty(again)
    assert await join(again, "another") is ErrorCode.none
    once_more = make_desk(store=desk.store, image=image, **SIZES)
    assert list(once_more.groups.groups["g"].members) == ["another"]
    assert not getattr(again.groups.groups["g"], "stale_keys", None)


async def test_very_many_members_time_out_in_several_turns(
    make_desk: MakeDesk,
    image: FakeImage,
    join: Join,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not SOAK:  # a join looks at all members
        monkeypatch.setattr(timeouts, "AT_ONCE", 40)
    count = 2 * timeouts.AT_ONCE + 1
    desk = make_desk(image=image, **SIZES)
    for number in range(count):
        assert await join(desk, f"m\n{number}") is ErrorCode.none
    again = make_desk(store=desk.store, image=image, **SIZES)
    with caplog.at_level(logging.INFO):
        again.pass_ms(45_000)
    assert len(again.groups.groups["g"].members) == count - timeouts.AT_ONCE
    assert "m\\n" in caplog.text and "m\n" not in caplog.text, "a name breaks no line of the log"
    assert len(caplog.text) < 1_000
    again.pass_ms(1)
    assert len(again.groups.groups["g"].members) == 1
    again.pass_ms(1)
    await _until_empty(again)


async def test_a_group_ends_whose_offsets_do_not_fit_one_write(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image)
    for partition in range(4):
        commit = Commit("lines", partition, 1)
        assert await desk.groups.offsets.commit(Committer("g"), [commit]) == [ErrorCode.none]
    desk.store.bytes_max = 40
    assert await desk.groups.removal.delete_group("g") is ErrorCode.none
    assert make_desk(store=desk.store, image=image).groups.groups == {}
