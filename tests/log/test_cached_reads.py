"""What the event loop asks of a log never makes it wait: indexes are loaded, and made, in a thread."""

from __future__ import annotations

import pytest

from headwater.log.allowance import Allowance
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.testing.faulty_disk import FaultyDisk

from .plain import append, new_disk, new_log, opened


def filled(disk: FaultyDisk) -> PartitionLog:
    log = new_log(disk, segment_bytes=3000, index_interval_bytes=200)
    for number in range(40):
        append(log, b"%d" % number * 50)
    return log


def sealed_offset(log: PartitionLog) -> int:
    return log.segments[1].base_offset + 3


def test_indexes_of_a_sealed_segment_are_not_loaded_for_a_reader_who_cannot_wait() -> None:
    log = filled(new_disk())
    offset = sealed_offset(log)
    assert log.read(offset, 100, within=Allowance())
    log.release()
    before = log.files.counts["read"]  # type: ignore[attr-defined]
    assert log.read(offset, 100, within=Allowance()) is None
    assert log.files.counts["read"] == before, "the disk was asked"  # type: ignore[attr-defined]
    assert log.read(offset, 100)
    assert log.read(offset, 100, within=Allowance()), "a thread has loaded it"


@pytest.mark.parametrize("damage", ["lost", "wrong"])
def test_indexes_are_not_made_anew_for_a_reader_who_cannot_wait(damage: str) -> None:
    disk = new_disk()
    log = filled(disk)
    offset, segment = sealed_offset(log), log.segments[1]
    log.close()
    if damage == "lost":
        disk.remove(segment.path(".index"))
    else:
        data = bytearray(disk.read_bytes(segment.path(".index")) or b"")
        for at in range(7, len(data), 8):
            data[at] ^= 1
        disk.write(segment.path(".index"), bytes(data))
    log, _ = opened(disk, LogConfig(segment_bytes=3000, index_interval_bytes=200), clean=True)
    for _ in range(2):
        before = disk.bytes_read
        assert log.read(offset, 100, within=Allowance()) is None
        assert disk.bytes_read - before < 200, "the segment was read through"
        if damage == "wrong":
            _ = log.segments[1].index, log.segments[1].file
    assert log.read(offset, 100)
    assert log.read(offset, 100, within=Allowance())


def test_damage_is_not_searched_through_for_a_reader_who_cannot_wait() -> None:
    disk = new_disk()
    log = filled(disk)
    segment, offset = log.segments[1], log.segments[1].next_offset - 1
    log.close()
    disk.flip_bit(segment.path(".log"), 8)  # the length of its first batch
    disk.remove(segment.path(".index"))
    log, _ = opened(disk, LogConfig(segment_bytes=3000, index_interval_bytes=200), clean=True)
    assert log.read(offset, 100, within=Allowance()) is None


def test_a_reader_of_committed_data_does_not_wait_for_the_place_of_the_stable_offset() -> None:
    disk = new_disk()
    log = filled(disk)
    offset = sealed_offset(log)
    log.release()
    assert log.read(offset, 5000, upper=offset + 1, within=Allowance()) is None
    found = log.read(offset, 5000, upper=offset + 1)
    assert found == log.read(offset, 5000, upper=offset + 1, within=Allowance())
