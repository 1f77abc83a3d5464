"""Opening a folder after anything: cut what is torn, keep what was promised, give no offset twice."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest

from headwater.log import checkpoints, replay
from headwater.log.partition import PartitionLog
from headwater.log.producers import OutOfOrderSequence
from headwater.log.recovery import Report
from headwater.log.segment import CorruptSegment
from headwater.record import batch as batches
from headwater.testing.faulty_disk import FaultyDisk

from .plain import FOLDER, append, batch_of, new_disk, new_log, opened, read, read_on, stage

LOG = FOLDER / "00000000000000000000.log"
INDEX = FOLDER / "00000000000000000000.index"


def write_at_end(disk: FaultyDisk, data: bytes, path: Path = LOG) -> None:
    file = disk.open(path)
    file.write(file.size(), [data])
    file.sync()


def cut(disk: FaultyDisk, path: Path, size: int) -> None:
    file = disk.open(path)
    file.truncate(size)
    file.sync()


def three() -> FaultyDisk:
    """The disk of a log of three batches, left by a kill."""
    disk = new_disk()
    log = new_log(disk)
    for value in (b"a", b"b", b"c"):
        append(log, value)
    return disk.kill()


# ---- the tail --------------------------------------------------------------------------------


def test_a_new_folder_is_an_empty_log() -> None:
    log, report = opened(new_disk())
    assert (log.start_offset, log.next_offset, log.durable_offset) == (0, 0, 0)
    assert report == Report()


def test_after_a_kill_everything_acknowledged_is_there_and_nothing_is_scanned() -> None:
    disk = three()
    log, report = opened(disk)
    assert read_on(log) == [b"a", b"b", b"c"]
    assert report.scanned_bytes == 0


def test_records_that_were_written_but_not_acknowledged_are_kept_if_they_are_whole() -> None:
    disk = three()
    write_at_end(disk, batch_of(b"d", base_offset=3, leader_epoch=0))
    again, report = opened(disk)
    assert read_on(again) == [b"a", b"b", b"c", b"d"]
    assert report.scanned_bytes == len(batch_of(b"d"))


GARBAGE = {
    "one byte": b"\0",
    "zeros": bytes(5000),
    "noise": b"\xff" * 100,
    "all but a byte": batch_of(b"d", base_offset=3)[:-1],
    "half a header": batch_of(b"d", base_offset=3)[:30],
    "a wrong byte": batch_of(b"d", base_offset=3)[:-1] + b"!",
    "an older batch that the disk still held": batch_of(b"d", base_offset=2),
    "a batch without the one before it": batch_of(b"d", base_offset=4),
    "a batch whose offset is garbage, and its checksum right": batch_of(b"d", base_offset=1 << 60),
    "a batch whose leader epoch is garbage": batch_of(b"d", base_offset=3, leader_epoch=1 << 30),
}


@pytest.mark.parametrize("kind", GARBAGE)
@pytest.mark.parametrize("recovery_point", [None, 0, 2, 3])
def test_a_torn_tail_is_cut(kind: str, recovery_point: int | None) -> None:
    garbage = GARBAGE[kind]
    disk = three()
    if recovery_point is not None:  # a power cut may bring an old durable-offset back
        data = checkpoints.pack_durable_offset(recovery_point)
        disk.write(FOLDER / "durable-offset", data)
    whole = disk.size(LOG)
    write_at_end(disk, garbage)
    again, report = opened(disk)
    assert report.cut_bytes == len(garbage)
    assert disk.size(LOG) == whole
    assert append(again, b"next") == 3
    assert read_on(again) == [b"a", b"b", b"c", b"next"]


def test_a_file_that_was_made_just_before_a_kill_keeps_its_name_once_something_is_in_it() -> None:
    disk = new_disk()
    new_log(disk)
    disk = disk.kill()
    log, _ = opened(disk)
    append(log, b"a")
    for seed in range(50):
        again, _ = opened(disk.crash(seed))
        assert read_on(again) == [b"a"]


def test_a_log_that_was_torn_in_its_first_batch_begins_again() -> None:
    disk = new_disk()
    log = new_log(disk)
    stage(log, b"a")
    disk.fail("write", errno.EIO, name="*.log")
    with pytest.raises(OSError, match="Input/output"):
        log.flush()
    disk.open(LOG).write(0, [bytes(40)])
    again, _ = opened(disk.kill())
    assert append(again, b"b") == 0
    assert read_on(again) == [b"b"]


def test_segments_behind_a_cut_are_removed_for_good() -> None:
    disk = new_disk()
    log = new_log(disk, segment_bytes=200)
    append(log, b"a" * 100)
    stage(log, b"b" * 100)
    stage(log, b"c" * 100)
    commit = log.take()
    assert commit is not None
    for segment, position, buffers in commit.writes:
        segment.file.write(position, buffers)
    disk = disk.kill()
    disk.flip_bit(FOLDER / "00000000000000000001.log", 100)
    again, report = opened(disk, log.config)
    assert again.next_offset == 1
    assert report.cut_bytes == 2 * len(batch_of(b"b" * 100))
    append(again, b"new b" * 30)
    append(again, b"new c" * 30)
    for seed in range(30):
        later, _ = opened(disk.crash(seed), log.config)
        assert read_on(later) == [b"a" * 100, b"new b" * 30, b"new c" * 30]


def test_a_segment_that_does_not_follow_on_the_one_before_is_no_part_of_the_log() -> None:
    disk = new_disk()
    log = new_log(disk, segment_bytes=200)
    append(log, b"a" * 100)
    for value in (b"b" * 100, b"c" * 100):
        stage(log, value)
    commit = log.take()
    assert commit is not None
    segment, position, buffers = commit.writes[-1]
    segment.file.write(position, buffers)  # only the last: the one before it never arrived
    again, _ = opened(disk.kill(), log.config)
    assert again.next_offset == 1
    assert append(again, b"b2") == 1


def test_what_a_start_makes_visible_is_on_disk() -> None:
    disk = three()
    log, _ = opened(disk)
    stage(log, b"d")
    commit = log.take()
    assert commit is not None
    for segment, position, buffers in commit.writes:
        segment.file.write(position, buffers)
    disk = disk.kill()
    again, _ = opened(disk)
    assert read_on(again) == [b"a", b"b", b"c", b"d"]
    for seed in range(50):
        later, _ = opened(disk.crash(seed))
        assert read_on(later) == [b"a", b"b", b"c", b"d"]


def test_a_start_does_not_believe_what_a_failed_sync_left_in_the_cache() -> None:
    disk = three()
    log, _ = opened(disk)
    disk.fail("sync", name="*.log")
    stage(log, b"d")
    with pytest.raises(Exception, match="Input/output"):
        log.flush()
    disk = disk.kill()
    again, _ = opened(disk)
    seen = read_on(again)
    for seed in range(30):
        later, _ = opened(disk.crash(seed))
        assert read_on(later) == seen


# ---- indexes ---------------------------------------------------------------------------------


def test_missing_indexes_are_made_again() -> None:
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=1, segment_bytes=2000)
    values = [b"%04d" % n * 20 for n in range(60)]
    for value in values:
        append(log, value)
    log.close()
    disk = disk.kill()
    for name in disk.list(FOLDER):
        if name.endswith("index"):
            disk.remove(FOLDER / name)
    again, _ = opened(disk, log.config, recovery_point=60, clean=True)
    assert [read(again, n, 1)[0].value for n in range(60)] == values


@pytest.mark.parametrize("content", [b"", bytes(64), b"\x00\x00\x00\x05\x00\x00\x00\x09" * 3, b"x"])
def test_an_index_that_is_wrong_costs_nothing_but_time(content: bytes) -> None:
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=1)
    values = [b"%04d" % n * 20 for n in range(40)]
    for value in values:
        append(log, value)
    log.close()
    disk = disk.kill()
    disk.write(INDEX, content)
    for clean in (True, False):
        again, _ = opened(disk.kill(), log.config, recovery_point=40, clean=clean)
        assert [read(again, n, 1)[0].value for n in range(40)] == values


@pytest.mark.parametrize("known", [None, 5, 40])
@pytest.mark.parametrize("entry", [(0, 0), (7, 0), (7, 100), (3, 222), (30, 1)])
def test_an_index_that_was_torn_lets_nothing_be_cut(
    entry: tuple[int, int], known: int | None
) -> None:
    pack = checkpoints.pack_durable_offset
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=1)
    values = [b"%04d" % n * 20 for n in range(40)]
    for value in values:
        append(log, value)
    disk = disk.kill()
    disk.write(INDEX, struct.pack(">ii", *entry))
    disk.write(INDEX.with_suffix(".timeindex"), b"")  # without one, both would be made again
    disk.write(FOLDER / "durable-offset", b"" if known is None else pack(known))
    again, report = opened(disk, log.config)
    assert report.cut_bytes == 0
    assert [read(again, n, 1)[0].value for n in range(40)] == values


def test_index_entries_of_a_tail_that_was_cut_do_not_come_back() -> None:
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=1)
    append(log, b"a" * 50)
    for _ in range(20):
        stage(log, b"torn" * 10)
    log.active.save_indexes()  # while the batches are only staged
    disk = disk.kill()
    write_at_end(disk, b"torn" * 300)
    log, _ = opened(disk, log.config)
    values = [b"%05d" % n * 9 for n in range(30)]
    for value in values:
        append(log, value)
    again, _ = opened(disk.kill(), log.config)
    assert [read(again, n + 1, 1)[0].value for n in range(30)] == values


# ---- what should not happen, and does --------------------------------------------------------


def test_missing_acknowledged_records_are_reported_and_their_offsets_stay_unused() -> None:
    disk = three()
    cut(disk, LOG, 2 * len(batch_of(b"a")))
    log, report = opened(disk)
    assert report.missing == (2, 3)
    assert append(log, b"d") == 3
    assert read_on(log) == [b"a", b"b", b"d"]
    again, _ = opened(disk.kill())
    assert read_on(again) == [b"a", b"b", b"d"]


def test_a_log_whose_files_are_gone_goes_on_where_it_was() -> None:
    disk = three()
    disk.remove(LOG)
    log, report = opened(disk)
    assert report.missing == (0, 3)
    assert append(log, b"d") == 3


def test_records_missing_in_front_are_reported_unless_they_were_deleted() -> None:
    disk = new_disk()
    log = new_log(disk, segment_bytes=200)
    for n in range(4):
        append(log, b"%d" % n * 100)
    disk = disk.kill()
    disk.lose(LOG)
    second = min(int(name[:20]) for name in disk.list(FOLDER) if name.endswith(".log"))
    _, report = opened(disk.copy(), log.config, start_offset=second)
    assert report.missing is None
    again, report = opened(disk, log.config)
    assert report.missing == (0, second)
    assert again.start_offset == second


def test_records_missing_between_two_segments_are_reported() -> None:
    disk = new_disk()
    log = new_log(disk, segment_bytes=200, index_interval_bytes=1)
    for n in range(4):
        append(log, b"%d" % n * 100)
    log.close()
    disk = disk.kill()
    disk.lose(FOLDER / "00000000000000000001.log")
    again, report = opened(disk, log.config, recovery_point=4, clean=True)
    assert report.missing == (1, 2)
    assert read_on(again, 2) == [b"%d" % n * 100 for n in (2, 3)]


def test_a_last_batch_of_several_records_that_the_index_knows_is_no_damage() -> None:
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=1)
    for _ in range(3):
        append(log, b"a", b"b")
    log.close()
    _, report = opened(disk.kill(), log.config, recovery_point=6, clean=True)
    assert report == Report()


def test_damage_below_the_recovery_point_is_fenced_and_appending_goes_on() -> None:
    disk = three()
    disk.flip_bit(LOG, len(batch_of(b"a")) + 8)  # the length of the second batch
    log, report = opened(disk)
    assert report.cut_bytes == 0
    assert append(log, b"d") == 3
    assert read(log, 0, 1)[0].value == b"a"
    with pytest.raises(CorruptSegment, match=r"is damaged at byte .* not served"):
        log.read(1, 1)
    assert read(log, 3, 1)[0].value == b"d"
    again, _ = opened(disk.kill())
    assert read(again, 3, 1)[0].value == b"d"


SIZES = (1, 3, 2, 1, 4, 2)


def several() -> tuple[FaultyDisk, list[tuple[int, batches.BatchHeader]]]:
    """The disk of a log of batches of several sizes, left by a kill; and where they are."""
    disk = new_disk()
    log = new_log(disk)
    for number, size in enumerate(SIZES):
        append(log, *(b"%d" % number for _ in range(size)))
    disk = disk.kill()
    return disk, list(batches.scan(disk.read_bytes(LOG) or b""))


@pytest.mark.parametrize("known", [len(SIZES), 4, 3])
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_of_any_header_moves_no_end_and_costs_no_other_batch(
    known: int, bit: int
) -> None:
    """`known`: how many of the batches lie below the recovery point, which a power cut may set back."""
    disk, places = several()
    content = disk.read_bytes(LOG) or b""
    recovery_point = places[known - 1][1].next_offset
    disk.write(FOLDER / "durable-offset", checkpoints.pack_durable_offset(recovery_point))
    for number, (position, _) in enumerate(places[:known]):
        for byte in range(batches.HEADER_BYTES):
            broken = bytearray(content)
            broken[position + byte] ^= 1 << bit
            harmed = disk.copy()
            harmed.write(LOG, bytes(broken))
            log, _ = opened(harmed)
            where = f"bit {bit} of byte {byte} of batch {number}"
            assert log.next_offset == sum(SIZES), where
            found = {
                record.value
                for each in replay.read(log, 0, lambda _: None)
                for record in each.records
            }
            lost = {b"%d" % each for each in range(len(SIZES))} - found
            assert lost <= {b"%d" % number}, where


def test_damage_is_an_error_that_says_what_to_do() -> None:
    disk = three()
    disk.flip_bit(LOG, len(batch_of(b"a")) + 65)
    log, _ = opened(disk)
    assert read(log, 0, 1)[0].value == b"a"
    with pytest.raises(CorruptSegment, match="restore the file or delete records"):
        log.read(1, 1)


def test_a_read_gives_what_lies_before_damage() -> None:
    disk = three()
    disk.flip_bit(LOG, 2 * len(batch_of(b"a")) + 65)
    log, _ = opened(disk)
    assert [record.value for record in read(log, 0)] == [b"a", b"b"]


# ---- the front -------------------------------------------------------------------------------


def test_the_start_offset_is_what_the_checkpoint_says() -> None:
    disk = three()
    log, _ = opened(disk, start_offset=2)
    assert log.start_offset == 2
    assert read_on(log, 2) == [b"c"]


def test_segments_that_were_deleted_may_come_back_without_harm() -> None:
    disk = new_disk()
    log = new_log(disk, segment_bytes=200)
    for n in range(6):
        append(log, b"%d" % n * 100)
    disk = disk.kill()
    disk.write(FOLDER / "durable-offset", b"")
    disk.remove(FOLDER / "00000000000000000001.log")  # but not the one before it
    again, report = opened(disk, log.config, start_offset=3)
    assert again.start_offset == 3
    assert report.missing is None
    assert read_on(again, 3) == [b"%d" % n * 100 for n in range(3, 6)]


def test_the_first_of_the_deleted_segments_may_come_back_alone() -> None:
    """A power cut may undo one removal of several, and the making of the segment behind them."""
    disk = new_disk()
    log = new_log(disk, segment_bytes=200)
    for sequence in range(3):
        produce(log, sequence, 2)
    disk = disk.kill()
    for name in [name for name in disk.list(FOLDER) if name.endswith((".log", ".snapshot"))]:
        if name != LOG.name:
            disk.remove(FOLDER / name)
    again, report = opened(disk, log.config, start_offset=6)
    assert (again.start_offset, again.next_offset, report.missing) == (6, 6, None)
    # What the old segment says of the producer is out of date: it may go on where it is.
    assert produce(again, 6, 2) == 6


def test_a_log_of_which_all_was_deleted_misses_nothing() -> None:
    disk = three()
    disk.remove(LOG)
    log, report = opened(disk, start_offset=3)
    assert (log.start_offset, log.next_offset, report.missing) == (3, 3, None)


# ---- producers -------------------------------------------------------------------------------


def producing(sequence: int, count: int = 1) -> bytes:
    return batch_of(*[b"v"] * count, producer_id=7, producer_epoch=0, base_sequence=sequence)


def produce(log: PartitionLog, sequence: int, count: int = 1) -> int:
    data = producing(sequence, count)
    offset = log.stage(data, batches.read_header(data), 0)
    log.flush()
    return offset


@pytest.mark.parametrize("how", ["close", "kill", "crash"])
def test_a_retry_is_recognised_after_any_end(how: str) -> None:
    disk = new_disk()
    log = new_log(disk, segment_bytes=300)
    for sequence in range(10):
        produce(log, sequence)
    if how == "close":
        log.close()
    disk = disk.crash() if how == "crash" else disk.kill()
    again, _ = opened(disk, log.config)
    stored = again.check_producer(batches.read_header(producing(9)))
    assert stored is not None
    assert stored.base_offset == 9
    assert again.check_producer(batches.read_header(producing(10))) is None
    with pytest.raises(OutOfOrderSequence):
        again.check_producer(batches.read_header(producing(12)))


def test_producers_are_found_again_without_any_snapshot() -> None:
    disk = new_disk()
    log = new_log(disk, segment_bytes=300)
    for sequence in range(10):
        produce(log, sequence)
    disk = disk.kill()
    for name in disk.list(FOLDER):
        if name.endswith(".snapshot"):
            disk.remove(FOLDER / name)
    again, _ = opened(disk, log.config)
    assert again.check_producer(batches.read_header(producing(9))) is not None


@pytest.mark.parametrize("content", [b"", bytes(100), b"garbage"])
def test_a_snapshot_that_is_not_whole_is_not_believed(content: bytes) -> None:
    disk = new_disk()
    log = new_log(disk)
    produce(log, 0)
    log.close()
    disk = disk.kill()
    disk.write(FOLDER / "00000000000000000001.snapshot", content)
    again, _ = opened(disk, recovery_point=1, clean=True)
    assert again.check_producer(batches.read_header(producing(0))) is not None


def test_a_snapshot_beyond_the_end_is_not_believed() -> None:
    disk = new_disk()
    log = new_log(disk, durability="os")
    produce(log, 0)
    produce(log, 1)
    log.close()
    disk = disk.kill()
    cut(disk, LOG, len(producing(0)))
    again, _ = opened(disk, log.config)
    assert again.check_producer(batches.read_header(producing(1))) is None


def test_only_a_few_snapshots_are_kept() -> None:
    disk = new_disk()
    log = new_log(disk, segment_bytes=200)
    for sequence in range(20):
        produce(log, sequence)
    assert len([name for name in disk.list(FOLDER) if name.endswith(".snapshot")]) <= 3


def test_other_files_in_the_folder_disturb_nobody() -> None:
    disk = three()
    for name in ("notes.txt", "x.log", "00000000000000000001.log.tmp", "abc.snapshot", ".log"):
        disk.write(FOLDER / name, b"?")
    log, _ = opened(disk)
    assert read_on(log) == [b"a", b"b", b"c"]
