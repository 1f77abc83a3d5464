"""One wrong bit is set right wherever it is, and nothing else is touched."""

from __future__ import annotations

import random

import pytest

from headwater.record import codecs, control, records
from headwater.record.batch import CRC_START
from headwater.record.correction import corrected
from headwater.record.records import Record

MARKER = control.marker(control.ABORT, 1000, 3, 7, 1_700_000_000_000, 0)
ROWS = [Record(n, 1_700_000_000_000 + n, b"key-%d" % n, b"value" * n) for n in range(9)]
BATCHES = [MARKER, records.build(ROWS), records.build(ROWS, codec=codecs.ZSTD)]


def flipped(batch: bytes, *bits: int) -> bytes:
    data = bytearray(batch)
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


@pytest.mark.parametrize("batch", BATCHES)
def test_any_one_bit_of_what_the_checksum_covers_or_of_itself_is_set_right(batch: bytes) -> None:
    for bit in range((CRC_START - 4) * 8, len(batch) * 8):
        assert corrected(flipped(batch, bit)) == batch, bit


def test_a_large_batch_is_set_right() -> None:
    batch = records.build([Record(0, 1, b"k", random.Random(1).randbytes(900_000))])
    assert corrected(flipped(batch, 8 * 400_000)) == batch


@pytest.mark.parametrize("batch", BATCHES)
def test_two_wrong_bits_are_not_taken_for_one(batch: bytes) -> None:
    dice, places = random.Random(7), range(CRC_START * 8, len(batch) * 8)
    for _ in range(300):
        assert corrected(flipped(batch, *dice.sample(places, 2))) is None


@pytest.mark.parametrize("data", [b"", MARKER[:-1], MARKER + b"\0", MARKER, b"\0" * 200])
def test_what_is_no_batch_with_one_wrong_bit_stays_as_it_is(data: bytes) -> None:
    assert corrected(data) is None
