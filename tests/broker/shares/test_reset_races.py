"""A share group is sent elsewhere while its members are at work: what they did before has no say in it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.broker import Broker
from headwater.broker.shares.partition_owner import PartitionOwner
from headwater.broker.shares.records import Key
from headwater.broker.shares.state import Ack, Batch
from headwater.log.partition import StorageFailed
from headwater.testing import ManualClock
from tests.broker.disks import HandDisk, Held
from tests.broker.shares.test_coordinator import owner, settle, take

STATE_LOG = "__share_group_state-*/*.log"


def on(data: Path, disk: HandDisk) -> Broker:
    return Broker(data, "127.0.0.1:0", {}, clock=ManualClock(), files=disk)


@asynccontextmanager
async def while_held(disk: HandDisk, work: Any) -> AsyncIterator[asyncio.Future[Any]]:
    """`work` has sent its record to the disk, which does not answer until the block ends."""
    with disk.held("write", name=STATE_LOG) as held:
        running = asyncio.ensure_future(work)
        await asyncio.to_thread(Held.until_reached, held)
        yield running


async def start_after_restart(data: Path) -> int:
    async with on(data, HandDisk()) as node:
        state = (await owner(node)).state
        assert state is not None
        return state.start


def is_untouched(found: PartitionOwner, start: int) -> bool:
    state = found.state
    return state is not None and state.start == start and not state.settled_count()


async def test_an_acknowledgement_during_a_reset_hits_neither_the_new_state_nor_its_log(
    tmp_path: Path,
) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await owner(node)
        take(found, "a", 60)
        async with while_held(disk, found.reset(50)) as resetting:
            error, _ = await settle(found, "a", 0, 59, Ack.ACCEPT)
            assert error is not ErrorCode.none
        await resetting
        assert is_untouched(found, 50)
        assert [each.first for each in take(found, "b", 1)] == [50]
    assert await start_after_restart(tmp_path) == 50


async def test_an_acknowledgement_on_its_way_when_a_reset_comes_stays_with_the_old_state(
    tmp_path: Path,
) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await owner(node)
        take(found, "a", 60)
        async with while_held(disk, settle(found, "a", 0, 59, Ack.ACCEPT)) as settling:
            resetting = asyncio.ensure_future(found.reset(20))
            while found.state is not None:
                await asyncio.sleep(0)
        await asyncio.gather(settling, resetting)
        assert is_untouched(found, 20)
    assert await start_after_restart(tmp_path) == 20


async def test_a_dead_letter_that_takes_longer_than_a_reset_settles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on(tmp_path, HandDisk()) as node:
        found = await owner(node)
        take(found, "a", 60)

        async def slowly(*_: object) -> None:
            await found.reset(50)

        monkeypatch.setattr(node.shares.dead_letters, "put", slowly)
        error, _ = await settle(found, "a", 0, 59, Ack.REJECT)
        assert error is ErrorCode.invalid_record_state
        assert is_untouched(found, 50)
    assert await start_after_restart(tmp_path) == 50


async def test_records_that_were_read_before_a_reset_are_not_given_out_after_it(
    tmp_path: Path,
) -> None:
    async with on(tmp_path, HandDisk()) as node:
        found = await owner(node)
        seen = await found.open()
        await found.reset(50)
        assert found.acquire("a", [Batch(0, 9)], 0, 10, 10, True, seen) == []
        assert is_untouched(found, 50)


async def test_a_reset_that_the_disk_refuses_leaves_everything_as_it_was(tmp_path: Path) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await owner(node)
        take(found, "a", 5)
        assert (await settle(found, "a", 0, 2, Ack.ACCEPT))[0] is ErrorCode.none
        with disk.failing("write", code=errno.ENOSPC, name=STATE_LOG), pytest.raises(StorageFailed):
            await found.reset(50)
        assert found.state is not None and found.state.start == 3
    assert await start_after_restart(tmp_path) == 3


async def test_what_is_given_up_after_a_group_was_deleted_does_not_bring_it_back(
    tmp_path: Path,
) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        found = await owner(node)
        take(found, "a", 5)
        async with while_held(disk, node.shares.delete("g")) as deleting:
            await settle(found, "a", 0, 4, Ack.ACCEPT)
            found.release("a")
        assert await deleting is ErrorCode.none
        with pytest.raises(StorageFailed):
            await found.open()
    async with on(tmp_path, HandDisk()) as node:
        assert node.shares.list() == []


async def test_a_group_whose_beginning_the_disk_refuses_is_not_there(tmp_path: Path) -> None:
    disk = HandDisk()
    async with on(tmp_path, disk) as node:
        there = await owner(node)
        new = node.shares.owner(Key("new", there.key.topic_id, 0), "t")
        with disk.failing("write", code=errno.ENOSPC, name=STATE_LOG), pytest.raises(StorageFailed):
            await new.reset(50)
        assert [name for name, _ in node.shares.list()] == ["g"]
