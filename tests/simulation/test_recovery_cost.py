"""What a start after a crash costs depends on the tail, not on what lies before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.recovery import Report, open_partition
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

FOLDER = Path("/topic-0")
CONFIG = LogConfig(segment_bytes=50_000, index_interval_bytes=4096)
NOW_MS = 1_700_000_000_000
VALUE = bytes(900)


def filled(batch_count: int) -> tuple[FaultyDisk, PartitionLog]:
    disk = FaultyDisk()
    disk.make_dir(FOLDER)
    log, _ = open_partition(disk, FOLDER, CONFIG, NOW_MS)
    append(log, batch_count)
    return disk, log


def append(log: PartitionLog, batch_count: int, *, finish: bool = True) -> None:
    for number in range(batch_count):
        data = records.build(
            [Record(0, NOW_MS, b"key", VALUE)],
            producer_id=1,
            producer_epoch=0,
            base_sequence=log.next_offset,
        )
        log.stage(data, batches.read_header(data), NOW_MS)
        if number % 10 == 9 and finish:
            log.flush()
    if finish:
        log.flush()


def cost_after_crash(batch_count: int, *, power: bool) -> tuple[int, int]:
    """(bytes read at the next start, bytes of the log) with a tail of five batches.

    After a kill the log itself knows what was durable; after a power cut the last checkpoint may be
    all there is, here twenty batches old.
    """
    disk, log = filled(batch_count)
    append(log, 5, finish=False)
    commit = log.take()
    assert commit is not None
    for segment, position, buffers in commit.writes:
        segment.file.write(position, buffers)
    size = log.size()
    disk = disk.crash(3) if power else disk.kill()
    checkpoint = batch_count - 20 if power else 0
    log, report = open_partition(disk, FOLDER, CONFIG, NOW_MS, recovery_point=checkpoint)
    assert log.next_offset >= batch_count
    assert report.scanned_bytes <= (25 if power else 5) * 1000
    return disk.bytes_read, size


@pytest.mark.parametrize("power", [True, False])
def test_a_start_reads_as_much_of_a_large_log_as_of_a_small_one(power: bool) -> None:
    small, small_size = cost_after_crash(240, power=power)
    large, large_size = cost_after_crash(2400, power=power)
    assert large_size > 9 * small_size
    assert large < 1.3 * small + 2_000, f"{large} bytes read instead of {small}"


def test_a_start_after_a_clean_stop_scans_nothing() -> None:
    disk, log = filled(400)
    log.close()
    disk = disk.kill()
    before = disk.bytes_read
    log, report = open_partition(disk, FOLDER, CONFIG, NOW_MS, recovery_point=400, clean=True)
    assert report == Report()
    assert log.next_offset == 400
    assert disk.bytes_read - before < 10_000
    assert disk.counts["write"] == 0, "there is nothing to mend"
