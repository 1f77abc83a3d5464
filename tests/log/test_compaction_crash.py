"""A power cut or a full disk at any step of a compaction: the log reads as before, and goes on."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.log import checkpoints, compaction
from headwater.log.partition import PartitionLog
from headwater.testing.faulty_disk import FaultyDisk, PowerCut

from .compacted import CONFIG, FOLDER, CompactedLog


def filled(seed: int) -> CompactedLog:
    """Compacted once, with a tombstone whose time is over, and dirty again."""
    log = CompactedLog(replace(CONFIG, segment_bytes=700), FaultyDisk(seed))
    log.append([(b"dead", b"value"), (b"a", b"0")])
    for n in range(6):
        log.append([(b"k%d" % n, b"x" * 60), (b"k%d" % (n // 2), b"y" * 60)])
    log.append([(b"dead", None)])
    log.seal()
    log.compact()
    for n in range(6):
        log.append([(b"k%d" % n, b"z" * 60), (b"l%d" % n, b"y" * 60)], producer=(5, 0, 2 * n))
    log.append([(b"k%d" % n, b"last") for n in range(4)])
    log.seal()
    log.now_ms += 2000
    log.config = log.log.config = replace(CONFIG, segment_bytes=1000)  # some fit together now
    return log


def compacted(log: CompactedLog) -> None:
    plan = log.plan()
    compaction.apply(log.log, plan, compaction.compact(log.files, FOLDER, plan))


def applied(log: CompactedLog) -> Callable[[], None]:
    """The last step of a compaction alone."""
    plan = log.plan()
    result = compaction.compact(log.files, FOLDER, plan)
    assert len(result.made) > 1
    assert max(len(made.replaces) for made in result.made) > 1

    def apply() -> None:
        compaction.apply(log.log, plan, result)

    return apply


def disk_of(log: CompactedLog) -> FaultyDisk:
    assert isinstance(log.files, FaultyDisk)
    return log.files


def steps_of(prepare: Callable[[CompactedLog], Callable[[], None]]) -> range:
    log = filled(0)
    action = prepare(log)
    before = disk_of(log).steps
    action()
    return range(1, disk_of(log).steps - before + 1)


def check(log: CompactedLog, end: int) -> None:
    assert log.table() == log.expected_table()
    assert (log.log.start_offset, log.log.next_offset) == (0, end)
    offsets = log.offsets()
    assert offsets == sorted(set(offsets))
    assert all(record == log.written[record.offset] for record in log.records())
    assert not [name for name in log.names() if name.endswith((".cleaned", ".swap"))]
    assert log.log.producers.by_id[5].last_sequence == 11


def check_after_crash(log: CompactedLog, disk: FaultyDisk, end: int, recovery_point: int) -> None:
    log.open(disk, recovery_point=recovery_point)
    check(log, end)
    log.append([(b"k0", b"after the crash")])
    log.seal()
    log.compact()
    check(log, end + 2)
    del log.written[end], log.written[end + 1]


@pytest.mark.parametrize("step", steps_of(applied))
def test_a_power_cut_while_segments_are_exchanged_loses_nothing(step: int) -> None:
    log = filled(step)
    apply, end, disk = applied(log), log.log.next_offset, disk_of(log)
    disk.stop_after(step)
    with pytest.raises(PowerCut):
        apply()
    for seed in range(6):
        check_after_crash(log, disk.crash(seed), end, recovery_point=end)


@pytest.mark.parametrize("step", steps_of(applied)[::3])
def test_not_even_when_the_recovery_point_is_lost(step: int) -> None:
    log = filled(step)
    apply, end, disk = applied(log), log.log.next_offset, disk_of(log)
    disk.stop_after(step)
    with pytest.raises(PowerCut):
        apply()
    for seed in range(4):
        restarted = disk.crash(seed)
        restarted.remove(FOLDER / checkpoints.DURABLE_OFFSET)
        check_after_crash(log, restarted, end, recovery_point=0)


@pytest.mark.parametrize("step", steps_of(lambda log: lambda: compacted(log))[::2])
def test_a_power_cut_at_any_step_of_a_compaction_loses_nothing(step: int) -> None:
    log = filled(step)
    end, disk = log.log.next_offset, disk_of(log)
    disk.stop_after(step)
    with pytest.raises(PowerCut):
        compacted(log)
    for seed in range(3):
        check_after_crash(log, disk.crash(seed), end, recovery_point=end)
    check_after_crash(log, disk.kill(), end, recovery_point=end)


@pytest.mark.parametrize("operation", ["write", "sync", "create", "sync_dir"])
def test_a_full_disk_leaves_the_log_as_it_was(operation: str) -> None:
    log = filled(0)
    end, segments = log.log.next_offset, list(log.log.segments)
    for after in range(3 if operation != "sync_dir" else 1):
        disk_of(log).fail(operation, errno.ENOSPC, after=after)  # type: ignore[arg-type]
        with pytest.raises(OSError, match="No space left"):
            compaction.compact(log.files, FOLDER, log.plan())
        disk_of(log).heal()
        assert log.log.segments == segments
        check(log, end)


@pytest.mark.parametrize("operation", ["rename", "remove", "sync_dir"])
def test_a_failing_exchange_can_still_be_read_and_ends_at_the_next_start(operation: str) -> None:
    for after in range(2):
        log = filled(0)
        apply, end = applied(log), log.log.next_offset
        disk_of(log).fail(operation, after=after)  # type: ignore[arg-type]
        with pytest.raises(OSError, match="Input/output"):
            apply()
        disk_of(log).heal()
        assert log.table() == log.expected_table()
        log.log.abandon()
        log.open(recovery_point=end)
        check(log, end)


def test_a_disk_thread_may_do_the_exchange_while_others_read() -> None:
    log = filled(0)
    plan = log.plan()
    result = compaction.compact(log.files, FOLDER, plan)
    exchange = compaction.begin(log.log, plan, result)
    assert exchange is not None
    before = log.records()
    exchange.run()
    assert log.records() == before
    old = compaction.finish(exchange)
    assert {id(segment) for segment in old}.isdisjoint(id(s) for s in log.log.segments)
    assert len(log.records()) < len(before)
    check(log, log.log.next_offset)


def test_a_log_reads_the_same_on_whatever_is_left_of_it() -> None:
    log = filled(0)
    compacted(log)
    again: PartitionLog = log.log
    again.close()
    log.open()
    check(log, again.next_offset)
