"""Variable-length integers: any value comes back, and no bytes do anything but parse or raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.record import varint
from headwater.record.errors import CorruptBatch

KNOWN = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    8192: "808001",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
    2**63 - 1: "feffffffffffffffff01",
    -(2**63): "ffffffffffffffffff01",
}


@pytest.mark.parametrize(("value", "spelt"), KNOWN.items())
def test_integers_are_spelt_as_protocol_buffers_do(value: int, spelt: str) -> None:
    assert varint.encode(value).hex() == spelt


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_64_bit_integer_comes_back(value: int) -> None:
    spelt = varint.encode(value)
    assert varint.decode(b"." + spelt + b".", 1, 1 + len(spelt), 10) == (value, 1 + len(spelt))


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_spelling_that_is_cut_short_is_refused(value: int) -> None:
    spelt = varint.encode(value)
    for end in range(len(spelt)):
        with pytest.raises(CorruptBatch):
            varint.decode(spelt, 0, end)


def test_a_longer_spelling_than_needed_is_read() -> None:
    assert varint.decode(b"\x82\x80\x00", 0, 3) == (1, 3)


@pytest.mark.parametrize("spelt", ["ffffffff1f", "ffffffffff01"])
def test_more_than_32_bits_are_refused_where_32_are_meant(spelt: str) -> None:
    with pytest.raises(CorruptBatch):
        varint.decode(bytes.fromhex(spelt), 0, 6)


def test_more_than_64_bits_are_refused() -> None:
    with pytest.raises(CorruptBatch):
        varint.decode(b"\xff" * 9 + b"\x02", 0, 10, 10)


@given(st.binary(max_size=12), st.sampled_from([5, 10]))
def test_any_bytes_parse_or_raise(data: bytes, bytes_max: int) -> None:
    try:
        value, position = varint.decode(data, 0, len(data), bytes_max)
    except CorruptBatch:
        return
    assert 0 < position <= min(len(data), bytes_max)
    assert -(2**63) <= value < 2**63
