"""That a log was compacted, and how far, is kept beside it with a checksum: whatever becomes of the file that
Kafka's tools read, a log with gaps is served, and a deleted key stays deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.log import checkpoints, compaction
from headwater.log.checkpoints import CLEANED_OFFSET, CLEANED_OFFSETS
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.store import LogStore
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

from .compacted import CONFIG, NOW_MS
from .test_start_offset import OneBadFolder

ROOT = Path("/data")
OWN = ROOT / "t-0" / CLEANED_OFFSET
KEPT_FOR_EVER = replace(CONFIG, compact=False, delete=True, retention_ms=-1)
DAMAGED_TEXTS = [b"", b"nonsense", b"0\n0\n", b"0\n1\nt 1 95\n", None]


def append(log: PartitionLog, key: bytes, value: bytes | None) -> None:
    data = records.build([Record(0, NOW_MS, key, value)])
    log.stage(data, batches.read_header(data), NOW_MS)
    log.flush()


def opened(disk: FaultyDisk, config: LogConfig = CONFIG) -> tuple[LogStore, PartitionLog]:
    store = LogStore(disk, ROOT, lambda: NOW_MS)
    store.open(1)
    return store, store.open_log("t", 0, config)


def compact(store: LogStore, log: PartitionLog, now_ms: int = NOW_MS) -> None:
    """As the broker's cleaner does it, as often as there is something to do."""
    while (plan := compaction.plan(log, now_ms)) is not None:
        result = compaction.compact(log.files, log.directory, plan)
        log.cleaned_offset = min(log.cleaned_offset, result.cleaned_offset) or 1
        store.checkpoint([("t", 0)])
        assert compaction.apply(log, plan, result) is not None
    store.checkpoint()


def newest(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """What a reader ends up with, tombstones left out."""
    found: dict[bytes | None, bytes | None] = {}
    offset = log.start_offset
    while offset < log.durable_offset:
        data = bytes(log.read(offset, 1 << 20) or b"")
        for position, header in batches.scan(data):
            found |= {record.key: record.value for record in records.decode(data, position)}
            offset = header.next_offset
    return {key: value for key, value in found.items() if value is not None}


@pytest.fixture(scope="module")
def cleaned() -> FaultyDisk:
    """Ten keys a hundred times, compacted: little is left of them, with gaps in between; then a kill."""
    disk = FaultyDisk()
    store, log = opened(disk)
    for number in range(1000):
        append(log, b"key-%d" % (number % 10), b"%d" % number)
    compact(store, log)
    assert sum(segment.size for segment in log.segments) < 5000
    return disk.kill()


def changed(disk: FaultyDisk, path: Path, data: bytes | None) -> FaultyDisk:
    disk = disk.copy()
    disk.remove(path) if data is None else disk.write_atomic(path, data)
    return disk


@pytest.mark.parametrize("text", DAMAGED_TEXTS)
def test_a_log_that_is_no_longer_compacted_is_served_whatever_the_checkpoint_says(
    cleaned: FaultyDisk, text: bytes | None
) -> None:
    """Its gaps were taken for damage, and every record behind the first was refused."""
    _, before = opened(cleaned.copy())
    _, log = opened(changed(cleaned, ROOT / CLEANED_OFFSETS, text), KEPT_FOR_EVER)
    assert newest(log) == newest(before)
    assert log.cleaned_offset == before.cleaned_offset


@pytest.mark.parametrize("data", [None, b"", b"\0" * 12, b"x" * 12])
def test_without_a_file_of_its_own_all_of_the_log_is_dirty_and_may_have_gaps(
    cleaned: FaultyDisk, data: bytes | None
) -> None:
    """A folder of an earlier version has none. How far its checkpoint says is not believed."""
    _, before = opened(cleaned.copy())
    store, log = opened(changed(cleaned, OWN, data), KEPT_FOR_EVER)
    assert log.cleaned_offset == 1
    assert newest(log) == newest(before)
    store.checkpoint()
    assert checkpoints.read_cleaned_offset(log.files, log.directory) == 1


def test_no_wrong_bit_of_either_file_lets_compaction_leave_out_what_it_has_not_seen(
    cleaned: FaultyDisk,
) -> None:
    _, log = opened(cleaned.copy())
    right = log.cleaned_offset
    for path in (ROOT / CLEANED_OFFSETS, OWN):
        data = cleaned.read_bytes(path) or b""
        assert data
        for bit in range(len(data) * 8):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            _, log = opened(changed(cleaned, path, bytes(flipped)), KEPT_FOR_EVER)
            assert log.cleaned_offset in (1, right), (path, bit)


def test_a_deleted_key_does_not_come_back_through_a_wrong_digit() -> None:
    """With a clean part that was none, the tombstone went and the older value stayed."""
    disk = FaultyDisk()
    store, log = opened(disk)
    append(log, b"deleted", b"value")
    append(log, b"deleted", None)
    for number in range(100):
        append(log, b"key-%d" % number, b"%d" % number)
    store.checkpoint()
    disk = changed(disk.kill(), ROOT / CLEANED_OFFSETS, b"0\n1\nt 0 90\n")
    store, log = opened(disk)
    for later_ms in (0, 10, 5000, 10_000):
        compact(store, log, NOW_MS + later_ms)
        for number in range(60):
            append(log, b"filler-%d" % number, b"." * 20)
    assert b"deleted" not in newest(log)


def test_a_folder_that_takes_no_file_is_not_compacted(cleaned: FaultyDisk) -> None:
    disk = OneBadFolder()
    store, log = opened(disk)
    disk.bad = log.directory
    log.cleaned_offset = 1
    with pytest.raises(OSError, match="denied"):
        store.checkpoint([("t", 0)])
    store.checkpoint([("other", 0)])


def test_a_topic_that_is_made_again_was_never_compacted(cleaned: FaultyDisk) -> None:
    store, _ = opened(cleaned.copy())
    store.remove_log("t", 0)
    again = store.open_log("t", 0, KEPT_FOR_EVER)
    store.checkpoint()
    assert again.cleaned_offset == 0
    assert checkpoints.read_cleaned_offset(again.files, again.directory) is None


def test_a_log_that_has_lost_its_end_is_dirty(cleaned: FaultyDisk) -> None:
    """What takes the lost offsets was never compacted."""
    disk = changed(cleaned, OWN, checkpoints.pack_durable_offset(100_000))
    _, log = opened(disk)
    assert log.cleaned_offset == 1
