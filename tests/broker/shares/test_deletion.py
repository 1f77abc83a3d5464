"""A share group that is deleted while somebody is at work on it, or while the disk refuses."""

from __future__ import annotations

import asyncio
import errno
import gc
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.broker.broker import Broker
from headwater.broker.registry import Context
from headwater.broker.shares.membership import GroupError
from headwater.broker.shares.records import Key
from headwater.broker.shares.state_topic import coordinator_key
from headwater.log.partition import StorageFailed
from headwater.testing import ManualClock
from tests.broker.disks import HandDisk
from tests.broker.shares.test_coordinator import owner
from tests.broker.shares.test_reset_races import STATE_LOG, on, while_held
from tests.compat.wire import build


async def is_there_after_restart(data: Path) -> bool:
    async with on(data, HandDisk()) as node:
        return node.shares.has("g")


async def test_a_deleted_share_group_does_not_come_back_with_a_snapshot(tmp_path: Path) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await owner(node)
        async with while_held(disk, node.shares.delete("g")) as deleting:
            with pytest.raises(StorageFailed):
                found.snapshot()
            node.shares.states.known[found.key].snapshot_at -= 10_000  # as if it lay far back
            tidying = asyncio.ensure_future(node.shares.tidy())
            await asyncio.sleep(0)
        assert await deleting is ErrorCode.none
        await tidying
    assert not await is_there_after_restart(tmp_path)


async def test_a_deleted_share_group_does_not_come_back_with_a_new_beginning(
    tmp_path: Path,
) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await owner(node)
        async with while_held(disk, node.shares.delete("g")) as deleting:
            resetting = asyncio.ensure_future(found.reset(5))
            await asyncio.sleep(0)
        assert await deleting is ErrorCode.none
        with pytest.raises(StorageFailed):
            await resetting
    assert not await is_there_after_restart(tmp_path)


async def test_a_share_group_is_deleted_though_the_client_that_asked_for_it_goes_away(
    tmp_path: Path,
) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        await owner(node)
        async with while_held(disk, node.shares.delete("g")) as deleting:
            deleting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await deleting
        await node.shares.stop()
        assert not node.shares.has("g")
    assert not await is_there_after_restart(tmp_path)


async def test_what_is_forgotten_while_the_disk_refuses_the_rest_may_begin_again(
    tmp_path: Path,
) -> None:
    disk = HandDisk()
    settings = {"share.coordinator.state.topic.num.partitions": 8}
    async with Broker(tmp_path, "127.0.0.1:0", settings, clock=ManualClock(), files=disk) as node:
        goes = await owner(node)
        number = node.shares.states.partition_of(coordinator_key(goes.key)).number
        names = (f"other-{n}" for n in range(100))
        stays = goes
        while node.shares.states.partition_of(coordinator_key(stays.key)).number == number:
            stays = await owner(node, topic=next(names))
        refusing = node.shares.states.partition_of(coordinator_key(stays.key)).number
        refused = disk.failing("write", code=errno.ENOSPC, name=f"*_state-{refusing}/*.log")
        with refused, pytest.raises(StorageFailed):
            await node.shares.forget([goes.key, stays.key])
        again = node.shares.owner(goes.key, "t")
        assert again is not goes
        assert (await again.open()).start >= 0
        assert (await stays.open()).start >= 0


async def test_a_deletion_that_the_disk_refused_has_not_happened(tmp_path: Path) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await owner(node)
        with disk.failing("write", code=errno.ENOSPC, name=STATE_LOG):
            assert await node.shares.delete("g") is ErrorCode.kafka_storage_error
        assert node.shares.has("g")
        assert not found.is_gone
        assert (await found.open()).start >= 0
    assert await is_there_after_restart(tmp_path)


def join(node: Broker, member: str = "m", epoch: int = 0) -> None:
    node.shares.heartbeat("g", member, epoch, ("t",), ("client", "/host"), None)


async def test_nobody_joins_a_share_group_that_is_being_deleted(tmp_path: Path) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await owner(node)
        other = await node.topics.create("other", 1, {})
        async with while_held(disk, node.shares.delete("g")) as deleting:
            with pytest.raises(GroupError) as refused:
                join(node)
            assert refused.value.code is ErrorCode.coordinator_load_in_progress
            with pytest.raises(StorageFailed):
                node.shares.owner(Key("g", other.id, 0), "other")
            assert await node.shares.delete("g") is ErrorCode.coordinator_load_in_progress
        assert await deleting is ErrorCode.none
        assert not node.shares.has("g")
        assert not node.shares.states.known
        assert not node.shares.owners
        join(node)
        again = node.shares.owner(found.key, "t")
        assert (await again.open()).start >= 0
    assert await is_there_after_restart(tmp_path)


async def test_a_share_partition_that_begins_while_its_group_is_deleted_does_not_bring_it_back(
    tmp_path: Path,
) -> None:
    """A member that has left may still fetch."""
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        await owner(node)
        other = await node.topics.create("other", 1, {})
        late = node.shares.owner(Key("g", other.id, 0), "other")
        async with late._opening:
            begins = asyncio.ensure_future(late.open())
            await asyncio.sleep(0)
            assert await node.shares.delete("g") is ErrorCode.none
        with pytest.raises(StorageFailed):
            await begins
        assert not node.shares.states.known
    assert not await is_there_after_restart(tmp_path)


def asked(key: int, **values: Any) -> Any:
    return build(load_request_schema(key, 0), {"group_id": "g", **values})


BEGIN = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 5}]}]


@pytest.mark.parametrize("key", [91, 92])
async def test_nobody_joins_a_share_group_while_it_is_sent_elsewhere(
    tmp_path: Path, key: int
) -> None:
    disk = HandDisk()
    context = Context(0, "client", "host")
    async with on(tmp_path, disk) as node:
        await owner(node)
        request = asked(key, topics=BEGIN if key == 91 else [{"topic_name": "t"}])
        async with while_held(disk, node.apis[key].handle(node, request, context)) as running:
            with pytest.raises(GroupError) as refused:
                join(node)
            assert refused.value.code is ErrorCode.coordinator_load_in_progress
            assert await node.shares.delete("g") is ErrorCode.coordinator_load_in_progress
        assert (await running)["responses"]
        join(node)


async def test_a_name_that_a_share_group_is_about_to_have_is_no_other_groups(
    tmp_path: Path,
) -> None:
    disk = HandDisk()
    context = Context(0, "client", "host")
    async with on(tmp_path, disk) as node:
        await owner(node, group="first")
        async with while_held(
            disk, node.apis[91].handle(node, asked(91, topics=BEGIN), context)
        ) as running:
            assert node.shares.has("g")
        await running
        nowhere = [{"topic_name": "none", "partitions": BEGIN[0]["partitions"]}]
        request = build(load_request_schema(91, 0), {"group_id": "h", "topics": nowhere})
        await node.apis[91].handle(node, request, context)
        assert not node.shares.has("h")


@pytest.mark.filterwarnings("error")
async def test_a_stop_ends_what_has_just_been_asked_for_before_it_has_begun(tmp_path: Path) -> None:
    async with on(tmp_path, HandDisk()) as node:
        going = asyncio.create_task(node.shares.forget([]))
        await asyncio.sleep(0)  # its own task is made, and has had no turn yet
        await node.supervisor.stop()
        with pytest.raises(asyncio.CancelledError):
            await going
    gc.collect()
