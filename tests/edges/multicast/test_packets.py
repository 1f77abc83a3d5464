"""Packets: round trip, byte by byte, with bytes too many, with another secret, and any bytes at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edges.multicast.packets import (
    Ask,
    Data,
    Heartbeat,
    Message,
    Packet,
    Stamp,
    TooLarge,
    Unreadable,
    decode,
    encode,
    ranges_of,
)

_U64 = st.integers(1, 2**64 - 1)
_BYTES = st.none() | st.binary(max_size=40)
_MESSAGES = st.builds(
    Message,
    value=_BYTES,
    key=_BYTES,
    headers=st.lists(st.tuples(st.text(max_size=9), _BYTES), max_size=3).map(tuple),
    timestamp_ms=st.integers(-1, 2**62),
)
_RANGES = st.tuples(_U64, _U64).map(lambda pair: (min(pair), max(pair)))
_PAIRS = st.lists(st.tuples(_U64, _U64), max_size=3).map(tuple)
_STAMPS = st.builds(Stamp, _U64, _U64)
PACKETS: st.SearchStrategy[Packet] = st.one_of(
    st.builds(Data, _U64, st.just(2**63), st.integers(1, 2**63), _MESSAGES, _STAMPS),
    st.builds(Heartbeat, _U64, st.just(7), st.integers(1, 8), st.booleans(), _PAIRS, _STAMPS),
    st.builds(Ask, _U64, st.lists(_RANGES, max_size=5).map(tuple), _STAMPS),
)
ONE = Data(5, 9, 3, Message(b"value", b"key", (("a", b"1"), ("b", None)), 1234))


@given(PACKETS, st.binary(max_size=16))
def test_a_packet_comes_back_as_it_went(packet: Packet, secret: bytes):
    assert decode(encode(packet, secret), secret) == packet


def test_a_packet_cut_anywhere_or_with_bytes_too_many_is_refused():
    whole = encode(ONE)
    for cut in range(len(whole)):
        with pytest.raises(Unreadable):
            decode(whole[:cut])
    with pytest.raises(Unreadable):
        decode(whole + b"\0")


def test_a_packet_with_any_bit_turned_is_refused():
    whole = bytearray(encode(ONE))
    for place in range(len(whole)):
        whole[place] ^= 0x10
        with pytest.raises(Unreadable):
            decode(bytes(whole))
        whole[place] ^= 0x10
    assert decode(bytes(whole)) == ONE


@given(st.binary(max_size=120))
def test_any_bytes_are_refused_or_a_packet(datagram: bytes):
    with pytest.raises(Unreadable):
        decode(b"HWM2" + datagram)


@given(PACKETS, st.data())
def test_lies_about_lengths_are_refused_even_if_sealed(packet: Packet, data: st.DataObject):
    """A sender with the secret and with a bug."""
    whole = bytearray(encode(packet))
    place = data.draw(st.sampled_from([*range(4, 48), *range(64, len(whole))]))
    whole[place] = data.draw(st.integers(0, 255))
    from headwater.edges.multicast import packets

    head, body = bytes(whole[:48]), bytes(whole[64:])
    sealed = head + packets._seal(head, body, b"") + body
    try:
        found = decode(sealed)
    except Unreadable:
        return
    assert decode(encode(found)) == found


def test_another_secret_is_refused():
    with pytest.raises(Unreadable, match="secret"):
        decode(encode(ONE, b"ours"), b"theirs")
    with pytest.raises(Unreadable, match="secret"):
        decode(encode(ONE), b"ours")


def test_what_does_not_fit_is_refused_before_it_is_sent():
    with pytest.raises(TooLarge, match="1400"):
        encode(Data(1, 1, 1, Message(b"x" * 1400)), bytes_max=1400)


def test_sequences_are_named_as_ranges():
    assert ranges_of([1, 2, 3, 7, 9, 10]) == ((1, 3), (7, 7), (9, 10))
    assert ranges_of([]) == ()
