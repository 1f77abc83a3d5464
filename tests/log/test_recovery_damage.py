"""Opening a log after damage or the loss of a small file beside it: what was decided stays decided, what was
acknowledged stays there, and a foreign file is nobody's segment."""

from __future__ import annotations

import pytest

from headwater.log import checkpoints
from headwater.log.partition import PartitionLog
from headwater.record import batch as batches
from headwater.record import control
from headwater.testing.faulty_disk import FaultyDisk

from .plain import FOLDER, NOW_MS, append, new_disk, new_log, opened, read_on

LOG = FOLDER / "00000000000000000000.log"


def end(log: PartitionLog, kind: int) -> None:
    data = control.marker(kind, 7, 0, 0, NOW_MS, 0)
    log.stage(data, batches.read_header(data), NOW_MS)
    log.flush()


def destroy(disk: FaultyDisk, offset: int) -> None:
    """Overwrite the header of the batch at this offset."""
    data = disk.read_bytes(LOG) or b""
    (position,) = [at for at, header in batches.scan(data) if header.base_offset == offset]
    file = disk.open(LOG)
    file.write(position, [b"\xff" * 30])
    file.sync()


def lost_epochs(disk: FaultyDisk) -> FaultyDisk:
    disk.remove(FOLDER / checkpoints.LEADER_EPOCHS)
    disk.sync_dir(FOLDER)
    return disk


@pytest.mark.parametrize("kind", [control.COMMIT, control.ABORT])
def test_a_transaction_whose_marker_lies_behind_damage_has_ended(kind: int) -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"paid", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    append(log, b"somebody else's")
    end(log, kind)
    append(log, b"later")
    disk = disk.kill()
    destroy(disk, 1)

    log, _ = opened(disk)
    assert log.last_stable_offset() == log.next_offset == 4
    assert not log.producers.has_any_open
    assert len(log.aborted_between(0, 4)) == (kind == control.ABORT)


def test_a_retry_is_recognised_though_damage_lies_before_it() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"somebody else's")
    append(log, b"mine", producer_id=7, producer_epoch=0, base_sequence=0)
    disk = disk.kill()
    destroy(disk, 0)

    log, _ = opened(disk)
    assert log.producers.by_id[7].last_sequence == 0


def test_acknowledged_records_are_there_though_the_leader_epochs_are_lost() -> None:
    disk = new_disk()
    append(new_log(disk, durability="os"), b"a")
    disk = disk.kill()
    append(opened(disk)[0], b"b")  # a new epoch
    disk = disk.kill()
    log = new_log(disk, durability="os")
    append(log, b"c")
    assert log.epoch == 2

    log, report = opened(lost_epochs(disk.kill()))
    assert read_on(log) == [b"a", b"b", b"c"]
    assert report.cut_bytes == 0
    assert log.epoch == 3


def test_a_leader_epoch_is_never_older_than_that_of_a_batch() -> None:
    """Else the next crash takes what was written since for torn."""
    disk = new_disk()
    append(new_log(disk), b"a")
    disk = disk.kill()
    log, _ = opened(disk)
    append(log, b"b")
    log.close()

    disk = lost_epochs(disk.kill())
    log, _ = opened(disk, clean=True)
    assert log.epoch == 2
    append(log, b"c")
    disk = disk.kill()
    disk.remove(FOLDER / checkpoints.DURABLE_OFFSET)  # it is never waited for
    log, report = opened(disk)
    assert read_on(log) == [b"a", b"b", b"c"]
    assert report.cut_bytes == 0


def test_a_garbled_epoch_of_a_torn_batch_is_not_believed() -> None:
    disk = new_disk()
    append(new_log(disk, durability="os"), b"a")
    disk = lost_epochs(disk.kill())
    file = disk.open(LOG)
    file.write(12, [b"\x7f\xff\xff\xff"])
    file.sync()
    log, _ = opened(disk)
    assert log.epoch < 10
    append(log, b"b")


@pytest.mark.parametrize("name", ["5.log", "0.log", "²²²²²²²²²²²²²²²²²²²².log", "notes.index"])
def test_a_foreign_file_is_left_alone(name: str) -> None:
    disk = new_disk()
    append(new_log(disk), b"a")
    disk.write(FOLDER / name, b"mine")
    disk = disk.kill()
    log, _ = opened(disk)
    assert read_on(log) == [b"a"]
    assert name in disk.list(FOLDER)


@pytest.mark.parametrize("text", ["0\n1\n² ²\n", f"0\n1\n{'9' * 5000} 0\n"])
def test_numbers_that_are_none_are_no_leader_epochs(text: str) -> None:
    disk = new_disk()
    disk.write(FOLDER / checkpoints.LEADER_EPOCHS, text.encode())
    assert checkpoints.read_epochs(disk, FOLDER) == []


def test_after_a_clean_stop_damage_is_no_torn_tail_though_the_recovery_points_are_lost() -> None:
    """What lies behind it was synced, and its segments were removed."""
    disk = new_disk()
    log = new_log(disk, durability="os", segment_bytes=200)
    for number in range(6):
        append(log, b"%d" % number * 100)
    log.close()
    disk = disk.kill()
    destroy(disk, 0)

    log, report = opened(disk, log.config, clean=True)
    assert (log.next_offset, report.cut_bytes) == (6, 0)
    assert read_on(log, 1) == [b"%d" % number * 100 for number in range(1, 6)]


@pytest.mark.parametrize("rolls", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_a_start_offset_beyond_a_known_end_is_not_believed(rolls: bool, clean: bool) -> None:
    """No digit of a checkpoint is covered by a checksum, and all records were removed for one."""
    disk = new_disk()
    log = new_log(disk, segment_bytes=200)
    for number in range(3):
        append(log, b"%d" % number * 100)
    if rolls:
        log.roll(NOW_MS)
    if clean:
        log.close()
    else:
        log.flush()

    log, report = opened(disk.kill(), log.config, recovery_point=3, start_offset=5000, clean=clean)
    assert (log.start_offset, log.next_offset, report.missing) == (0, 3, None)
    assert read_on(log) == [b"%d" % number * 100 for number in range(3)]


def test_a_start_offset_beyond_what_a_power_cut_has_left_is_believed() -> None:
    """Records were deleted that had not reached the disk: those before them do not come back."""
    disk = new_disk()
    log = new_log(disk, durability="os")
    append(log, b"synced")
    log.sync()
    append(log, b"not synced")

    cut = disk.crash(outcome="lost")
    log, _ = opened(cut, log.config, recovery_point=1, start_offset=2)
    assert (log.start_offset, log.next_offset, log.size()) == (2, 2, 0)
