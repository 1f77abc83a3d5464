"""A share group that is deleted while somebody is at work on it, or while the disk refuses."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.broker import Broker
from headwater.log.partition import StorageFailed
from headwater.testing import ManualClock
from tests.broker.disks import HandDisk
from tests.broker.shares.test_coordinator import keeper
from tests.broker.shares.test_reset_races import STATE_LOG, on, while_held


async def is_there_after_restart(data: Path) -> bool:
    async with on(data, HandDisk()) as node:
        return node.shares.has("g")


async def test_a_deleted_share_group_does_not_come_back_with_a_snapshot(tmp_path: Path) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await keeper(node)
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
        found = await keeper(node)
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
        await keeper(node)
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
        goes = await keeper(node)
        number = node.shares.states.partition(goes.key).number
        names = (f"other-{n}" for n in range(100))
        stays = goes
        while node.shares.states.partition(stays.key).number == number:
            stays = await keeper(node, topic=next(names))
        refusing = node.shares.states.partition(stays.key).number
        refused = disk.failing("write", code=errno.ENOSPC, name=f"*_state-{refusing}/*.log")
        with refused, pytest.raises(StorageFailed):
            await node.shares.forget([goes.key, stays.key])
        again = node.shares.keeper(goes.key, "t")
        assert again is not goes
        assert (await again.open()).start >= 0
        assert (await stays.open()).start >= 0


async def test_a_deletion_that_the_disk_refused_has_not_happened(tmp_path: Path) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await keeper(node)
        with disk.failing("write", code=errno.ENOSPC, name=STATE_LOG):
            assert await node.shares.delete("g") is ErrorCode.kafka_storage_error
        assert node.shares.has("g")
        assert not found.is_gone
        assert (await found.open()).start >= 0
    assert await is_there_after_restart(tmp_path)
