"""An index has no checksum: a wrong bit of it hides no record, shows none too early, and moves no end."""

from __future__ import annotations

import threading

import pytest

from headwater.log import segment
from headwater.log.allowance import ENTRIES_MAX, Allowance
from headwater.log.config import LogConfig
from headwater.log.files import File
from headwater.log.partition import PartitionLog
from headwater.log.segment import Segment
from headwater.record import batch as batches
from headwater.testing.faulty_disk import FaultyDisk

from .plain import FOLDER, NOW_MS, append, new_disk, new_log, opened, read, stage

INDEX = FOLDER / "00000000000000000000.index"
CONFIG = LogConfig(index_interval_bytes=700)
STABLE = 25
"""Where a transaction is open, between two entries of the index."""


@pytest.fixture(scope="module")
def stopped() -> FaultyDisk:
    """Sixty batches of one record, each a second later than the one before; stopped in order."""
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=CONFIG.index_interval_bytes)
    for number in range(60):
        transactional = number == STABLE
        header = (
            {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
        )
        append(
            log,
            b"%d" % number * 100,
            timestamp=NOW_MS + number * 1000,
            transactional=transactional,
            **header,
        )
    log.close()
    return disk.kill()


def flipped(disk: FaultyDisk, bit: int) -> FaultyDisk:
    copy = disk.copy()
    data = bytearray(copy.read_bytes(INDEX) or b"")
    data[bit // 8] ^= 1 << bit % 8
    copy.write_atomic(INDEX, bytes(data))
    return copy


def bits(disk: FaultyDisk) -> range:
    """Every bit that an entry has, though not of every entry."""
    return range(0, len(disk.read_bytes(INDEX) or b"") * 8, 7)


def committed(log: PartitionLog) -> list[int]:
    data = bytes(log.read_committed(0, 1 << 20, log.last_stable_offset())[0] or b"")
    return [header.base_offset for _, header in batches.scan(data)]


def test_no_wrong_bit_of_an_index_changes_what_readers_find(stopped: FaultyDisk) -> None:
    for bit in bits(stopped):
        log, report = opened(flipped(stopped, bit), CONFIG, recovery_point=60, clean=True)
        assert (log.next_offset, report.damaged) == (60, False), bit
        assert committed(log) == list(range(STABLE)), bit
        for number in (5, 24, 45):
            found = log.find_time(NOW_MS + number * 1000)
            assert found is not None and found.offset == number, bit


def test_an_index_is_made_anew_while_the_log_goes_on(stopped: FaultyDisk) -> None:
    """The end of the segment went back meanwhile, and offsets could be given twice."""
    log, _ = opened(stopped.copy(), CONFIG, recovery_point=60, clean=True)
    seen: list[int] = []
    segment = log.active

    class Watched:
        """The segment's file; while it is read, somebody appends."""

        def __init__(self, file: File) -> None:
            self._file = file

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

        def read(self, position: int, size: int) -> bytes:
            segment._file = self._file
            append(log, b"meanwhile" * 100, timestamp=NOW_MS + 60_000)
            seen.append(segment.next_offset)
            return self._file.read(position, size)

    segment._file = Watched(segment.file)  # type: ignore[assignment]
    segment.rebuild_indexes(CONFIG.index_interval_bytes)
    assert seen == [61]
    assert (segment.next_offset, log.next_offset) == (61, 61)
    assert [record.offset for record in read(log, 58)] == [58, 59, 60]
    assert append(log, b"next", timestamp=NOW_MS) == 61


def test_nobody_waits_while_an_index_is_made_anew(stopped: FaultyDisk) -> None:
    """That may take seconds, and the event loop begins segments meanwhile, others read theirs."""
    disk = stopped.copy()
    log, _ = opened(disk, CONFIG, recovery_point=60, clean=True)
    segment, done = log.active, []

    def others() -> None:
        Segment.created(disk, FOLDER, 1000, NOW_MS).close()
        other = Segment.found(disk, FOLDER, 0, NOW_MS)
        other.next_offset = log.next_offset
        done.append(len(other.index))

    class Watched:
        def __init__(self, file: File) -> None:
            self._file = file

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

        def read(self, position: int, size: int) -> bytes:
            segment._file = self._file
            thread = threading.Thread(target=others, daemon=True)
            thread.start()
            thread.join(60)
            assert done, "they wait"
            return self._file.read(position, size)

    segment._file = Watched(segment.file)  # type: ignore[assignment]
    segment.rebuild_indexes(CONFIG.index_interval_bytes)
    assert done == [len(segment.index)]


def small_ones(count: int) -> tuple[FaultyDisk, PartitionLog]:
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=2**31 - 1)
    for _ in range(count):
        stage(log, b"v")
    log.flush()
    return disk, log


def test_an_index_has_entries_however_few_are_asked_for() -> None:
    _, log = small_ones(ENTRIES_MAX + 500)
    assert log.read(ENTRIES_MAX + 400, 100, within=Allowance())


def test_a_segment_with_too_few_entries_gets_them_from_the_first_who_goes_too_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(segment, "INTERVAL_BYTES_MAX", 2**31 - 1)
        disk, log = small_ones(ENTRIES_MAX + 500)
        log.roll(NOW_MS)
        append(log, b"in the next")
        log.close()
    log, _ = opened(disk, log.config, recovery_point=log.next_offset, clean=True)
    offset = ENTRIES_MAX + 400
    assert log.read(0, 100)
    assert len(log.segments[0].index) < 2
    assert log.read(offset, 100, within=Allowance()) is None, "not while others wait"
    found = log.read(offset, 100)
    assert found
    assert log.read(offset, 100, within=Allowance()) == found
