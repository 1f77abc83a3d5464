"""A small file beside the segments that cannot be read counts as a damaged one: the log opens without it,
says so, and makes it anew."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import pytest

from headwater.log import checkpoints
from headwater.log.checkpoints import SmallFiles
from headwater.log.config import LogConfig
from headwater.log.files import Files
from headwater.log.recovery import open_partition
from headwater.record import batch as batches
from headwater.record import control

from .plain import FOLDER, NOW_MS, append, new_disk, new_log, opened, read_on

FIRST = "00000000000000000000"
BESIDE = [
    "00000000000000000003.snapshot",
    f"{FIRST}.index",
    f"{FIRST}.timeindex",
    f"{FIRST}.txnindex",
    checkpoints.DURABLE_OFFSET,
    checkpoints.LEADER_EPOCHS,
]


def fill(log) -> None:
    append(log, b"gone", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    data = control.marker(control.ABORT, 7, 0, 0, NOW_MS, 0)
    log.stage(data, batches.read_header(data), NOW_MS)
    append(log, b"kept")
    log.close()


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES])
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_opens_without_a_file_that_cannot_be_read(name: str, error: int, clean: bool) -> None:
    disk = new_disk()
    fill(new_log(disk))
    assert name in disk.list(FOLDER)
    disk = disk.kill()
    disk.fail("read", error, times=math.inf, name=name)
    log, report = opened(disk, recovery_point=3, clean=clean)
    assert read_on(log)[-1] == b"kept"
    assert log.next_offset == log.last_stable_offset() == 3
    assert [(each.first_offset, each.last_offset) for each in log.aborted_between(0, 3)] == [(0, 1)]
    assert [path.name for path in report.unreadable] in ([name], [])
    if not name.startswith(FIRST):  # indexes are read when they are needed
        assert [path.name for path in report.unreadable] == [name]


@pytest.mark.parametrize("times", [1, 3])
def test_one_that_is_misread_for_a_moment_is_read_again(times: int) -> None:
    """Without where logs begin, records that were deleted would come back, and for good."""
    disk = new_disk()
    path = FOLDER.parent / checkpoints.START_OFFSETS
    checkpoints.write_offsets(disk, path, {("t", 0): 30})
    disk.fail("read", errno.EIO, times=times, name=checkpoints.START_OFFSETS)
    small = SmallFiles(disk)
    assert checkpoints.read_offsets(small, path) == {("t", 0): 30}
    assert small.unreadable == {}


@pytest.mark.parametrize("name", BESIDE)
def test_a_directory_in_the_place_of_such_a_file_is_set_aside(tmp_path: Path, name: str) -> None:
    fill(open_partition(Files(), tmp_path, LogConfig(), NOW_MS)[0])
    (tmp_path / name).unlink()
    (tmp_path / name / "inside").mkdir(parents=True)
    log, _ = open_partition(Files(), tmp_path, LogConfig(), NOW_MS, recovery_point=3)
    assert len(log.aborted_between(0, 3)) == 1
    append(log, b"more")
    log.close()
    (stray,) = tmp_path.glob(f"{name}.*-stray")
    assert (stray / "inside").is_dir()
    log, report = open_partition(Files(), tmp_path, LogConfig(), NOW_MS, clean=True)
    assert report.unreadable == {}
    assert read_on(log)[-2:] == [b"kept", b"more"]


def test_a_snapshot_of_a_longer_log_that_can_neither_be_read_nor_removed_is_no_log() -> None:
    """It would be believed once the log is as long again."""
    disk = new_disk()
    fill(new_log(disk))
    disk.write_atomic(FOLDER / "00000000000000000009.snapshot", b"")
    disk.fail("read", name="*9.snapshot")
    disk.fail("remove", name="*9.snapshot")
    with pytest.raises(OSError, match="Input/output"):
        opened(disk)


def test_no_room_for_another_open_file_is_no_damage() -> None:
    disk = new_disk()
    fill(new_log(disk))
    disk.fail("open", errno.EMFILE, name=checkpoints.LEADER_EPOCHS)
    with pytest.raises(OSError, match="Too many"):
        opened(disk)
