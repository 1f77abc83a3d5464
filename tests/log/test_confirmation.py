"""A sync that failed is never repeated and believed: not of records, not of names, in no mode."""

from __future__ import annotations

import ast
import errno
from dataclasses import replace
from pathlib import Path

import pytest

import headwater.log
from headwater.log import compaction
from headwater.log.compactor import compact
from headwater.log.config import LogConfig
from headwater.log.files import Files
from headwater.log.partition import PartitionLog, SyncFailed
from headwater.log.recovery import open_partition
from headwater.log.store import LogStore
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

ROOT = Path("/data")
NOW_MS = 1_700_000_000_000
LAZY = LogConfig(durability="os", segment_bytes=1000)


def opened(disk: FaultyDisk) -> LogStore:
    store = LogStore(disk, ROOT, lambda: NOW_MS)
    store.open(1)
    return store


def append(log: PartitionLog, *values: bytes) -> None:
    for value in values:
        data = records.build([Record(0, NOW_MS, None, value)])
        log.stage(data, batches.read_header(data), NOW_MS)
    log.flush()


def values(log: PartitionLog) -> list[bytes | None]:
    data = bytes(log.read(log.start_offset, 1 << 20) or b"")
    return [r.value for at, _ in batches.scan(data) for r in records.decode(data, at)]


def checkpointed(disk: FaultyDisk, name: str) -> bool:
    return name in (disk.read_bytes(ROOT / "recovery-point-offset-checkpoint") or b"").decode()


@pytest.mark.parametrize("operation", ["sync", "sync_dir"])
def test_a_lazy_sync_that_fails_fences_the_log_and_does_not_move_the_recovery_point(
    operation: str,
) -> None:
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, LAZY)
    other = store.open_log("other", 0, LAZY)
    append(log, b"one")
    store.sync_lazy()
    store.checkpoint()
    assert checkpointed(disk, "t 0 1")
    append(log, b"two")
    append(other, b"elsewhere")
    if operation == "sync":
        disk.fail("sync", name="*.log")
    else:
        disk.fail("sync_dir", name="t-0")
    with pytest.raises(SyncFailed):
        store.sync_lazy()
    assert log.fenced
    assert not other.fenced
    for _ in range(3):  # by now the disk says that all is well
        store.sync_lazy()
        store.checkpoint()
    assert checkpointed(disk, "t 0 1"), "the recovery point moved beyond what was confirmed"
    assert checkpointed(disk, "other 0 1"), "the others go on"


def test_a_crash_after_a_failed_lazy_sync_is_recovered_from_the_last_one_that_was_confirmed() -> (
    None
):
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, LAZY)
    append(log, b"one")
    store.sync_lazy()
    append(log, b"two")
    disk.fail("sync", name="*.log")
    with pytest.raises(SyncFailed):
        store.sync_lazy()
    store.sync_lazy()
    store.checkpoint()
    again = opened(disk.crash(1))
    found = again.open_log("t", 0, LAZY)
    assert again.reports["t", 0].missing is None, "nobody had promised more"
    assert values(found)[:1] == [b"one"]


def test_a_clean_stop_after_a_failed_lazy_sync_writes_again_what_was_not_confirmed() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, LAZY)
    append(log, b"one")
    store.sync_lazy()
    append(log, b"two")
    disk.fail("sync", name="*.log")
    with pytest.raises(SyncFailed):
        store.sync_lazy()
    store.close()
    assert values(opened(disk.crash(1)).open_log("t", 0, LAZY)) == [b"one", b"two"]


def test_a_log_that_is_opened_again_after_a_failed_write_has_all_of_it_synced() -> None:
    """What was written before without a sync must not be forgotten by the log's new owner."""
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, LAZY)
    append(log, b"one", b"two")
    disk.fail("write", errno.ENOSPC, name="*.log")
    with pytest.raises(OSError, match="No space left"):
        append(log, b"refused")
    log = store.reopen_log("t", 0)
    store.sync_lazy()
    store.checkpoint()
    assert values(opened(disk.crash(1)).open_log("t", 0, LAZY)) == [b"one", b"two"]


def test_the_recovery_point_does_not_jump_when_durability_changes_to_disk() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, LAZY)
    append(log, b"one")
    log.config = replace(LAZY, durability="disk")
    store.checkpoint()
    assert checkpointed(disk, "t 0 0"), "nothing has been synced yet"
    append(log, b"two")
    store.checkpoint()
    assert checkpointed(disk, "t 0 2")


@pytest.mark.parametrize("number", [0, -1])
def test_a_file_that_goes_under_a_commit_fails_it_if_records_of_it_are_there(number: int) -> None:
    """Else retention may have had it: it waits to be synced only because durability was "os"."""
    disk = FaultyDisk()
    log = opened(disk).open_log("t", 0, LAZY)
    append(log, *[b"." * 400] * 4)
    log.config = replace(LAZY, durability="disk")
    data = records.build([Record(0, NOW_MS, None, b"last")])
    log.stage(data, batches.read_header(data), NOW_MS)
    commit = log.take()
    assert commit is not None and log.segments[0] in commit.unsynced
    disk.remove(log.segments[number].path(".log"))
    if number == 0:
        commit.run()
        return
    with pytest.raises(SyncFailed, match="removed, moved or replaced"):
        commit.run()


@pytest.mark.parametrize("operation", ["sync", "sync_dir"])
def test_a_recovery_that_is_not_confirmed_says_so(operation: str) -> None:
    disk = FaultyDisk()
    disk.make_dir(ROOT)
    log, _ = open_partition(disk, ROOT, LAZY, NOW_MS)
    append(log, b"one")
    disk.fail("sync", name="*.log") if operation == "sync" else disk.fail("sync_dir")
    with pytest.raises(SyncFailed):
        open_partition(disk, ROOT, LAZY, NOW_MS)


def test_a_checkpoint_that_was_not_confirmed_is_written_as_a_new_file() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, LogConfig())
    append(log, b"one")
    disk.fail("sync", name="recovery-point*")
    with pytest.raises(OSError, match="Input/output"):
        store.checkpoint()
    store.checkpoint()
    found = disk.crash(1).read_bytes(ROOT / "recovery-point-offset-checkpoint") or b""
    assert b"t 0 1" in found


# Places that sync by themselves, and write everything again if that fails: see `confirmation`.
WRITTEN_ANEW = {"files.py", "confirmation.py", "segment.py", "cleaned_segment.py", "compactor.py"}
WRITTEN_ANEW |= {"excision.py", "commit.py", "store.py"}


def test_the_log_asks_the_disk_to_confirm_in_one_way_only() -> None:
    """Who calls `sync` itself may repeat it; the files that may are those that write all anew."""
    calls = {
        path.name
        for path in Path(headwater.log.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "sync_dir"
        or (node.func.attr == "sync" and "file" in ast.unparse(node.func.value))
    }
    assert calls <= WRITTEN_ANEW


def lazy_log(disk: FaultyDisk, count: int = 6) -> PartitionLog:
    """Several segments, none of them synced."""
    disk.make_dir(ROOT)
    log, _ = open_partition(disk, ROOT, LAZY, NOW_MS)
    for number in range(count):
        append(log, bytes([number]) * 600)
    return log


def test_a_segment_that_retention_removes_during_a_lazy_sync_holds_up_no_other() -> None:
    disk = FaultyDisk()
    log = lazy_log(disk)
    log.sync()
    for number in range(3):
        append(log, bytes([number]) * 600)

    def drop() -> None:
        disk.before_each_step(None)
        for segment in log.drop_front(len(log.segments) - 1):
            segment.remove()

    disk.before_each_step(drop)
    log.sync()
    append(log, b"more")
    log.sync()
    assert log.synced_offset == log.durable_offset
    assert len([name for name in disk.list(ROOT) if name.endswith(".log")]) == len(log.segments)


def test_a_segment_keeps_its_descriptor_until_a_lazy_sync_under_way_has_come_to_it() -> None:
    disk = FaultyDisk()
    log = lazy_log(disk)
    files = [segment.file for segment in log.segments]

    def release() -> None:
        disk.before_each_step(None)
        log.release()

    disk.before_each_step(release)
    log.sync()
    assert [segment.file for segment in log.segments] == files


def test_the_recovery_point_never_passes_what_a_lazy_sync_did_not_see() -> None:
    """A sync, in its thread, in the middle of `finish`."""
    disk = FaultyDisk()
    log = lazy_log(disk, 1)
    log.sync()
    append(log, b"a" * 600)
    log.sync()
    data = records.build([Record(0, NOW_MS, None, b"b" * 600)])
    log.stage(data, batches.read_header(data), NOW_MS)
    settled = log.producers.settle

    def settle(offset: int) -> None:
        log.sync()
        settled(offset)

    log.producers.settle = settle  # type: ignore[method-assign]
    log.flush()
    reached = log.synced_offset
    after, _ = open_partition(disk.crash(outcome="lost"), ROOT, LAZY, NOW_MS)
    assert after.next_offset >= reached


def test_a_segment_that_a_compaction_replaces_during_a_lazy_sync_fences_nothing(
    tmp_path: Path,
) -> None:
    """Until the segments are exchanged, too, the name means the new file, which is on disk already."""
    store = LogStore(Files(), tmp_path / "data", lambda: 0)
    store.open(1)
    config = replace(LogConfig(), durability="os", segment_bytes=300, compact=True)
    config = replace(config, min_cleanable_dirty_ratio=0.0)
    log = store.open_log("t", 0, config)
    for number in range(8):
        batch = records.build([Record(0, number, b"k", b"v" * 150)])
        log.stage(batch, batches.read_header(batch), number)
        log.flush()
    compaction.prepare(log)
    plan = compaction.plan(log, 0, key_bytes_max=1 << 20, bytes_per_second=None)
    assert plan is not None
    exchange = compaction.begin(log, plan, compact(Files(), log.directory, plan))
    assert exchange is not None
    exchange.run()
    log.sync()
    assert not log.fenced
    compaction.finish(exchange)
    assert log.synced_offset == 8
    store.close()
