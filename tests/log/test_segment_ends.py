"""What is missing between two segments, though no file tells of it."""

from __future__ import annotations

import pytest

from headwater.log import segment_ends
from headwater.log.partition import PartitionLog
from headwater.testing.faulty_disk import FaultyDisk

from .plain import FOLDER, append, new_disk, new_log, opened, read_on


def filled(interval: int) -> tuple[FaultyDisk, PartitionLog]:
    """Three segments of three batches each."""
    disk = new_disk()
    log = new_log(disk, segment_bytes=300, index_interval_bytes=interval)
    for number in range(9):
        append(log, b"%d" % number * 20)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    return disk, log


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("interval", [1, 4096])
@pytest.mark.parametrize("harm", ["removed", "empty", "cut", "whole"])
def test_a_segment_that_was_removed_or_cut_between_two_batches_is_found_out(
    harm: str, interval: int, clean: bool
) -> None:
    disk, log = filled(interval)
    third = log.segments[1].size // 3
    log.close() if clean else log.abandon()
    disk = disk.kill()
    for name in disk.list(FOLDER) if harm != "whole" else []:
        if name.startswith(f"{3:020d}.") and (harm == "removed" or not name.endswith(".log")):
            disk.remove(FOLDER / name)
    if harm in ("empty", "cut"):
        disk.cut_short(FOLDER / f"{3:020d}.log", 0 if harm == "empty" else third)
    expected = {"whole": [], "cut": [(4, 6)]}.get(harm, [(3, 6)])
    for _ in range(2):
        again, _ = opened(disk, log.config, recovery_point=9, clean=clean)
        assert segment_ends.missing(segment_ends.neighbours(again)) == expected
        assert [value[:1] for value in read_on(again, 6) if value] == [b"6", b"7", b"8"]
        again.abandon()


def test_a_segment_that_goes_meanwhile_or_is_damaged_tells_nothing() -> None:
    disk, log = filled(4096)
    disk.remove(FOLDER / f"{0:020d}.log")
    disk.flip_bit(FOLDER / f"{3:020d}.log")
    assert segment_ends.missing(segment_ends.neighbours(log)) == []
