"""Producers whose records have gone: a retry is known by a snapshot, or by what is about to go."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headwater.log import checkpoints
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.segment import Segment, file_name
from headwater.record import batch as batches
from headwater.testing.faulty_disk import FaultyDisk, PowerCut

from .plain import FOLDER, NOW_MS, batch_of, new_disk, new_log, opened

P, Q = 1, 2
SMALL = LogConfig(segment_bytes=300)
SNAPSHOTS = "*.snapshot.tmp"


def written(who: int, sequence: int) -> bytes:
    values = {"producer_id": who, "producer_epoch": 0, "base_sequence": sequence}
    return batch_of(b"v" * 60, **values)


def put(log: PartitionLog, who: int, sequence: int) -> None:
    data = written(who, sequence)
    log.stage(data, batches.read_header(data), NOW_MS)
    log.flush()


def knows(log: PartitionLog, who: int, sequence: int) -> bool:
    return log.check_producer(batches.read_header(written(who, sequence))) is not None


def of_p(disk: FaultyDisk) -> PartitionLog:
    log = new_log(disk, segment_bytes=SMALL.segment_bytes)
    for sequence in range(2):
        put(log, P, sequence)
    return log


def delete_all(disk: FaultyDisk, log: PartitionLog) -> None:
    log.delete_before(log.durable_offset)
    checkpoints.write_start_offset(disk, FOLDER, log.start_offset)


def remove(gone: list[Segment]) -> None:
    for segment in gone:
        segment.remove()


def test_whose_records_were_deleted_is_known_after_a_power_cut_at_any_step_of_the_next_roll() -> (
    None
):
    step, cut = 0, True
    while cut:
        step += 1
        disk = new_disk()
        log = of_p(disk)
        delete_all(disk, log)
        data = written(Q, 0)
        disk.stop_after(step)
        try:
            log.stage(data, batches.read_header(data), NOW_MS)
            log.flush()
            cut = False
        except PowerCut:
            pass
        for seed in range(3):
            again, _ = opened(disk.crash(seed), SMALL)
            assert knows(again, P, 1), f"step {step}, seed {seed}"
            assert again.start_offset == 2
    assert step > 3


def test_whose_segment_is_about_to_go_after_a_kill_in_a_roll_is_not_forgotten_by_the_next() -> None:
    disk = new_disk()
    log = of_p(disk)
    disk.fail("write", errno.ENOSPC, name=SNAPSHOTS)
    put(log, Q, 0)
    disk = disk.kill()
    log, _ = opened(disk, SMALL)
    assert knows(log, P, 1)
    with pytest.raises(ValueError, match="forgotten"):
        log.drop_front(1)
    log.snapshots.is_due = True
    log.flush()
    gone = log.drop_front(1)
    checkpoints.write_start_offset(disk, FOLDER, log.start_offset)
    remove(gone)
    again, _ = opened(disk.kill(), SMALL)
    assert again.start_offset == 2
    assert knows(again, P, 1)


def test_a_log_that_is_read_anew_after_a_refused_write_forgets_nobody() -> None:
    disk = new_disk()
    log = of_p(disk)
    delete_all(disk, log)
    disk.fail("write", errno.EMFILE, name=SNAPSHOTS)
    put(log, Q, 0)
    again, _ = opened(
        disk, SMALL, recovery_point=log.synced_offset, start_offset=2, cut_at=log.durable_offset
    )
    assert again.start_offset == 2
    assert knows(again, P, 1)


def test_what_was_in_the_way_of_a_snapshot_is_over_with_the_next_batch() -> None:
    disk = new_disk()
    log = of_p(disk)
    disk.fail("write", errno.EMFILE, name=SNAPSHOTS)
    put(log, Q, 0)
    assert not log.snapshots.reach(2)
    put(log, Q, 1)
    assert log.snapshots.on_disk == [4]
    assert file_name(4, ".snapshot") in disk.list(FOLDER)
    assert log.snapshots.reach(2)
    assert knows(opened(disk.kill(), SMALL)[0], P, 1)


def test_segments_before_the_start_that_a_snapshot_speaks_for_go_when_a_log_is_opened() -> None:
    disk = new_disk()
    log = of_p(disk)
    put(log, Q, 0)
    log.delete_before(2)
    checkpoints.write_start_offset(disk, FOLDER, 2)
    again, _ = opened(disk.kill(), SMALL)
    assert [segment.base_offset for segment in again.segments] == [2]
    assert file_name(0, ".log") not in again.files.list(FOLDER)
    assert knows(again, P, 1)


def test_others_go_with_the_next_retention_behind_a_snapshot() -> None:
    disk = new_disk()
    log = of_p(disk)
    delete_all(disk, log)
    disk.fail("write", errno.ENOSPC, name=SNAPSHOTS, times=99)
    put(log, Q, 0)
    disk = disk.kill()
    log, _ = opened(disk, SMALL)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert not log.snapshots.reach(2)
    assert log.read(2, 1000)
    log.snapshots.is_due = True
    log.flush()
    remove(log.drop_front(1))
    again, _ = opened(disk.kill(), SMALL)
    assert [segment.base_offset for segment in again.segments] == [2]
    assert knows(again, P, 1)


def test_no_log_is_offline_because_of_deleted_records_that_cannot_be_read() -> None:
    disk = new_disk()
    log = of_p(disk)
    delete_all(disk, log)
    disk.fail("write", errno.ENOSPC, name=SNAPSHOTS)
    put(log, Q, 0)
    disk = disk.kill()
    disk.fail("read", name=file_name(0, ".log"), times=99)
    again, _ = opened(disk, SMALL)
    assert again.start_offset == 2
    assert knows(again, Q, 0)


class Listed:
    """Counts how often the log's folder is listed."""

    def __init__(self, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times, self._list = 0, disk.list
        monkeypatch.setattr(disk, "list", self)

    def __call__(self, directory: Path) -> list[str]:
        self.times += directory == FOLDER
        return self._list(directory)


def test_a_start_lists_a_folder_no_more_often_for_more_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[int] = []
    for segments in (5, 50):
        log = new_log(disk := new_disk(), segment_bytes=SMALL.segment_bytes, durability="os")
        for sequence in range(2 * segments):
            put(log, P, sequence)
        listed = Listed(disk := disk.kill(), monkeypatch)
        assert len(opened(disk, SMALL)[0].segments) == segments
        times.append(listed.times)
    assert times[0] == times[1] > 0


def test_a_roll_lists_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()
    log, _ = opened(disk, SMALL)
    listed = Listed(disk, monkeypatch)
    for sequence in range(20):
        put(log, P, sequence)
    assert len(log.segments) == 10
    assert listed.times == 0
