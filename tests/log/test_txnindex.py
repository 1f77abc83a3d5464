"""Lists of aborted transactions that a compaction, or a power cut, makes shorter: a crash is not taken for a
loss, and nothing is aborted that came later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.log import aborted_transactions, checkpoints, compaction
from headwater.log.segment import file_name
from headwater.record import batch as batches
from headwater.record import control
from headwater.testing.faulty_disk import FaultyDisk, PowerCut

from . import plain
from .compacted import CONFIG, FOLDER, CompactedLog

PATH = FOLDER / "00000000000000000000.txnindex"
CHECKSUMS = FOLDER / aborted_transactions.CHECKSUMS


def abort(log: CompactedLog, producer: int) -> None:
    log.append([(b"never", b"x" * 50)], producer=(producer, 0, 0), transactional=True)
    log.store(control.marker(control.ABORT, producer, 0, 0, log.now_ms, 0))
    del log.written[log.log.next_offset - 1], log.written[log.log.next_offset - 2]


def aging(seed: int = 0, *, stays: bool = True) -> CompactedLog:
    """The next compaction drops a marker of an abort, whose time is over; another may stay."""
    log = CompactedLog(replace(CONFIG, segment_bytes=300), FaultyDisk(seed))
    abort(log, 7)
    log.seal()
    log.compact()
    log.log.producers.expire(log.now_ms + 1)
    for _ in range(2):
        log.seal()
        log.compact()
    if stays:
        abort(log, 8)
    log.now_ms += 1001
    log.seal()
    assert len(log.files.read_bytes(PATH) or b"") == aborted_transactions.ENTRY_BYTES
    return log


def disk_of(log: CompactedLog) -> FaultyDisk:
    assert isinstance(log.files, FaultyDisk)
    return log.files


def reopened(log: CompactedLog, disk: FaultyDisk) -> CompactedLog:
    """The same log, as a start finds it."""
    again = CompactedLog(log.config, disk)
    again.written = log.written
    return again


@pytest.fixture
def complaints(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if "aborted transactions" in record.getMessage()
    ]


@pytest.mark.parametrize("stays", [True, False])
def test_a_list_that_compaction_has_made_shorter_is_not_taken_for_a_damaged_one(
    stays: bool, complaints: Callable[[], list[str]]
) -> None:
    log = aging(stays=stays)
    log.compact()
    assert log.files.read_bytes(PATH) == b""
    expected = log.log.aborted_between(0, 10**6)
    assert bool(expected) is stays
    found = reopened(log, disk_of(log).kill())
    assert found.log.aborted_between(0, 10**6) == expected
    assert complaints() == []


def test_a_power_cut_at_any_step_of_the_exchange_is_not_taken_for_damage(
    complaints: Callable[[], list[str]],
) -> None:
    log = aging()
    plan = log.plan()
    result = compaction.compact(log.files, FOLDER, plan)
    before = disk_of(log).steps
    compaction.apply(log.log, plan, result)
    steps = disk_of(log).steps - before
    assert steps > 5
    for step in range(steps):
        log = aging(step)
        plan = log.plan()
        result = compaction.compact(log.files, FOLDER, plan)
        disk_of(log).stop_after(step)
        with pytest.raises(PowerCut):
            compaction.apply(log.log, plan, result)
        found = reopened(log, disk_of(log).crash())
        assert {each.producer_id for each in found.log.aborted_between(0, 10**6)} >= {8}
        assert complaints() == [], step


def test_a_commit_that_was_taken_before_an_exchange_writes_nothing_of_what_was_replaced(
    complaints: Callable[[], list[str]],
) -> None:
    log = aging()
    plan = log.plan()
    result = compaction.compact(log.files, FOLDER, plan)
    log.log.roll(log.now_ms)
    commit = log.log.take()
    assert commit is not None
    log.log.segments[0].saved_aborted_bytes = -1  # as a full disk leaves it
    compaction.apply(log.log, plan, result)
    rows = aborted_transactions.unpack_checksums(log.files.read_bytes(CHECKSUMS) or b"")
    commit.run()
    log.log.finish(commit)
    assert log.files.read_bytes(PATH) == b""
    assert aborted_transactions.unpack_checksums(log.files.read_bytes(CHECKSUMS) or b"") == rows
    found = reopened(log, disk_of(log).kill())
    assert {each.producer_id for each in found.log.aborted_between(0, 10**6)} == {8}
    assert complaints() == []


@pytest.mark.parametrize(
    ("kept", "has_snapshot"),
    [(0, False), (1, False), (1, True)],
    ids=["nothing is left", "a batch is left", "a batch and a snapshot are left"],
)
def test_a_list_tells_nothing_of_what_a_crash_has_taken(kept: int, has_snapshot: bool) -> None:
    """The list may be on disk, and the records of which it tells not: with durability=os, or where a marker
    was staged while an earlier commit saved the lists. The producer's next transaction has the same
    offsets, and is committed."""
    disk = plain.new_disk()
    log = plain.new_log(disk)
    for number in range(kept):
        plain.append(log, b"before", producer_id=7, producer_epoch=0, base_sequence=number)
    size, snapshot = log.segments[0].size, log.producers.to_bytes()
    transaction = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    plain.append(log, b"aborted", base_sequence=kept, **transaction)
    marker = control.marker(control.ABORT, 7, 0, 0, plain.NOW_MS, 0)
    log.stage(marker, batches.read_header(marker), plain.NOW_MS)
    log.flush()
    log.txn_indexes.save(log.segments)
    path = plain.FOLDER / "00000000000000000000.log"
    for name in disk.list(plain.FOLDER):
        if name.endswith(".snapshot") or name == checkpoints.DURABLE_OFFSET:
            disk.lose(plain.FOLDER / name)
    disk.cut_short(path, size)
    if has_snapshot:
        disk.write(plain.FOLDER / file_name(kept, ".snapshot"), snapshot)
    found, _ = plain.opened(disk.kill())
    assert found.next_offset == kept
    assert found.aborted_between(0, 10**6) == []
    assert plain.opened(disk.kill())[0].aborted_between(0, 10**6) == []
