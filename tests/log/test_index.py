"""The sparse indexes: found by bisection, laid out as Kafka's, and cut where a crash left nonsense."""

from __future__ import annotations

import struct
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.index import OffsetIndex, TimeIndex

BASE = 1000


def offsets(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(BASE)
    for offset, position in entries:
        index.add(offset, position)
    return index


def times(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(BASE)
    for timestamp, offset in entries:
        index.add(timestamp, offset)
    return index


def test_an_offset_entry_is_eight_bytes_relative_to_the_base() -> None:
    assert bytes(offsets((1005, 77)).data) == struct.pack(">ii", 5, 77)


def test_a_time_entry_is_twelve_bytes_relative_to_the_base() -> None:
    assert bytes(times((123456, 1005)).data) == struct.pack(">qi", 123456, 5)


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (1000, (BASE, 0)),
        (1009, (BASE, 0)),
        (1010, (1010, 50)),
        (1019, (1010, 50)),
        (9999, (1020, 90)),
    ],
)
def test_the_floor_is_the_last_entry_at_or_before_an_offset(
    offset: int, found: tuple[int, int]
) -> None:
    assert offsets((1010, 50), (1020, 90)).floor(offset) == found


def test_the_floor_of_a_position_is_the_last_entry_at_or_before_it() -> None:
    index = offsets((1010, 50), (1020, 90))
    assert [index.floor_position(p)[1] for p in (0, 49, 50, 89, 90, 500)] == [0, 0, 50, 50, 90, 90]


def test_truncating_an_offset_index_forgets_what_points_behind() -> None:
    index = offsets((1010, 50), (1020, 90), (1030, 120))
    index.truncate(90)
    assert len(index) == 1
    index.truncate(0)
    assert len(index) == 0


def test_a_time_index_takes_only_later_timestamps() -> None:
    index = times((50, 1001), (50, 1002), (40, 1003), (60, 1004))
    assert [index.entry(n) for n in range(len(index))] == [(50, 1001), (60, 1004)]


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, None), (50, None), (51, (50, 1001)), (60, (50, 1001)), (61, (60, 1004))],
)
def test_the_floor_of_a_time_is_an_offset_before_which_nothing_is_as_late(
    timestamp: int, found: tuple[int, int] | None
) -> None:
    assert times((50, 1001), (60, 1004)).floor(timestamp) == found


def test_truncating_a_time_index_forgets_later_offsets() -> None:
    index = times((50, 1001), (60, 1004))
    index.truncate(1004)
    assert index.last() == (50, 1001)
    index.truncate(BASE)
    assert index.last() == (-1, BASE)


@pytest.mark.parametrize(
    "tail",
    [
        b"\0",  # half an entry
        struct.pack(">ii", 0, 0),  # zeros, as a power cut leaves them
        struct.pack(">ii", 20, 95),  # an offset that does not rise
        struct.pack(">ii", 25, 90),  # a position that does not rise
        struct.pack(">ii", 30, 5000),  # beyond the file
        struct.pack(">ii", -1, -1),
    ],
)
def test_loading_an_offset_index_stops_at_what_cannot_be(tail: bytes) -> None:
    good = offsets((1010, 50), (1020, 90))
    more = struct.pack(">ii", 40, 200)
    assert OffsetIndex.load(BASE, bytes(good.data) + tail, 1000).data == good.data
    if len(tail) == 8:
        assert OffsetIndex.load(BASE, bytes(good.data) + tail + more, 1000).data == good.data


@pytest.mark.parametrize(
    "tail",
    [b"\0" * 5, struct.pack(">qi", 0, 0), struct.pack(">qi", 59, 9), struct.pack(">qi", 70, 999)],
)
def test_loading_a_time_index_stops_at_what_cannot_be(tail: bytes) -> None:
    good = times((50, 1001), (60, 1004))
    assert TimeIndex.load(BASE, bytes(good.data) + tail, 1100).data == good.data


def test_kafkas_repeated_last_time_entry_is_accepted() -> None:
    data = struct.pack(">qi", 50, 1) + struct.pack(">qi", 60, 4) * 2
    assert TimeIndex.load(BASE, data, 1100).data == data


@given(st.binary(max_size=200), st.integers(0, 1 << 33))
def test_any_bytes_load_as_an_index_that_rises(data: bytes, file_size: int) -> None:
    index = OffsetIndex.load(BASE, data, file_size)
    entries = [index.entry(n) for n in range(len(index))]
    assert entries == sorted(set(entries))
    assert all(position < file_size for _, position in entries)
    timed = TimeIndex.load(BASE, data, BASE + 50)
    assert [timed.entry(n)[0] for n in range(len(timed))] == sorted(
        timed.entry(n)[0] for n in range(len(timed))
    )


@given(st.lists(st.integers(1, 100), max_size=50), st.integers(BASE, BASE + 5000))
def test_the_floor_agrees_with_a_plain_search(steps: list[int], wanted: int) -> None:
    index, known = OffsetIndex(BASE), [(BASE, 0)]
    for step in steps:
        known.append((known[-1][0] + step, known[-1][1] + 100))
        index.add(*known[-1])
    number = bisect_right([offset for offset, _ in known], wanted) - 1
    assert index.floor(wanted) == known[number]
