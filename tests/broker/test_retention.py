"""The ring buffer: old segments go by size and by time, and only who had fallen behind notices."""

from __future__ import annotations

import asyncio
import errno
import itertools
import shutil
import threading
from pathlib import Path
from typing import Any

from headwater.broker.broker import DUTY_THREADS
from headwater.record import batch as batches
from headwater.testing import ManualClock
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, serving
from tests.compat.asking import EARLIEST, LATEST, fetch, fetch_request, offset_at, produce
from tests.compat.batches import NOW_MS, batch, read_batches
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

HOUR_MS = 3_600_000
SMALL = {"internal_segment_bytes": 1000}


def put(wire: Wire, topic: str, count: int, size: int = 400, at: int = NOW_MS) -> None:
    for _ in range(count):
        row = produce(wire, topic, batch([(None, bytes(size))], timestamps=[at]))
        assert row.error_code is ErrorCode.none, row


def retain(broker: Serving) -> None:
    broker.run(broker.broker.housekeeping.retain())


def start(wire: Wire, topic: str) -> int:
    return int(offset_at(wire, topic, EARLIEST).offset)


def segments(broker: Serving, topic: str) -> list[int]:
    """Base offsets, as the files' names say them."""
    return sorted(int(path.stem) for path in broker.broker.data.glob(f"{topic}-0/*.log"))


def test_the_oldest_segments_go_when_there_are_too_many_bytes(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "ring", retention_bytes=3000, **SMALL)
        create(wire, "keeps", **SMALL)
        for topic in ("ring", "keeps"):
            put(wire, topic, 20)
        retain(broker)
        assert start(wire, "keeps") == 0
        first = start(wire, "ring")
        assert segments(broker, "ring")[0] == first > 0
        size = broker.call(broker.log("ring").size)
        assert 3000 <= size < 4100, "as much as was asked for, and less than a segment more"
        assert offset_at(wire, "ring", LATEST).offset == 20
    with serving(data) as broker, broker.wire() as wire:
        assert start(wire, "ring") == first
        assert fetch(wire, "ring", first).error_code is ErrorCode.none


def test_only_the_consumer_that_fell_behind_is_told(data: Path) -> None:
    with (
        serving(data) as broker,
        broker.wire() as wire,
        broker.wire() as behind,
        broker.wire() as ahead,
        broker.wire() as at_the_end,
    ):
        create(wire, "ring", retention_bytes=1000, **SMALL)
        put(wire, "ring", 10)
        assert fetch(behind, "ring", 0).error_code is ErrorCode.none
        at_the_end.send("fetch", 12, **fetch_request("ring", 10, max_wait=20_000))
        retain(broker)
        first = start(wire, "ring")
        told = fetch(behind, "ring", 2)
        assert (told.error_code, told.records or b"") == (ErrorCode.offset_out_of_range, b"")
        assert told.log_start_offset == first, "so that it can go on where there is something"
        found = fetch(ahead, "ring", first)
        assert read_batches(found.records)[0].base_offset == first
        put(wire, "ring", 1)
        (late,) = read_batches(at_the_end.receive()[1].responses[0].partitions[0].records)
        assert late.base_offset == 10
        both = fetch_request("ring", 2, max_wait=1)
        both["topics"][0]["partitions"][0]["fetch_offset"] = 2
        create(wire, "other")
        put(wire, "other", 1)
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        both["topics"].append({"topic": "other", "partitions": [part]})
        answers = behind.ask("fetch", 12, **both).responses
        codes = [answer.partitions[0].error_code for answer in answers]
        assert codes == [ErrorCode.offset_out_of_range, ErrorCode.none]


def test_segments_go_when_their_latest_record_is_too_old(data: Path) -> None:
    clock = ManualClock(NOW_MS)
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t", retention_ms=5 * HOUR_MS, **SMALL)
        for _ in range(4):
            put(wire, "t", 2, at=clock.now_ms())
            clock.advance(HOUR_MS)
        retain(broker)
        assert start(wire, "t") == 0
        clock.advance(HOUR_MS + 1)
        retain(broker)
        assert start(wire, "t") == 2
        clock.advance(HOUR_MS)
        retain(broker)
        assert start(wire, "t") == 4
        clock.advance(10 * HOUR_MS)
        retain(broker)
        assert start(wire, "t") == offset_at(wire, "t", LATEST).offset == 8, "the active one too"
        assert segments(broker, "t") == [8]
        put(wire, "t", 1, at=clock.now_ms())
        assert read_batches(fetch(wire, "t", 8).records)[0].base_offset == 8


def test_one_late_record_keeps_its_segment(data: Path) -> None:
    clock = ManualClock(NOW_MS)
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t", retention_ms=HOUR_MS, **SMALL)
        put(wire, "t", 1, at=NOW_MS)
        put(wire, "t", 1, at=NOW_MS + HOUR_MS // 2)
        put(wire, "t", 4, at=NOW_MS)
        clock.advance(HOUR_MS + 1)
        retain(broker)
        assert start(wire, "t") == 0, "the oldest segment is not the oldest in time"
        clock.advance(HOUR_MS // 2)
        retain(broker)
        assert start(wire, "t") == 6


def test_without_bounds_everything_stays(data: Path) -> None:
    clock = ManualClock(NOW_MS)
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t", retention_ms=-1, retention_bytes=-1, **SMALL)
        create(wire, "compacted", retention_ms=1, cleanup_policy="compact", **SMALL)
        put(wire, "t", 6)
        for _ in range(6):
            produce(wire, "compacted", batch([(b"k", bytes(400))]))
        clock.advance(10_000 * HOUR_MS)
        retain(broker)
        assert (start(wire, "t"), start(wire, "compacted")) == (0, 0)


def test_a_changed_bound_counts_at_once(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", **SMALL)
        put(wire, "t", 10)
        retain(broker)
        assert start(wire, "t") == 0
        change = {"name": "retention.bytes", "config_operation": 0, "value": "1500"}
        asked = {"resource_type": 2, "resource_name": "t", "configs": [change]}
        wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
        retain(broker)
        assert start(wire, "t") == 6


def test_it_runs_by_itself_while_the_topic_is_written_and_read(data: Path) -> None:
    """The ring turns: the log stays small, and a reader that keeps up misses nothing."""
    settings = {"log.retention.check.interval.ms": 100}
    with serving(data, settings) as broker, broker.wire() as wire, broker.wire() as reader:
        create(wire, "t", retention_bytes=20_000, internal_segment_bytes=5000)
        position, numbers = 0, itertools.count()
        while start(wire, "t") < 300:
            for _ in range(10):
                value = b"%8d" % next(numbers) * 20
                produce(wire, "t", batch([(None, value)]))
            while position < offset_at(wire, "t", LATEST).offset:
                for each in read_batches(fetch(reader, "t", position).records):
                    assert each.base_offset == position
                    position = each.last_offset + 1


def test_a_read_under_way_is_finished_with_what_it_began(data: Path) -> None:
    """Retention removes the file; the reader in the other thread still has it."""
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire, broker.wire() as reader:
        create(wire, "t", retention_bytes=1000, **SMALL)
        put(wire, "t", 10)
        disk.cold = "t-0/*.log"
        with disk.held("read", "t-0/00000000000000000000.log") as held:
            reader.send("fetch", 12, **fetch_request("t", 0, max_wait=1))
            held.until_reached()
            partition = broker.broker.topics.partitions["t", 0]
            housekeeping = broker.broker.housekeeping
            retained = broker.begin(housekeeping.retain_partition(partition, NOW_MS))
            until(lambda: 0 not in segments(broker, "t"), "the file to be gone")
            held.release()
            found = reader.receive()[1].responses[0].partitions[0]
            retained.result(60)
        assert found.error_code in (ErrorCode.none, ErrorCode.offset_out_of_range)
        if found.error_code is ErrorCode.none:
            assert read_batches(found.records)[0].base_offset == 0
        assert fetch(reader, "t", 0).error_code is ErrorCode.offset_out_of_range


def test_a_record_that_arrives_while_retention_looks_is_kept(data: Path) -> None:
    """An idle log is looked at in a thread; the active segment is too old until something comes."""
    clock = ManualClock(NOW_MS)
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t", retention_ms=HOUR_MS)
        put(wire, "t", 2)
        clock.advance(2 * HOUR_MS)
        partition = broker.broker.topics.partitions["t", 0]

        async def race() -> None:
            now_ms = clock.now_ms()
            looking = broker.broker.housekeeping.retain_partition(partition, now_ms)
            task = asyncio.create_task(looking)
            await asyncio.sleep(0)
            all_threads = threading.Barrier(DUTY_THREADS)  # once all are here, it has looked
            waits = [broker.broker.duties.submit(all_threads.wait) for _ in range(DUTY_THREADS)]
            assert all(each.result(60) >= 0 for each in waits)
            fresh = batch([(None, b"fresh")], timestamps=[now_ms])
            offset = partition.append(fresh, batches.read_header(fresh), now_ms)
            await partition.durable(offset + 1)
            await task

        broker.run(race())
        found = fetch(wire, "t", 2)
        assert found.error_code is ErrorCode.none, "an acknowledged record is gone"
        assert read_batches(found.records)[0].base_offset == 2
        clock.advance(2 * HOUR_MS)
        retain(broker)
        assert start(wire, "t") == 3, "in its own time"


def test_what_could_not_go_because_the_disk_was_full_goes_when_there_is_room(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "ring", retention_bytes=1000, **SMALL)
        put(wire, "ring", 10)
        with disk.full():
            retain(broker)
            assert segments(broker, "ring")[0] == 0, "the new start could not be written down"
        first = start(wire, "ring")
        retain(broker)
        assert segments(broker, "ring")[0] == start(wire, "ring") == first > 0


def test_no_segment_goes_before_its_producers_are_on_disk(data: Path) -> None:
    """Whose retry comes after a kill: it must not be stored again."""
    disk, written = HandDisk(), batch([(None, bytes(400))], producer=(7, 0, 0))
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "ring", retention_bytes=1000, **SMALL)
        assert produce(wire, "ring", written).base_offset == 0
        with disk.failing("write_atomic", code=errno.ENOSPC, name="*.snapshot"):
            put(wire, "ring", 10)
            retain(broker)
            assert segments(broker, "ring")[0] == start(wire, "ring") == 0
        retain(broker)
        assert segments(broker, "ring")[0] == start(wire, "ring") > 0
        copy = data.with_name("killed")
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*.tmp"))
    with serving(copy) as broker, broker.wire() as wire:
        assert produce(wire, "ring", written).base_offset == 0, "stored twice"
        assert offset_at(wire, "ring", LATEST).offset == 11


def test_on_a_full_disk_those_go_that_are_covered(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "ring", retention_bytes=1000, **SMALL)
        put(wire, "ring", 10)
        with disk.failing("write_atomic", code=errno.ENOSPC, name="*.snapshot"):
            put(wire, "ring", 10)
            retain(broker)
            first = start(wire, "ring")
            assert 0 < first <= 10
            assert segments(broker, "ring")[0] == first
        retain(broker)
        assert start(wire, "ring") > 10


# ---- DeleteRecords ----------------------------------------------------------------------------------


def delete_records(wire: Wire, offset: int) -> Any:
    rows = [{"partition_index": 0, "offset": offset}]
    topics = [{"name": "t", "partitions": rows}]
    return wire.ask("delete_records", 2, topics=topics, timeout=9000).topics[0].partitions[0]


def test_deleted_records_are_gone_with_their_files_and_stay_gone(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", **SMALL)
        put(wire, "t", 10)
        assert delete_records(wire, 5).low_watermark == 5
        assert segments(broker, "t") == [4, 6, 8], "whole segments before it go at once"
        assert fetch(wire, "t", 4).error_code is ErrorCode.offset_out_of_range
        assert read_batches(fetch(wire, "t", 5).records)[0].base_offset == 5
        assert delete_records(wire, 3).low_watermark == 5, "never back"
        copy = data.with_name("killed")
        shutil.copytree(data, copy)
    for folder in (data, copy):
        with serving(folder) as broker, broker.wire() as wire:
            assert start(wire, "t") == 5
            assert fetch(wire, "t", 4).error_code is ErrorCode.offset_out_of_range
            assert delete_records(wire, -1).low_watermark == 10
            assert start(wire, "t") == offset_at(wire, "t", LATEST).offset == 10
            put(wire, "t", 1)
            assert offset_at(wire, "t", LATEST).offset == 11


def test_records_that_are_not_durable_yet_cannot_be_deleted(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire, broker.wire() as admin:
        create(wire, "t")
        put(wire, "t", 2)
        with disk.held("sync", "t-0/*.log") as held:
            row = {"index": 0, "records": batch()}
            asked = [{"name": "t", "partition_data": [row]}]
            wire.send("produce", 9, acks=-1, timeout=5000, topic_data=asked)
            held.until_reached()
            assert delete_records(admin, 3).error_code is ErrorCode.offset_out_of_range
            assert delete_records(admin, -1).low_watermark == 2
            held.release()
            wire.receive()
        assert offset_at(wire, "t", LATEST).offset == 3


def test_many_that_delete_at_once_are_all_answered_and_all_remembered(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t", 6)
        problems: list[BaseException] = []

        def work(partition: int) -> None:
            try:
                with broker.wire() as wire:
                    for number in range(25):
                        produce(wire, "t", batch(), partition=partition)
                        rows = [{"partition_index": partition, "offset": number + 1}]
                        topics = [{"name": "t", "partitions": rows}]
                        answer = wire.ask("delete_records", 2, topics=topics, timeout=9000)
                        row = answer.topics[0].partitions[0]
                        assert (row.error_code, row.low_watermark) == (ErrorCode.none, number + 1)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
        copy = data.with_name("killed")
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*.tmp"))
    with serving(copy) as broker:
        assert [broker.log("t", number).start_offset for number in range(6)] == [25] * 6


def test_what_is_wanted_now_stays_though_it_was_looked_at_under_other_configs(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", retention_ms=1, **SMALL)
        put(wire, "t", 10)
    disk, change = HandDisk(), {"name": "retention.ms", "config_operation": 0, "value": "-1"}
    with serving(data, files=disk) as broker, broker.wire() as wire:
        partition = broker.broker.topics.partitions["t", 0]
        with disk.held("open", "t-0/*.timeindex") as held:
            retaining = broker.begin(
                broker.broker.housekeeping.retain_partition(partition, NOW_MS + HOUR_MS)
            )
            held.until_reached()
            asked = {"resource_type": 2, "resource_name": "t", "configs": [change]}
            answer = wire.ask(
                "incremental_alter_configs", 1, resources=[asked], validate_only=False
            )
            assert answer.responses[0].error_code is ErrorCode.none
        retaining.result(60)
        assert start(wire, "t") == 0
