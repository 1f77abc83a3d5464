"""The partition log: staged, then durable, then visible; read from anywhere; forgotten from the front."""

from __future__ import annotations

import errno

import pytest

from headwater.log.allowance import Allowance
from headwater.log.partition import OffsetOutOfRange, SyncFailed
from headwater.record import batch as batches

from .plain import FOLDER, NOW_MS, append, batch_of, new_disk, new_log, opened, read, read_on, stage

# ---- appending -------------------------------------------------------------------------------


def test_offsets_follow_one_another_across_batches() -> None:
    log = new_log()
    assert [append(log, b"a"), append(log, b"b", b"c"), append(log, b"d")] == [0, 1, 3]
    assert log.next_offset == 4


def test_a_staged_batch_is_invisible_until_its_commit_is_finished() -> None:
    log = new_log()
    stage(log, b"a")
    assert (log.next_offset, log.durable_offset) == (1, 0)
    assert read(log) == []
    commit = log.take()
    assert commit is not None
    commit.run()
    assert read(log) == []
    log.finish(commit)
    assert [record.value for record in read(log)] == [b"a"]


def test_one_commit_covers_everything_staged_with_one_sync() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"first")
    before = disk.counts.copy()
    for value in (b"a", b"b", b"c"):
        stage(log, value)
    log.flush()
    spent = disk.counts - before
    assert spent["sync"] == 1
    assert spent["write"] == 2, "the records, and where they end"
    assert read_on(log) == [b"first", b"a", b"b", b"c"]


def test_what_is_staged_after_take_goes_into_the_next_commit() -> None:
    log = new_log()
    stage(log, b"a")
    first = log.take()
    stage(log, b"b")
    assert first is not None
    first.run()
    log.finish(first)
    assert log.durable_offset == 1
    log.flush()
    assert read_on(log) == [b"a", b"b"]


def test_there_is_no_commit_of_nothing() -> None:
    assert new_log().take() is None


def test_the_stored_batch_is_the_produced_one_but_for_offset_and_epoch() -> None:
    log = new_log()
    append(log, b"x")
    data = batch_of(b"a", b"b", codec=1)
    log.stage(data, batches.read_header(data), NOW_MS)
    log.flush()
    found = bytes(log.read(1, 1) or b"")
    assert found[16:] == data[16:]
    header = batches.check(found)
    assert (header.base_offset, header.leader_epoch) == (1, log.epoch)


def test_acknowledged_means_synced_with_its_name() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"a")
    for seed in range(50):
        again, _ = opened(disk.crash(seed))
        assert read_on(again) == [b"a"]


def test_durability_os_does_not_wait_for_the_disk() -> None:
    disk = new_disk()
    log = new_log(disk, durability="os")
    append(log, b"a")
    assert disk.counts["sync"] == 0
    assert read_on(log) == [b"a"]


def test_turning_durability_on_syncs_what_was_written_before() -> None:
    disk = new_disk()
    log = new_log(disk, durability="os", segment_bytes=200)
    for value in (b"a" * 100, b"b" * 100):
        append(log, value)
    log.config = new_log(durability="disk").config
    append(log, b"c")
    for seed in range(50):
        again, report = opened(disk.crash(seed))
        assert read_on(again) == [b"a" * 100, b"b" * 100, b"c"]
        assert report.missing is None


def test_a_failed_write_is_an_error_and_nothing_becomes_visible() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"a")
    disk.fail("write", errno.ENOSPC, name="*.log")
    stage(log, b"b")
    with pytest.raises(OSError, match="No space"):
        log.flush()
    assert read_on(log) == [b"a"]


def test_after_a_failed_write_the_log_goes_back_to_what_is_durable() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"a")
    disk.fail("write", errno.ENOSPC, name="*.log")
    stage(log, b"refused")
    with pytest.raises(OSError, match="No space"):
        log.flush()
    log.abandon()
    again, _ = opened(disk, recovery_point=log.durable_offset, cut_at=log.durable_offset)
    assert append(again, b"b") == 1
    assert read_on(again) == [b"a", b"b"]


def test_going_back_cuts_refused_records_even_if_they_were_written_whole() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"a")
    stage(log, b"refused")
    commit = log.take()
    assert commit is not None
    for segment, position, buffers in commit.writes:
        segment.file.write(position, buffers)
    log.abandon()
    again, _ = opened(disk, recovery_point=1, cut_at=1)
    assert again.next_offset == 1
    assert read_on(again) == [b"a"]


def test_a_failed_sync_has_an_error_of_its_own() -> None:
    disk = new_disk()
    log = new_log(disk)
    disk.fail("sync", name="*.log")
    stage(log, b"a")
    with pytest.raises(SyncFailed, match="Input/output error"):
        log.flush()


def test_an_index_that_cannot_be_saved_does_not_fail_the_commit() -> None:
    disk = new_disk()
    log = new_log(disk, segment_bytes=200)
    disk.fail("write", errno.ENOSPC, name="*.timeindex", times=99)
    disk.fail("write", errno.ENOSPC, name="*.snapshot.tmp", times=99)
    for value in (b"a" * 100, b"b" * 100, b"c" * 100):
        append(log, value)
    assert log.durable_offset == 3
    assert read_on(log) == [b"a" * 100, b"b" * 100, b"c" * 100]


# ---- rolling ---------------------------------------------------------------------------------


def test_a_segment_that_would_grow_too_large_is_closed() -> None:
    log = new_log(segment_bytes=250)
    for _ in range(4):
        append(log, b"x" * 30)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert all(segment.size <= 250 for segment in log.segments)


def test_a_batch_as_large_as_a_segment_gets_one_of_its_own() -> None:
    size = len(batch_of(b"x" * 100))
    log = new_log(segment_bytes=size)
    append(log, b"x" * 100)
    append(log, b"y" * 100)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_segment_is_closed_by_the_age_of_its_records() -> None:
    log = new_log(segment_ms=1000)
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 1000)
    assert len(log.segments) == 1
    append(log, b"c", timestamp=NOW_MS + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_records_without_time_close_a_segment_by_the_clock() -> None:
    log = new_log(segment_ms=1000)
    append(log, b"a", timestamp=-1)
    stage(log, b"b", timestamp=-1, now_ms=NOW_MS + 1001)
    assert len(log.segments) == 2


def test_a_full_index_closes_its_segment() -> None:
    log = new_log(index_interval_bytes=1, segment_index_bytes=24)
    for _ in range(6):
        append(log, b"x")
    assert len(log.segments) == 2
    assert len(log.segments[0].index) == 3


def test_a_closed_segment_has_its_indexes_on_disk() -> None:
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=1)
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 5)
    log.roll(NOW_MS)
    append(log, b"c")
    assert disk.size(FOLDER / "00000000000000000000.index") == 8
    times = disk.read_bytes(FOLDER / "00000000000000000000.timeindex") or b""
    assert int.from_bytes(times[-12:-4], "big") == NOW_MS + 5


def test_an_empty_segment_is_not_followed_by_another_with_its_files() -> None:
    log = new_log()
    append(log, b"a")
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


# ---- reading ---------------------------------------------------------------------------------


def test_a_read_starts_with_the_batch_that_holds_the_offset() -> None:
    log = new_log()
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    assert [record.offset for record in read(log, 2)] == [0, 1, 2, 3]
    assert [record.offset for record in read(log, 3)] == [3]


def test_reading_goes_on_across_segments() -> None:
    log = new_log(segment_bytes=200)
    values = [b"%03d" % n * 20 for n in range(9)]
    for value in values:
        append(log, value)
    assert len(log.segments) > 3
    assert read_on(log) == values
    assert read_on(log, 5) == values[5:]


def test_a_first_batch_larger_than_asked_for_comes_whole_or_not_at_all() -> None:
    log = new_log()
    append(log, b"x" * 500)
    assert len(read(log, 0, 10)) == 1
    assert bytes(log.read(0, 10, at_least_one=False) or b"") == b""


def test_later_batches_are_cut_at_the_size_asked_for() -> None:
    log = new_log()
    append(log, b"x" * 100)
    append(log, b"y" * 100)
    size = len(batch_of(b"x" * 100))
    data = log.read(0, size + 10)
    assert data is not None and len(data) == size + 10


@pytest.mark.parametrize("interval", [1, 300, 1 << 20])
@pytest.mark.parametrize("size_max", [1, 100, 5000, 20_000])
@pytest.mark.parametrize("found", [False, True])
def test_any_offset_is_found_whatever_the_index_holds(
    interval: int, size_max: int, found: bool
) -> None:
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=interval)
    values = [b"%05d" % n * 200 for n in range(40)]
    for value in values:
        stage(log, value)
    log.flush()
    if found:
        log.close()
        log, _ = opened(disk.kill(), log.config, recovery_point=40, clean=True)
    for offset in range(40):
        assert read(log, offset, size_max)[0].value == values[offset]


def test_a_reader_at_the_end_gets_nothing_and_beyond_it_an_error() -> None:
    log = new_log()
    append(log, b"a")
    assert read(log, 1) == []
    with pytest.raises(OffsetOutOfRange):
        log.read(2, 100)
    with pytest.raises(OffsetOutOfRange):
        log.read(-1, 100)


def test_a_reader_between_durable_and_staged_waits() -> None:
    log = new_log()
    append(log, b"a")
    stage(log, b"b")
    stage(log, b"c")
    assert read(log, 1) == []
    assert read(log, 2) == []


def test_a_bound_hides_the_batches_that_reach_it() -> None:
    log = new_log()
    append(log, b"a", b"b")
    append(log, b"c")
    append(log, b"d")
    assert [r.value for r in read(log, 0, upper=3)] == [b"a", b"b", b"c"]
    assert [r.value for r in read(log, 0, upper=2)] == [b"a", b"b"]
    assert read(log, 0, upper=0) == []
    assert [r.value for r in read(log, 3, upper=99)] == [b"d"]


def test_a_cold_read_says_so_instead_of_waiting() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"a")
    disk.cold = True
    assert log.read(0, 100, within=Allowance()) is None
    assert len(read(log)) == 1


# ---- time ------------------------------------------------------------------------------------


def test_the_first_record_at_or_after_a_time_is_found_by_offset_not_by_time() -> None:
    log = new_log(index_interval_bytes=1)
    for timestamp in (100, 50, 300, 200, 300):
        append(log, b"x", timestamp=timestamp)
    assert log.find_time(0) == (100, 0)
    assert log.find_time(101) == (300, 2)
    assert log.find_time(300) == (300, 2)
    assert log.find_time(301) is None
    assert log.find_max_timestamp() == (300, 2)


def test_a_lookup_by_time_survives_a_reopening() -> None:
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=1)
    for timestamp in (900, 50, 60, 70):
        append(log, b"x" * 2000, timestamp=timestamp)
    log.close()
    for clean in (True, False):
        again, _ = opened(disk.kill(), log.config, recovery_point=4, clean=clean)
        assert again.find_time(100) == (900, 0)
        assert again.find_max_timestamp() == (900, 0)


def test_a_lookup_by_time_sees_only_what_readers_see() -> None:
    log = new_log()
    append(log, b"a", timestamp=100)
    stage(log, b"b", timestamp=500)
    assert log.find_time(200) is None
    assert log.find_max_timestamp() == (100, 0)


def test_a_lookup_by_time_begins_at_the_start_of_the_log() -> None:
    log = new_log()
    append(log, b"a", b"b", b"c", timestamp=100)
    append(log, b"d", timestamp=50)
    log.delete_before(2)
    assert log.find_time(0) == (100, 2)
    log.delete_before(3)
    assert log.find_time(0) == (50, 3)
    assert log.find_time(100) is None
    assert log.find_max_timestamp() == (50, 3)


def test_an_empty_log_has_no_times() -> None:
    assert new_log().find_time(0) is None
    assert new_log().find_max_timestamp() is None


# ---- the front -------------------------------------------------------------------------------


def test_deleted_records_are_out_of_range_at_once() -> None:
    log = new_log()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    log.delete_before(2)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 100)
    assert read_on(log, 2) == [b"c"]
    log.delete_before(1)
    assert log.start_offset == 2, "it does not go back"


def test_nothing_can_be_deleted_that_is_not_durable() -> None:
    log = new_log()
    append(log, b"a")
    stage(log, b"b")
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(2)
    log.delete_before(1)


def test_dropping_segments_moves_the_start() -> None:
    log = new_log(segment_bytes=200)
    for n in range(6):
        append(log, b"x" * 100 + b"%d" % n)
    bases = [segment.base_offset for segment in log.segments]
    dropped = log.drop_front(2)
    assert [segment.base_offset for segment in dropped] == bases[:2]
    assert log.start_offset == bases[2]


# ---- epochs ----------------------------------------------------------------------------------


def test_every_unclean_start_begins_a_leader_epoch() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"a")
    for expected in (1, 2, 3):
        disk = disk.kill()
        log, _ = opened(disk)
        append(log, b"b")
        assert log.epoch == expected
    assert log.epochs == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert [batches.read_header(bytes(log.read(n, 1) or b"")).leader_epoch for n in range(4)] == [
        0,
        1,
        2,
        3,
    ]
    assert log.end_of_epoch(1) == (1, 2)
    assert log.end_of_epoch(3) == (3, 4)
    assert log.end_of_epoch(4) == (-1, -1)
    assert [log.epoch_of(offset) for offset in range(4)] == [0, 1, 2, 3]


def test_a_clean_start_keeps_the_leader_epoch() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"a")
    log.close()
    again, _ = opened(disk.kill(), recovery_point=1, clean=True)
    assert again.epoch == log.epoch


def test_an_epoch_in_which_nothing_was_written_leaves_no_trace() -> None:
    disk = new_disk()
    append(new_log(disk), b"a")
    for _ in range(3):
        disk = disk.kill()
        log, _ = opened(disk)
    assert log.epochs == [(0, 0), (3, 1)]
    assert log.end_of_epoch(2) == (0, 1)
