"""What a share consumer held is given back in turns when it is gone, and nobody else's with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.broker import turns
from headwater.broker.broker import Broker
from headwater.broker.shares.membership import JOIN
from headwater.broker.shares.partition_owner import PartitionOwner
from headwater.broker.shares.sessions import SessionKey
from headwater.broker.shares.state import Ack, State
from tests.broker.shares.test_coordinator import owner, running, settle, take

MANY = 6
A = SessionKey("g", "a")


@pytest.fixture(autouse=True)
def _one_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", -1)


async def held_by(node: Broker, member: str, connection: object) -> list[PartitionOwner]:
    """Share-partitions in which a member of this connection has four records."""
    node.shares.sessions.begin(SessionKey("g", member), connection, 10)
    found = [await owner(node, topic=f"t{number}") for number in range(MANY)]
    for each in found:
        assert len(take(each, member, 4)) == 1
    return found


def locked(found: PartitionOwner, member: str) -> list[tuple[int, int]]:
    assert found.state is not None
    runs = [run for run in found.state.runs if run.state is State.ACQUIRED]
    return [(run.first, run.last) for run in runs if run.member == member]


async def until_free(node: Broker, found: list[PartitionOwner], member: str) -> int:
    """The most that were freed in one turn."""
    most, before = 0, MANY
    while node.shares.releases._leaving:
        await asyncio.sleep(0)
        now = sum(bool(locked(each, member)) for each in found)
        most, before = max(most, before - now), now
    return most


async def test_a_hang_up_frees_few_in_each_turn_and_all_in_the_end(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        connection = object()
        found = await held_by(node, "a", connection)
        for each in found:
            take(each, "b", 2)
        node.shares.disconnected(connection)
        assert await until_free(node, found, "a") == 1
        assert not any(locked(each, "a") for each in found)
        assert all(locked(each, "b") == [(4, 5)] for each in found), "they are another's"


async def test_a_member_that_comes_again_keeps_what_it_acquires_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        connection = object()
        found = await held_by(node, "a", connection)
        node.shares.disconnected(connection)
        node.shares.sessions.begin(A, object(), 10)
        for each in found:
            (taken,) = take(each, "a", 2)
            assert (taken.first, taken.last) == (4, 5)
            assert locked(each, "a") == [(4, 5)], "what it held before is free"
        await until_free(node, found, "a")
        assert all(locked(each, "a") == [(4, 5)] for each in found)


async def test_a_member_that_comes_and_goes_again_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        first, second = object(), object()
        found = await held_by(node, "a", first)
        node.shares.disconnected(first)
        node.shares.sessions.begin(A, second, 10)
        take(found[0], "a", 2)
        node.shares.disconnected(second)
        await until_free(node, found, "a")
        assert not any(locked(each, "a") for each in found)
        assert not node.shares.releases


async def test_a_member_that_comes_again_cannot_settle_what_it_held_before(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        connection = object()
        found = await held_by(node, "a", connection)
        node.shares.disconnected(connection)
        node.shares.sessions.begin(A, object(), 10)
        for each in found:
            error, _ = await settle(each, "a", 0, 3, Ack.ACCEPT)
            assert error.name == "invalid_record_state"


async def test_whoever_closes_its_session_hears_of_it_when_all_is_free(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        found = await held_by(node, "a", object())
        await node.shares.close_session(A)
        assert not any(locked(each, "a") for each in found)


async def test_a_silent_member_is_no_member_at_once_and_its_records_are_free_soon(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as node:
        node.shares.heartbeat("g", "a", JOIN, ("t0",), ("client", "host"), None)
        found = await held_by(node, "a", object())
        node.clock.advance(100_000)
        node.shares._expire_members("g")
        assert not node.shares.groups["g"].members
        await until_free(node, found, "a")
        assert not any(locked(each, "a") for each in found)


async def test_a_share_partition_that_is_deleted_meanwhile_stops_nobody(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        connection = object()
        found = await held_by(node, "a", connection)
        node.shares.disconnected(connection)
        await node.shares.forget([found[0].key, found[1].key])
        await until_free(node, found[2:], "a")
        assert not any(locked(each, "a") for each in found[2:])
        assert not node.health.task("share groups").failures


async def test_a_stop_in_the_middle_leaves_no_lock_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        connection = object()
        await held_by(node, "a", connection)
        node.shares.disconnected(connection)
        await asyncio.sleep(0)
        assert node.shares.releases, "nothing was in the middle"
    async with running(tmp_path) as again:
        for number in range(MANY):
            (taken,) = take(await owner(again, topic=f"t{number}"), "b", 4)
            assert (taken.first, taken.last) == (0, 3)
