"""One segment: its files, its places, its walk from header to header."""

from __future__ import annotations

import pytest

from headwater.log import lookup, time_lookup
from headwater.log.segment import CorruptSegment, Segment, file_name
from headwater.record import batch as batches
from headwater.testing.faulty_disk import FaultyDisk

from .plain import FOLDER, NOW_MS, batch_of, new_disk


def filled(disk: FaultyDisk, *sizes: int, interval: int = 1, base_offset: int = 10) -> Segment:
    """A segment of one-record batches with values of these sizes, written and saved."""
    segment = Segment(disk, FOLDER, base_offset, NOW_MS)
    for number, size in enumerate(sizes):
        data = batch_of(b"v" * size, base_offset=base_offset + number, timestamp=NOW_MS + number)
        position = segment.stage(batches.read_header(data), base_offset + number, interval)
        segment.file.write(position, [data])
    segment.save_indexes(final=True)
    return segment


def found(disk: FaultyDisk, segment: Segment) -> Segment:
    again = Segment.found(disk, FOLDER, segment.base_offset, NOW_MS)
    again.next_offset = segment.next_offset
    return again


def test_a_file_is_named_by_its_first_offset_in_twenty_digits() -> None:
    assert file_name(1234, ".log") == "00000000000000001234.log"
    assert len(file_name(2**63 - 1, "")) == 20


def test_staging_gives_places_one_behind_the_other() -> None:
    segment = filled(new_disk(), 10, 20, 30)
    sizes = [len(batch_of(b"v" * n)) for n in (10, 20, 30)]
    walked = list(segment.headers(0, segment.size, checked=True))
    assert [position for position, _ in walked] == [0, sizes[0], sizes[0] + sizes[1]]
    assert [header.base_offset for _, header in walked] == [10, 11, 12]
    assert segment.size == sum(sizes)
    assert segment.next_offset == 13


def test_the_index_gets_an_entry_after_every_interval() -> None:
    size = len(batch_of(b"v" * 100))
    dense = filled(new_disk(), *[100] * 10, interval=1)
    sparse = filled(new_disk(), *[100] * 10, interval=3 * size)
    assert len(dense.index) == 9
    assert len(sparse.index) == 2


def test_a_batch_is_found_by_any_of_its_offsets() -> None:
    disk = new_disk()
    segment = Segment(disk, FOLDER, 0, NOW_MS)
    data = batch_of(b"a", b"b", b"c")
    segment.file.write(segment.stage(batches.read_header(data), 0, 1), [data])
    for offset in range(3):
        place = lookup.position_of(segment, offset, segment.size)
        assert place is not None
        assert place[0] == 0
    assert lookup.position_of(segment, 3, segment.size) is None


def test_a_found_segment_reads_its_indexes_when_they_are_asked_for() -> None:
    disk = new_disk()
    segment = filled(disk, 100, 100, 100)
    again = found(disk, segment)
    reads = disk.counts["read"]
    assert again.size == segment.size
    assert disk.counts["read"] == reads, "finding it reads nothing"
    assert again.index.data == segment.index.data
    assert again.times.data == segment.times.data
    assert time_lookup.largest(again) == NOW_MS + 2


def test_saving_again_writes_only_what_is_new() -> None:
    disk = new_disk()
    segment = filled(disk, 100, 100, 100)
    written = disk.bytes_written
    segment.save_indexes()
    assert disk.bytes_written == written
    data = batch_of(b"v" * 100)
    segment.stage(batches.read_header(data), 13, 1)
    segment.save_indexes()
    assert disk.bytes_written - written == 8, "one entry; its time is not later"


def test_releasing_gives_back_the_indexes_and_they_come_again() -> None:
    disk = new_disk()
    segment = found(disk, filled(disk, 100, 100, 100))
    before = bytes(segment.index.data)
    segment.release()
    segment.release()
    assert lookup.position_of(segment, 12, segment.size) is not None
    assert bytes(segment.index.data) == before


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_lost_index_is_made_from_the_batches(suffix: str) -> None:
    disk = new_disk()
    segment = filled(disk, *[3000] * 6)
    disk.remove(segment.path(suffix))
    again = found(disk, segment)
    assert [lookup.position_of(again, n, again.size) is not None for n in range(10, 16)] == [
        True
    ] * 6
    assert time_lookup.largest(again) == NOW_MS + 5


def test_walking_reports_where_the_damage_is() -> None:
    disk = new_disk()
    segment = filled(disk, 100, 100, 100)
    second = len(batch_of(b"v" * 100))
    disk.flip_bit(segment.path(".log"), second + 70)
    list(segment.headers(0, segment.size, checked=False))
    with pytest.raises(CorruptSegment) as caught:
        list(segment.headers(0, segment.size, checked=True))
    assert caught.value.file_position == second
    assert caught.value.path == segment.path(".log")
    assert f"damaged at byte {second}" in str(caught.value)


def test_walking_stops_with_an_error_where_the_file_ends_too_soon() -> None:
    disk = new_disk()
    segment = filled(disk, 100, 100)
    segment.file.truncate(segment.size - 1)
    segment.size -= 1
    with pytest.raises(CorruptSegment, match="beyond the end"):
        list(segment.headers(0, segment.size, checked=False))


def test_batches_larger_than_a_scan_are_walked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.log.segment.SCAN_BYTES", 200)
    segment = filled(new_disk(), 10, 500, 10, 300)
    assert len(list(segment.headers(0, segment.size, checked=True))) == 4


def test_cutting_forgets_what_lay_behind_in_file_and_indexes() -> None:
    disk = new_disk()
    segment = filled(disk, 100, 100, 100, 100)
    size = len(batch_of(b"v" * 100))
    segment.truncate(2 * size, 12)
    assert (segment.size, segment.next_offset, disk.size(segment.path(".log"))) == (
        2 * size,
        12,
        2 * size,
    )
    assert time_lookup.largest(segment) == NOW_MS + 1
    again = found(disk, segment)
    assert len(again.index) == 1
    assert time_lookup.largest(again) == NOW_MS + 1


def test_cutting_to_nothing_forgets_the_age() -> None:
    segment = filled(new_disk(), 100, 100)
    segment.truncate(0, 10)
    assert (segment.size, segment.next_offset, segment.first_timestamp) == (0, 10, None)
    assert time_lookup.largest(segment) == -1
