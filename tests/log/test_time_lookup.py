"""A time index has no checksum: a wrong bit of it hides no record from those who look by time, and makes
no segment older, or younger, than its records are."""

from __future__ import annotations

import pytest

from headwater.log import retention
from headwater.log.config import LogConfig
from headwater.log.files import FileSystem
from headwater.testing.faulty_disk import FaultyDisk

from .plain import FOLDER, NOW_MS, append, new_disk, new_log, opened

CONFIG = LogConfig(index_interval_bytes=400, segment_bytes=6000)
SECONDS = [number + (6 if number % 9 == 4 else 0) for number in range(80)]
"""Of each record; some are of a time that others reach much later."""
SEGMENTS = ("00000000000000000000", "00000000000000000032")


@pytest.fixture(scope="module")
def stopped() -> FaultyDisk:
    """Eighty batches of one record in three segments; stopped in order."""
    disk = new_disk()
    log = new_log(disk, index_interval_bytes=400, segment_bytes=6000)
    for second in SECONDS:
        append(log, b"v" * 110, timestamp=NOW_MS + second * 1000)
    log.close()
    return disk.kill()


def flipped(disk: FaultyDisk, name: str, bit: int) -> FaultyDisk:
    copy = disk.copy()
    path = FOLDER / f"{name}.timeindex"
    data = bytearray(copy.read_bytes(path) or b"")
    data[bit // 8] ^= 1 << bit % 8
    copy.write_atomic(path, bytes(data))
    return copy


def size(disk: FileSystem, name: str) -> int:
    return len(disk.read_bytes(FOLDER / f"{name}.timeindex") or b"")


def test_there_are_segments_as_named_here(stopped: FaultyDisk) -> None:
    log, _ = opened(stopped.copy(), CONFIG, recovery_point=80, clean=True)
    assert [f"{each.base_offset:020d}" for each in log.segments][:2] == list(SEGMENTS)
    assert len(log.segments) == 3
    assert all(size(stopped, name) >= 5 * 12 for name in SEGMENTS)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_wrong_bit_of_a_time_index_changes_what_is_found_by_time(
    stopped: FaultyDisk, number: int, clean: bool
) -> None:
    whole, _ = opened(stopped.copy(), CONFIG, recovery_point=80, clean=True)
    bases = [each.base_offset for each in whole.segments]
    spans = [SECONDS[begin:end] for begin, end in zip(bases, [*bases[1:], 80], strict=True)]
    name = f"{bases[number]:020d}"
    for bit in range(0, size(stopped, name) * 8, 5):
        log, _ = opened(
            flipped(stopped, name, bit), CONFIG, recovery_point=80 if clean else 60, clean=clean
        )
        assert log.next_offset == 80
        for second in range(0, 82, 3):
            wanted = next((place for place, each in enumerate(SECONDS) if each >= second), None)
            found = log.find_time(NOW_MS + second * 1000)
            assert (found and found.offset) == wanted, (bit, second)
        latest = log.find_max_timestamp()
        assert latest is not None and latest.offset == SECONDS.index(max(SECONDS)), bit
        for each, span in zip(log.segments, spans, strict=True):
            old = LogConfig(delete=True, retention_ms=1000)
            last_ms = NOW_MS + max(span) * 1000
            assert not retention.too_old(each, old, last_ms + 1000), bit
            assert retention.too_old(each, old, last_ms + 1001), bit
