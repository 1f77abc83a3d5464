"""Records taken out of sealed segments, on a disk in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.log import compaction
from headwater.log.compaction_plan import Plan, Result, Source
from headwater.log.config import LogConfig
from headwater.log.excision import Selection, Work, excise
from headwater.log.partition import PartitionLog
from headwater.log.recovery import open_partition
from headwater.record import batch as batches
from headwater.record import codecs, records
from headwater.record.records import Record
from headwater.testing import FaultyDisk
from headwater.testing.faults import PowerCut

FOLDER = Path("/topic-0")
SALT = "00ff" * 8
NOW_MS = 1_700_000_000_000


def filled(disk: FaultyDisk, codec: int) -> PartitionLog:
    """Sixty records in batches of three, keys a, b and c in turn; several segments, all sealed."""
    disk.make_dir(FOLDER)
    log, _ = open_partition(disk, FOLDER, LogConfig(segment_bytes=1200), NOW_MS)
    for first in range(0, 60, 3):
        rows = [
            Record(
                n,
                NOW_MS + n,
                b"abc"[n % 3 : n % 3 + 1],
                b"secret-%s-%d" % (b"abc"[n % 3 :][:1], first),
            )
            for n in range(3)
        ]
        data = records.build(
            rows, codec=codec, producer_id=7, producer_epoch=0, base_sequence=first
        )
        log.stage(data, batches.read_header(data), NOW_MS)
        log.flush()
    log.roll(NOW_MS)
    log.flush()
    return log


def work_on(log: PartitionLog, target: Selection, *, dry_run: bool = False) -> Work:
    sources = tuple(Source(s.base_offset, s.next_offset, s.size) for s in log.segments[:-1])
    return Work(sources, target, 4096, dry_run)


def apply(log: PartitionLog, work: Work, result: Result) -> None:
    segments = tuple(log.segments[:-1])
    plan = Plan(tuple((s,) for s in work.sources), 0, 0, 0, 4096, {}, segments=segments)
    assert compaction.apply(log, plan, result) is not None


def contents(log: PartitionLog) -> dict[int, tuple[bytes | None, bytes | None]]:
    found = {}
    offset = log.start_offset
    while offset < log.durable_offset:
        data = bytes(log.read(offset, 1 << 20) or b"")
        for position, header in batches.scan(data):
            for record in records.decode(data, position):
                found[record.offset] = (record.key, record.value)
            offset = header.next_offset
    return found


def everything_on(disk: FaultyDisk) -> bytes:
    return b"".join(disk.read_bytes(FOLDER / name) or b"" for name in disk.list(FOLDER))


@pytest.mark.parametrize("codec", range(5), ids=codecs.NAMES)
def test_a_key_goes_and_all_others_keep_their_offsets(codec: int) -> None:
    disk = FaultyDisk()
    log = filled(disk, codec)
    before = contents(log)
    work = work_on(log, Selection.of_key(b"b", SALT))
    result = excise(disk, FOLDER, work)
    assert result.records_read - result.records_kept == 20
    apply(log, work, result)
    left = contents(log)
    assert left == {o: row for o, row in before.items() if row[0] != b"b"}
    assert b"secret-b" not in everything_on(disk)
    reopened, report = open_partition(disk.kill(), FOLDER, log.config, NOW_MS)
    assert contents(reopened) == left
    assert not report.damaged
    assert report.missing is None


def test_a_range_of_offsets_goes() -> None:
    disk = FaultyDisk()
    log = filled(disk, codecs.NONE)
    before = contents(log)
    work = work_on(log, Selection(first_offset=10, last_offset=25))
    apply(log, work, excise(disk, FOLDER, work))
    assert contents(log) == {o: row for o, row in before.items() if not 10 <= o <= 25}


def test_a_dry_run_counts_and_changes_nothing() -> None:
    disk = FaultyDisk()
    log = filled(disk, codecs.ZSTD)
    before = everything_on(disk)
    result = excise(disk, FOLDER, work_on(log, Selection.of_key(b"a", SALT), dry_run=True))
    assert result.records_read - result.records_kept == 20
    assert result.made == ()
    assert everything_on(disk) == before


def test_a_key_that_is_not_there_changes_nothing() -> None:
    disk = FaultyDisk()
    log = filled(disk, codecs.NONE)
    result = excise(disk, FOLDER, work_on(log, Selection.of_key(b"z", SALT)))
    assert result.made == ()
    assert result.records_read == result.records_kept


def test_a_producer_is_still_known_after_its_records_are_gone() -> None:
    disk = FaultyDisk()
    log = filled(disk, codecs.NONE)
    work = work_on(log, Selection(first_offset=0, last_offset=59))
    apply(log, work, excise(disk, FOLDER, work))
    assert contents(log) == {}
    reopened, _ = open_partition(disk.kill(), FOLDER, log.config, NOW_MS)
    assert reopened.next_offset == 60
    assert reopened.producers.by_id[7].last_sequence == 59


def test_a_power_cut_at_any_step_leaves_all_or_none_of_it() -> None:
    whole = contents(filled(FaultyDisk(), codecs.NONE))
    left = {offset: row for offset, row in whole.items() if row[0] != b"b"}
    step, outcomes = 0, set()
    while True:
        disk = FaultyDisk(seed=step)
        log = filled(disk, codecs.NONE)
        work = work_on(log, Selection.of_key(b"b", SALT))
        disk.stop_after(step)
        try:
            apply(log, work, excise(disk, FOLDER, work))
            over = True
        except PowerCut:
            over = False
        reopened, report = open_partition(
            disk.crash(), FOLDER, log.config, NOW_MS, recovery_point=60
        )
        found = contents(reopened)
        # Segment by segment: each is replaced whole, and the request is carried out again.
        assert set(left) <= set(found) <= set(whole), f"step {step}"
        assert all(found[offset] == whole[offset] for offset in found)
        assert report.missing is None
        outcomes.add(len(found))
        if over:
            break
        step += 1
    assert len(left) in outcomes
    assert len(whole) in outcomes


def read_in_small_steps(log: PartitionLog, size_max: int) -> list[int]:
    """Offsets of the records that a reader meets who asks for so few bytes that most answers are
    cut, and who goes on only behind records it was given."""
    found: list[int] = []
    offset = log.start_offset
    while offset < log.durable_offset:
        data = bytes(log.read(offset, size_max) or b"")
        met = [
            record.offset
            for position, _ in batches.scan(data)
            for record in records.decode(data, position)
            if record.offset >= offset
        ]
        if not met:
            return found
        found += met
        offset = met[-1] + 1
    return found


@pytest.mark.parametrize("again", [False, True], ids=["running", "after a crash"])
@pytest.mark.parametrize("size_max", [1, 61, 100, 200, 400, 1 << 20])
def test_a_reader_gets_past_batches_of_which_nothing_is_left(size_max: int, again: bool) -> None:
    disk = FaultyDisk()
    log = filled(disk, 0)
    for first, last in ((0, 8), (12, 20), (24, 50)):
        work = work_on(log, Selection(first_offset=first, last_offset=last))
        apply(log, work, excise(disk, FOLDER, work))
    if again:
        disk = disk.crash()  # before any checkpoint has said that something was changed
        log, _ = open_partition(disk, FOLDER, LogConfig(segment_bytes=1200), NOW_MS)
    assert log.cleaned_offset == 0

    assert read_in_small_steps(log, size_max) == [9, 10, 11, 21, 22, 23, *range(51, 60)]


def test_a_reader_at_the_end_of_a_log_without_any_record_gets_on() -> None:
    disk = FaultyDisk()
    log = filled(disk, 0)
    work = work_on(log, Selection(first_offset=0, last_offset=60))
    apply(log, work, excise(disk, FOLDER, work))

    offset = 0
    while offset < log.durable_offset:
        data = log.read(offset, 100)
        assert data, "nothing to go on with"
        (*_, last) = (header for _, header in batches.scan(bytes(data)))
        assert last.next_offset > offset
        offset = last.next_offset


def test_other_partitions_records_in_one_answer_leave_the_next_whole_batch_for_later() -> None:
    disk = FaultyDisk()
    log = filled(disk, 0)
    work = work_on(log, Selection(first_offset=0, last_offset=8))
    apply(log, work, excise(disk, FOLDER, work))

    assert log.read(0, 100, at_least_one=False) == b""
