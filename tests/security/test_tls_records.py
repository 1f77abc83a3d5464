"""Records of TLS in a stream of bytes: found whole, byte by byte, and in any pieces."""

from __future__ import annotations

import random
import struct

import pytest

from headwater.broker.security.tls_records import HEAD_BYTES, LARGE_BYTES, Records

LENGTHS = [0, 1, 22, 255, 256, 16_640, 0, 0, 65_535, 7]
STREAM = b"".join(struct.pack(">BHH", 23, 0x0303, each) + bytes(each) for each in LENGTHS)


def _ends(pieces: list[bytes]) -> list[int]:
    """Where records were found to end."""
    records, place, found = Records(), 0, []
    for piece in pieces:
        data = memoryview(piece)
        while data:
            count = records.cut(data)
            assert count > 0
            place += count
            data = data[count:]
            assert records.is_whole or not data, "no more than one record at a time, and no less"
            if records.is_whole:
                found.append(place)
    return found


@pytest.mark.parametrize("size", [len(STREAM), 1, 2, 5, 6, 4096, 65_536, None])
def test_records_end_at_the_same_places_in_whatever_pieces_they_come(size: int | None) -> None:
    drawn, pieces, rest = random.Random(11), [], STREAM
    while rest:
        count = size or drawn.choice((1, 3, 4, 5, 9, 300, 20_000))
        pieces.append(rest[:count])
        rest = rest[count:]
    ends, place = [], 0
    for length in LENGTHS:
        place += 5 + length
        ends.append(place)
    assert _ends(pieces) == ends


MIXED = (LARGE_BYTES, 9_000, 20, 30, LARGE_BYTES - HEAD_BYTES - 1, 16_000, 16_000)


def _sent() -> bytes:
    return b"".join(b"\x17\x03\x03" + length.to_bytes(2, "big") + bytes(length) for length in MIXED)


def _stretches(records: Records, data: bytes) -> list[int]:
    view, found = memoryview(data), []
    while view:
        found.append(records.stretch(view))
        view = view[found[-1] :]
    return found


def test_large_ones_that_follow_each_other_go_together() -> None:
    whole = [HEAD_BYTES + length for length in MIXED]
    records = Records()
    assert _stretches(records, _sent()) == [sum(whole[:2]), *whole[2:5], sum(whole[5:])]
    assert records.is_whole


@pytest.mark.parametrize("at", [1, 4, 5, 6, 4_101, 4_104, 13_110, 13_115, 13_135, 13_140, 17_000])
def test_wherever_a_read_ends_small_ones_go_alone(at: int) -> None:
    records, data = Records(), _sent()
    ends: list[int] = []
    for part in (data[:at], data[at:]):
        for count in _stretches(records, part):
            ends.append(count + (ends[-1] if ends else 0))
    assert ends[-1] == len(data) and records.is_whole
    begin = 0
    for length in MIXED:
        end = begin + HEAD_BYTES + length
        inside = [each for each in ends if begin < each < end]
        if length < LARGE_BYTES and at not in range(begin + 1, end):
            assert {begin, end} <= {0, *ends}, f"the small one that ends at {end} is alone"
        assert set(inside) <= {at}
        begin = end
