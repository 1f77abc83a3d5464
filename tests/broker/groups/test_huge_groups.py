"""A group of thousands, or of members who say very much, leaves turns of the event loop to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker import bounds
from headwater.broker.groups import core, rebalance, sync
from headwater.broker.groups.classic import State

from .desk import Desk, settle
from .room import Room

MANY, AT_ONCE = 20, 4
MakeDesk = Callable[..., Desk]


def _joining(desk: Desk, number: int) -> asyncio.Future[Any]:
    return asyncio.ensure_future(desk.join("g", fresh_id=f"m{number}"))


async def test_a_generation_is_told_to_a_few_in_each_turn(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "ANSWERS_AT_ONCE", AT_ONCE, raising=False)
    desk = make_desk(group_initial_rebalance_delay_ms=1_000)
    joining = [_joining(desk, number) for number in range(MANY)]
    await settle()
    desk.pass_ms(1_000)
    desk.pass_ms(1_000)  # there was somebody new
    told = most = 0
    for _ in range(10 * MANY):
        now = sum(each.done() for each in joining)
        told, most = now, max(most, now - told)
        await asyncio.sleep(0)
    assert most <= AT_ONCE
    assert {each.result().generation for each in joining} == {1}


def test_sessions_that_end_together_end_in_several_turns(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalance, "AT_ONCE", AT_ONCE, raising=False)
    room.stable(MANY)
    room.ms += 3_600_000
    left = [MANY]
    for _ in range(MANY):
        room.tick()
        left.append(len(room.group.members))
    assert max(before - after for before, after in pairwise(left)) <= AT_ONCE
    assert room.group.state is State.EMPTY


@pytest.mark.parametrize("setting", [2, 2**31 - 1])
async def test_no_group_has_more_members_than_a_turn_can_look_at(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch, setting: int
) -> None:
    monkeypatch.setattr(bounds, "GROUP_MEMBERS_MAX", 2, raising=False)
    desk = make_desk(group_initial_rebalance_delay_ms=1_000, group_max_size=setting)
    joining = [_joining(desk, number) for number in range(3)]
    await settle()
    assert joining[2].result().error is ErrorCode.group_max_size_reached


def test_an_assignment_that_no_record_has_room_for_is_not_written_out(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "GROUP_BYTES_MAX", 100, raising=False)
    monkeypatch.setattr(sync, "record_of", lambda *_: pytest.fail("it was written out"))
    ticket = room.send_join(version=3)
    room.pass_ms(0)
    leader = room.answer(ticket).member_id
    ticket = room.send_sync(leader, {leader: bytes(100)})
    assert room.answer(ticket).error is ErrorCode.unknown_server_error
    assert room.group.state is State.PREPARING, "its members may say less"
