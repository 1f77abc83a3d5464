"""The share coordinator in a running broker: what a restart finds, and how long its log gets."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.broker import Broker
from headwater.broker.shares.fetch import ShareFetch, Wanted
from headwater.broker.shares.membership import GroupError
from headwater.broker.shares.partition_owner import PartitionOwner
from headwater.broker.shares.records import Key
from headwater.broker.shares.sessions import SessionKey
from headwater.broker.shares.state import Ack, Acknowledgement, Batch, Change, State
from headwater.broker.shares.state_topic import NAME
from headwater.log.partition import StorageFailed
from headwater.record import batch as batches
from headwater.record import records
from headwater.testing import ManualClock

EVERY = {"share.coordinator.snapshot.update.records.per.snapshot": 7}
Shape = list[Change]


def running(data: Path) -> Broker:
    return Broker(data, "127.0.0.1:0", EVERY, clock=ManualClock())


async def owner(node: Broker, group: str = "g", topic: str = "t") -> PartitionOwner:
    """A share-partition of a topic with a hundred records, read from the beginning."""
    if topic not in node.catalogue.topics:
        await node.topics.create(topic, 1, {})
        partition = node.topics.partitions[topic, 0]
        data = records.build([records.Record(n, 0, None, b"%d" % n) for n in range(100)])
        await partition.durable(partition.append(data, batches.read_header(data), 0) + 100)
    found = node.shares.owner(Key(group, node.catalogue.topics[topic].id, 0), topic)
    if found.state is None:
        await found.reset(0)
    return found


def take(found: PartitionOwner, member: str, count: int) -> list[Any]:
    assert found.state is not None
    offset = found.state.next_offset(found.limits())
    if offset is None:
        return []
    there = [Batch(n, n) for n in range(offset, 100)]
    return found.acquire(member, there, offset, count, 500, True)


def settle(found: PartitionOwner, member: str, first: int, last: int, kind: Ack) -> Awaitable[Any]:
    return found.acknowledge(member, [Acknowledgement(first, last, [kind])])


def shape(found: PartitionOwner) -> tuple[int, Shape]:
    """What a restart must find: never delivered records at the end are as good as unknown."""
    assert found.state is not None
    kept = found.state.durable()
    while kept and (kept[-1].state, kept[-1].deliveries) == (State.AVAILABLE, 0):
        kept.pop()
    return found.state.start, kept


@pytest.mark.parametrize("seed", range(5))
async def test_a_restart_finds_what_was_there(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)
    async with running(tmp_path / "data") as node:
        found = await owner(node)
        held: dict[str, list[Any]] = {"a": [], "b": [], "c": []}
        for _ in range(60):
            member = dice.choice("abc")
            if dice.random() < 0.4:
                held[member] += take(found, member, dice.randint(1, 6))
            elif dice.random() < 0.1:
                found.release(member)
                held[member] = []
            elif held[member]:
                first, last, _ = held[member].pop(dice.randrange(len(held[member])))
                kind = dice.choice([Ack.ACCEPT, Ack.RELEASE, Ack.GAP])
                await settle(found, member, first, last, kind)
        before = shape(found)
        partition = node.topics.partitions[NAME, 0]
        await partition.durable(partition.log.next_offset)
        # What lies on the disk now is what kill -9 would leave.
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        (tmp_path / "copy" / ".lock").unlink(missing_ok=True)
    for name in ("copy", "data"):
        async with running(tmp_path / name) as again:
            assert shape(await owner(again)) == before
            assert again.shares.list() == [("g", "Empty")]


async def test_a_member_of_a_group_that_has_read_nothing_joins_again_after_a_restart(
    tmp_path: Path,
) -> None:
    """Clients give up where they are told that there is no such group."""
    mine = ("later",), ("client", "/host"), None
    async with running(tmp_path) as node:
        with pytest.raises(GroupError) as told:
            node.shares.heartbeat("never", "m", 3, *mine)
        assert told.value.code is ErrorCode.group_id_not_found
        await node.topics.create("t", 1, {})
        _, member = node.shares.heartbeat("g", "m", 0, *mine)
    async with running(tmp_path) as node:
        with pytest.raises(GroupError) as told:
            node.shares.heartbeat("g", "m", member.epoch + 1, *mine)
        assert told.value.code is ErrorCode.unknown_member_id


async def test_many_settlements_at_once_are_whole_after_a_restart(tmp_path: Path) -> None:
    """Snapshots are written while other settlements are still on their way to the disk."""
    async with running(tmp_path) as node:
        found = await owner(node)
        take(found, "a", 100)
        done = await asyncio.gather(
            *(settle(found, "a", n, n, Ack.ACCEPT) for n in range(1, 100, 2))
        )
        assert all(error.name == "none" for error, _ in done)
        before = shape(found)
    async with running(tmp_path) as again:
        assert shape(await owner(again)) == before


async def test_the_state_topic_is_pruned_and_an_idle_group_survives_it(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        idle, busy = await owner(node, "idle"), await owner(node, "busy")
        take(idle, "a", 5)
        await settle(idle, "a", 2, 3, Ack.ACCEPT)
        log = node.topics.partitions[NAME, 0].log
        for number in range(95):
            take(busy, "a", 1)
            await settle(busy, "a", number, number, Ack.ACCEPT)
        await node.shares.tidy()
        idle_at = node.shares.states.known[idle.key].snapshot_at
        assert log.start_offset == min(idle_at, node.shares.states.known[busy.key].snapshot_at), (
            "nothing needed is gone"
        )
        node.shares.states.known[idle.key].snapshot_at -= 10_000  # as if it lay far back
        await node.shares.tidy()
        assert log.next_offset - log.start_offset < 20
        before = shape(idle), shape(busy)
    async with running(tmp_path) as again:
        assert (shape(await owner(again, "idle")), shape(await owner(again, "busy"))) == before


async def test_one_that_cannot_be_written_keeps_no_other_from_being_pruned(tmp_path: Path) -> None:
    two = {**EVERY, "share.coordinator.state.topic.num.partitions": 2}
    async with Broker(tmp_path, "127.0.0.1:0", two, clock=ManualClock()) as node:
        found = [await owner(node, f"g{n}") for n in range(8)]
        fenced = found[0]
        number = node.shares.states.known[fenced.key].number
        busy = next(k for k in found if node.shares.states.known[k.key].number != number)
        for offset in range(20):
            take(busy, "a", 1)
            await settle(busy, "a", offset, offset, Ack.ACCEPT)
        for each in found:
            node.shares.states.known[each.key].snapshot_at -= 10_000  # as if they lay far back
        node.topics.partitions[NAME, number].log.fenced = True
        await node.shares.tidy()
        log = node.topics.partitions[NAME, 1 - number].log
        assert 0 < log.next_offset - log.start_offset < 20


async def test_a_deleted_group_and_a_deleted_topic_are_forgotten_for_good(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await owner(node, "gone")
        await owner(node, "stays")
        await owner(node, "stays", "short-lived")
        assert (await node.shares.delete("gone")).name == "none"
        await node.topics.delete("short-lived")
        await node.shares.tidy()
    async with running(tmp_path) as again:
        assert [name for name, _ in again.shares.list()] == ["stays"]
        assert len(again.shares.owners) == 1


async def test_a_lock_ends_by_the_clock(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        found = await owner(node)
        take(found, "a", 3)
        clock = node.clock
        assert isinstance(clock, ManualClock)
        clock.advance(29_900)
        found.expire()
        assert take(found, "b", 100)[0].first == 3
        clock.advance(200)
        found.expire()
        assert [tuple(each) for each in take(found, "c", 3)] == [(0, 2, 2)]


async def test_what_cannot_be_written_is_not_settled(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        found = await owner(node)
        take(found, "a", 4)
        partition = node.topics.partitions[NAME, 0]
        partition.refuse(StorageFailed("the disk is full"))
        error, message = await settle(found, "a", 0, 3, Ack.ACCEPT)
        assert error.name == "kafka_storage_error"
        assert message is not None
        assert found.state is not None
        assert found.state.start == 0
        assert [run.member for run in found.state.runs] == ["a"], "it may try again"


async def test_a_snapshot_that_could_not_be_written_is_not_relied_on(tmp_path: Path) -> None:
    """Pruning up to it would throw away all that is known."""
    async with running(tmp_path) as node:
        found = await owner(node)
        take(found, "a", 4)
        await settle(found, "a", 1, 2, Ack.ACCEPT)
        before = shape(found)
        partition = node.topics.partitions[NAME, 0]
        kept = node.shares.states.known[found.key].snapshot_at
        partition.refuse(StorageFailed("the disk is full"))
        with pytest.raises(StorageFailed):
            found.snapshot()
        assert node.shares.states.known[found.key].snapshot_at == kept
        node.shares.states.prune()
        assert partition.log.start_offset <= kept
    async with running(tmp_path) as again:
        assert shape(await owner(again)) == before


async def test_a_fetch_that_outlives_its_session_locks_nothing(tmp_path: Path) -> None:
    """Else nobody would give that back, nor forget that the member holds it."""
    async with running(tmp_path / "data") as node:
        found, shares = await owner(node), node.shares
        session = shares.sessions.begin(SessionKey("g", "a"), object(), 10)
        shares.sessions.update(session, [(found.key.topic_id, 0)], [])
        shares.end_sessions(session.key)
        wanted = Wanted(0, 1, 1 << 20, 100, 100, False)
        assert await ShareFetch(shares, session, wanted).run() == []
        assert not shares.releases
        (taken,) = take(found, "b", 100)
        assert (taken.first, taken.last) == (0, 99)
