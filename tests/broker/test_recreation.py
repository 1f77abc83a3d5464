"""A topic that was deleted and made again is a new one: nothing of the old one counts."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import wait
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.log import compaction
from headwater.log.compaction import Plan
from headwater.log.compaction_plan import Source
from headwater.record import batch as batches
from headwater.testing.clock import ManualClock
from headwater.testing.faulty_disk import FaultyDisk
from tests.broker.disks import HandDisk
from tests.broker.processes import broker_process
from tests.broker.serving import create, delete, serving
from tests.compat.asking import end_offset, produce, read_all
from tests.compat.batches import batch
from tests.compat.wire import ErrorCode, Wire

ROOT = Path("/data")


def delete_records(wire: Wire, topic: str, offset: int, partition: int = 0) -> None:
    part = {"partition_index": partition, "offset": offset}
    asked = [{"name": topic, "partitions": [part]}]
    answer = wire.ask("delete_records", 2, topics=asked, timeout=9000)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def test_what_is_written_after_a_topic_was_made_again_survives_kill_9(data: Path) -> None:
    with broker_process(data) as process, process.wire() as wire:
        create(wire, "t", 2)
        for number in range(2):
            produce(wire, "t", batch([(None, b"old")] * 60), partition=number)
            delete_records(wire, "t", 60, number)
        delete(wire, "t")
        create(wire, "t")
        for _ in range(50):
            assert produce(wire, "t", batch([(None, b"new")])).error_code is ErrorCode.none
        grown = {"name": "t", "count": 2, "assignments": None}
        wire.ask("create_partitions", 3, topics=[grown], timeout=9000)
        for _ in range(50):
            assert produce(wire, "t", batch(), partition=1).error_code is ErrorCode.none
        process.kill()
    with serving(data) as broker, broker.wire() as wire:
        assert len(read_all(wire, "t")) == 50
        assert end_offset(wire, "t", 1) == 50
        assert broker.log("t", 1).start_offset == 0


@pytest.mark.parametrize("operation", ["rename", "sync_dir"])
def test_the_same_if_the_old_folder_could_not_be_removed(data: Path, operation: str) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        produce(wire, "t", batch([(None, b"old")] * 60))
        delete_records(wire, "t", 60)
        with disk.failing(operation, name="t-0" if operation == "rename" else "data"):
            assert delete(wire, "t") is ErrorCode.none, "the catalogue says that it is gone"
        create(wire, "t")
        for _ in range(5):
            produce(wire, "t", batch([(None, b"new")]))
        copy = data.with_name("crashed")
        shutil.copytree(data, copy)
    with serving(copy) as broker, broker.wire() as wire:
        assert len(read_all(wire, "t")) == 5
        assert not broker.broker.store.set_aside


def test_a_topic_whose_making_failed_half_way_can_be_made(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        with disk.failing("create", name="t-2"):
            asked = {"name": "t", "num_partitions": 4, "replication_factor": 1, "configs": []}
            answer = wire.ask("create_topics", 7, topics=[asked], timeout=9000).topics[0]
            assert answer.error_code is ErrorCode.kafka_storage_error
        create(wire, "t", 4)
        assert produce(wire, "t", batch(), partition=2).base_offset == 0
        with disk.failing("create", name="t-5"):
            grown = {"name": "t", "count": 6, "assignments": None}
            answer = wire.ask("create_partitions", 3, topics=[grown], timeout=9000).results[0]
            assert answer.error_code is ErrorCode.kafka_storage_error
        assert not (data / "t-4").exists()
        wire.ask("create_partitions", 3, topics=[grown], timeout=9000)
        assert produce(wire, "t", batch(), partition=5).base_offset == 0


# ---- on the faulty disk: the power fails before each step ---------------------------------------------


def broker_on(disk: FaultyDisk) -> Broker:
    return Broker(ROOT, "127.0.0.1:0", clock=ManualClock(), files=disk)


async def put(partition: Partition, value: bytes) -> None:
    content = batch([(None, value)])
    offset = partition.append(content, batches.read_header(content), 0)
    await partition.durable(offset + 1)


async def test_no_moment_between_delete_and_create_loses_an_acknowledged_record() -> None:
    disk, moments = FaultyDisk(3), list[tuple[FaultyDisk, int]]()
    acknowledged = 0
    async with broker_on(disk) as broker:
        await broker.topics.create("t", 1, {})
        for _ in range(9):
            await put(broker.topics.partitions["t", 0], b"old")
        broker.topics.partitions["t", 0].log.delete_before(9)
        broker.store.checkpoint()
        disk.before_each_step(lambda: moments.append((disk.copy(), acknowledged)))
        await broker.topics.delete("t")
        await broker.topics.create("t", 1, {})
        for _ in range(4):
            await put(broker.topics.partitions["t", 0], b"new")
            acknowledged += 1
        disk.before_each_step(None)
        moments.append((disk.copy(), acknowledged))
    assert len(moments) > 20
    for number, (moment, promised) in enumerate(moments):
        for seed in range(3):
            after = moment.kill() if seed == 0 else moment.crash(100 * number + seed)
            await asyncio.wait_for(check(after, promised), 20)


async def check(disk: FaultyDisk, promised: int) -> None:
    async with broker_on(disk) as broker:
        assert not broker.store.set_aside
        if promised:
            log = broker.topics.partitions["t", 0].log
            assert log.start_offset == 0
            assert log.next_offset >= promised


def test_retention_of_the_old_topic_takes_no_file_of_the_new_one(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", retention_bytes=1000, internal_segment_bytes=1000)
        for _ in range(10):
            produce(wire, "t", batch([(None, bytes(400))]))
        topics = broker.broker.topics

        async def again() -> None:
            await topics.delete("t")
            await topics.create("t", 1, {})
            new = batch([(None, b"new")])
            offset = topics.partitions["t", 0].append(new, batches.read_header(new), 0)
            await topics.partitions["t", 0].durable(offset + 1)

        with disk.held("remove", "t-0/*.log") as held:
            retain = broker.broker.housekeeping.retain_partition
            retained = broker.begin(retain(topics.partitions["t", 0], 0))
            held.until_reached()
            made_again = broker.begin(again())
            wait([made_again], timeout=1)  # it may come so far, or wait for the removal
            held.release()
            retained.result(60)
            made_again.result(60)
        copy = data.with_name("killed")
        shutil.copytree(data, copy)
    for folder in (data, copy):
        with serving(folder) as broker, broker.wire() as wire:
            assert len(read_all(wire, "t")) == 1


def test_segments_made_for_the_old_topic_are_not_put_into_the_new_one(data: Path) -> None:
    """A compaction that was at work when its topic was deleted."""
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", internal_segment_bytes=1000, cleanup_policy="compact")
        for _ in range(10):
            produce(wire, "t", batch([(b"k", bytes(400))]))
        old = broker.broker.topics.partitions["t", 0]
        segments = old.log.segments[:-1]
        sources = tuple(Source(s.base_offset, s.next_offset, s.size) for s in segments)
        plan = Plan((sources,), 0, 0, 0, 4096, {}, segments=tuple(segments))
        result = compaction.compact(disk, old.log.directory, plan)
        made = {path.name: path.read_bytes() for path in old.log.directory.glob("*.cleaned")}
        assert made
        delete(wire, "t")
        create(wire, "t", cleanup_policy="compact")
        produce(wire, "t", batch([(b"k", b"new")]))
        for name, content in made.items():  # its process had not ended yet
            (data / "t-0" / name).write_bytes(content)
        assert not broker.run(broker.broker.maintenance.put_in_place(old, plan, result))
    with serving(data) as broker, broker.wire() as wire:
        (found,) = read_all(wire, "t")
        assert found.base_offset == 0
