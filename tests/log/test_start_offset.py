"""Where a log begins is an acknowledged promise (DeleteRecords), kept beside it with a checksum: whatever
becomes of the file that Kafka's tools read, deleted records stay deleted, and others stay."""

from __future__ import annotations

import errno
import uuid
from pathlib import Path

import pytest

from headwater.log import checkpoints, progress
from headwater.log.checkpoints import START_OFFSET, START_OFFSETS
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.store import LogStore
from headwater.testing.faulty_disk import FaultyDisk

from .plain import NOW_MS, append

ROOT = Path("/data")
CONFIG = LogConfig(segment_bytes=2000)
DELETED = 130
"""Within a segment, and of three digits."""


@pytest.fixture(scope="module")
def deleted() -> FaultyDisk:
    """Two hundred records in many segments, of which the first were deleted; then a kill."""
    disk = FaultyDisk()
    store = LogStore(disk, ROOT, lambda: NOW_MS)
    store.open(1)
    log = store.open_log("t", 0, CONFIG)
    for number in range(200):
        append(log, b"%d" % number * 20)
    log.delete_before(DELETED)
    store.checkpoint_starts()
    return disk.kill()


def opened(disk: FaultyDisk) -> PartitionLog:
    store = LogStore(disk, ROOT, lambda: NOW_MS)
    store.open(1)
    return store.open_log("t", 0, CONFIG)


def readable(log: PartitionLog) -> tuple[int, int]:
    return log.start_offset, log.next_offset


def segments(disk: FaultyDisk) -> int:
    return sum(name.endswith(".log") for name in disk.list(ROOT / "t-0"))


@pytest.mark.parametrize(
    "text", [b"", b"0\n1\nt 0 190\n", b"0\n1\nt 0 100\n", b"nonsense", b"0\n0\n", None]
)
def test_a_checkpoint_that_is_lost_or_wrong_changes_nothing(
    deleted: FaultyDisk, text: bytes | None
) -> None:
    disk = deleted.copy()
    disk.remove(ROOT / START_OFFSETS) if text is None else disk.write_atomic(
        ROOT / START_OFFSETS, text
    )
    assert readable(opened(disk)) == (DELETED, 200)


def test_no_wrong_bit_of_either_file_removes_a_record_or_brings_one_back(
    deleted: FaultyDisk,
) -> None:
    for path in (ROOT / START_OFFSETS, ROOT / "t-0" / START_OFFSET):
        data = deleted.read_bytes(path) or b""
        assert data
        for bit in range(len(data) * 8):
            disk = deleted.copy()
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            disk.write_atomic(path, bytes(flipped))
            assert readable(opened(disk)) == (DELETED, 200), (path, bit)


def test_a_checkpoint_alone_removes_no_file(deleted: FaultyDisk) -> None:
    """A folder of a version that kept no other; retention removes them in its time."""
    disk = deleted.copy()
    disk.remove(ROOT / "t-0" / START_OFFSET)
    before = segments(disk)
    assert readable(opened(disk)) == (DELETED, 200)
    assert segments(disk) == before


def test_what_such_a_folder_says_is_kept_beside_its_log_from_then_on(deleted: FaultyDisk) -> None:
    disk = deleted.copy()
    disk.remove(ROOT / "t-0" / START_OFFSET)
    store = LogStore(disk, ROOT, lambda: NOW_MS)
    store.open(1)
    store.open_log("t", 0, CONFIG)
    store.checkpoint_starts()
    disk = disk.kill()
    disk.remove(ROOT / START_OFFSETS)
    assert readable(opened(disk)) == (DELETED, 200)


def test_a_move_that_was_taken_back_does_not_come_with_the_next_start(deleted: FaultyDisk) -> None:
    disk = deleted.copy()
    store = LogStore(disk, ROOT, lambda: NOW_MS)
    store.open(1)
    log = store.open_log("t", 0, CONFIG)
    log.delete_before(150)
    store.checkpoint_starts()
    log.start_offset = DELETED  # as `put_start_back` does where writing it down has failed
    store.checkpoint_starts()
    assert readable(opened(disk.kill())) == (DELETED, 200)


def test_a_start_offset_is_twelve_bytes_with_a_checksum(deleted: FaultyDisk) -> None:
    data = deleted.read_bytes(ROOT / "t-0" / START_OFFSET) or b""
    assert data == checkpoints.pack_durable_offset(DELETED)
    assert data[:8] == DELETED.to_bytes(8, "big") and len(data) == 12


def test_a_damaged_line_lets_no_other_log_begin_where_it_says(deleted: FaultyDisk) -> None:
    """1 and 0 differ in one bit; the log that it made of the other began at 0, and had no file of its own."""
    disk = deleted.copy()
    store = LogStore(disk, ROOT, lambda: NOW_MS)
    store.open(1)
    store.open_log("t", 0, CONFIG)
    other = store.open_log("t", 1, CONFIG)
    for number in range(200):
        append(other, b"%d" % number * 20)
    store.checkpoint()
    disk = disk.kill()
    disk.write_atomic(ROOT / START_OFFSETS, b"0\n1\nt 1 130\n")
    for _ in range(2):  # the second start took the first one's mistake for its own word
        store = LogStore(disk, ROOT, lambda: NOW_MS)
        store.open(1)
        assert readable(store.open_log("t", 1, CONFIG)) == (0, 200)
        store.checkpoint()
        disk = disk.kill()


def test_logs_that_begin_at_the_beginning_get_their_files_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "ZEROS_AT_ONCE", 2)
    disk = FaultyDisk()
    store = LogStore(disk, ROOT, lambda: NOW_MS)
    store.open(1)
    for number in range(5):
        append(store.open_log("t", number, CONFIG), b"one")
    store.open_log("empty", 0, CONFIG)
    for written in (2, 4, 5, 5):
        store.checkpoint()
        assert sum(path.name == START_OFFSET for path in disk.all_files()) == written


class OneBadFolder(FaultyDisk):
    """Takes no new file in it."""

    bad: Path | None = None

    def write_atomic(self, path: Path, data: bytes) -> None:
        if path.parent == self.bad:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        super().write_atomic(path, data)


def test_a_folder_that_takes_no_file_keeps_no_other_log_from_what_it_promises() -> None:
    """Its own promise is refused; before, no log's start, recovery point or new topic was written down."""
    disk = OneBadFolder()
    store = LogStore(disk, ROOT, lambda: NOW_MS)
    store.open(1)
    bad, good = (store.open_log(name, 0, CONFIG) for name in ("bad", "good"))
    for log in (bad, good):
        for number in range(20):
            append(log, b"%d" % number)
        log.delete_before(10)
    disk.bad = ROOT / "bad-0"
    with pytest.raises(OSError):
        store.checkpoint_starts([("bad", 0)])
    store.checkpoint_starts([("good", 0)])
    store.open_log("new", 0, CONFIG, uuid.uuid4())
    assert checkpoints.read_offsets(disk, ROOT / START_OFFSETS) == {("good", 0): 10}
    with pytest.raises(OSError):
        store.checkpoint()
    assert ("good", 0) in checkpoints.read_offsets(disk, ROOT / checkpoints.RECOVERY_POINTS)
    after = disk.kill()
    after.remove(ROOT / START_OFFSETS)
    store = LogStore(after, ROOT, lambda: NOW_MS)
    store.open(1)
    found = [readable(store.open_log(name, 0, CONFIG)) for name in ("bad", "good")]
    assert found == [(0, 20), (10, 20)]
