"""Records: any of them come back from a batch, and no payload does anything but parse or raise."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.record import batch as batches
from headwater.record import codecs, varint
from headwater.record.errors import CorruptBatch, RecordError
from headwater.record.keys import each_key
from headwater.record.records import Record, build, decode, each

MAYBE_BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), MAYBE_BYTES), max_size=4).map(tuple)
SIMPLE = Record(0, 1000, b"key", b"value", (("name", b"content"), ("none", None)))


def keys(batch: bytes) -> list[tuple[int, bytes | None, bool]]:
    return list(each_key(batch))


@st.composite
def record_lists(draw: st.DrawFn) -> tuple[int, list[Record]]:
    """A base offset and records whose offsets rise from it, with gaps."""
    base = draw(st.integers(0, 2**62))
    start = draw(st.integers(-1, 2**62))
    steps = st.integers(-(2**61), 2**61) | st.integers(0, 10_000)
    gaps = st.integers(1, 2) | st.integers(1, 100_000)
    offset, records = base + draw(st.integers(0, 200)), []
    for _ in range(draw(st.integers(1, 12))):
        timestamp = start + draw(steps)
        key, value, headers = draw(MAYBE_BYTES), draw(MAYBE_BYTES), draw(HEADERS)
        records.append(Record(offset, timestamp, key, value, headers))
        offset += draw(gaps)
    return base, records


@given(record_lists(), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_any_records_come_back(given: tuple[int, list[Record]], codec: int) -> None:
    base, records = given
    batch = build(records, base_offset=base, codec=codec)
    header = batches.check(batch)
    assert header.size == len(batch)
    assert header.record_count == len(records)
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert decode(b"...." + batch + b"....", 4) == records
    assert decode(memoryview(batch)) == records
    assert keys(batch) == [(r.offset, r.key, r.value is not None) for r in records]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 8191, 8192, 8193, 2**20, 2**21])
def test_lengths_around_each_size_of_integer_come_back(size: int) -> None:
    records = [
        Record(0, 0, b"k" * size, None),
        Record(1, -size, None, b"v" * size),
        Record(size + 2, size, b"", b"", (("h" * size, b"c" * size),)),
    ]
    batch = build(records)
    assert decode(batch) == records
    assert [key for _, key, _ in keys(batch)] == [b"k" * size, None, b""]


def test_a_record_is_laid_out_as_kafka_does() -> None:
    batch = build([SIMPLE._replace(offset=7, timestamp=1000)], base_offset=5, base_timestamp=1003)
    assert batch[61:] == bytes.fromhex("42 00 05 04") + (
        b"\x06key" + b"\x0avalue" + b"\x04" + b"\x08name" + b"\x0econtent" + b"\x08none" + b"\x01"
    )


def test_header_names_that_are_not_utf8_survive() -> None:
    batch = build([SIMPLE])
    payload = batch[61:].replace(b"name", b"\xff\xfe\x00\x80")
    odd = batches.pack(batches.read_header(batch), payload)
    assert build(decode(odd)) == odd


def test_every_option_is_found_in_the_header() -> None:
    batch = build(
        [Record(12, 500, b"k", b"v")],
        base_offset=10,
        codec=codecs.ZSTD,
        level=1,
        producer_id=1,
        producer_epoch=2,
        base_sequence=3,
        leader_epoch=4,
        transactional=True,
        control=True,
        log_append_time=600,
        delete_horizon_ms=700,
        last_offset_delta=9,
    )
    header = batches.check(batch)
    assert header.attributes == codecs.ZSTD | 0b1111000
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (10, 19, 4)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (700, 600)
    assert decode(batch) == [Record(12, 600, b"k", b"v")]


def test_a_delete_horizon_leaves_the_timestamps_as_they_were() -> None:
    records = [Record(0, 500, b"k", None), Record(1, 900, b"l", b"v")]
    batch = build(records, delete_horizon_ms=700)
    assert batches.read_header(batch).has_delete_horizon
    assert decode(batch) == records


@pytest.mark.parametrize("codec", range(5), ids=codecs.NAMES)
def test_a_batch_may_be_empty_after_compaction(codec: int) -> None:
    batch = build(
        [], base_offset=10, last_offset_delta=4, codec=codec, producer_id=1, max_timestamp=80
    )
    header = batches.check(batch)
    assert (header.record_count, header.next_offset, header.max_timestamp) == (0, 15, 80)
    assert header.size == batches.HEADER_BYTES
    assert decode(batch) == keys(batch) == []


def with_payload(payload: bytes, count: int, **fields: int) -> bytes:
    header = batches.read_header(build([SIMPLE]))._replace(
        record_count=count, last_offset_delta=max(0, count - 1), **fields
    )
    return batches.pack(header, payload)


PLAIN = build([SIMPLE, SIMPLE._replace(offset=1)])[61:]


def test_records_cut_anywhere_are_refused() -> None:
    for end in range(len(PLAIN)):
        with pytest.raises(CorruptBatch):
            decode(with_payload(PLAIN[:end], 2))
        with pytest.raises(CorruptBatch):
            keys(with_payload(PLAIN[:end], 2))


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 1, 3, 2**31 - 1])
def test_a_count_that_is_not_the_records_is_refused(count: int) -> None:
    for read in (decode, keys):
        with pytest.raises(CorruptBatch):
            read(with_payload(PLAIN, count))


def test_bytes_after_the_records_are_refused() -> None:
    for tail in (b"\0", b"\1", PLAIN):
        for read in (decode, keys):
            with pytest.raises(CorruptBatch):
                read(with_payload(PLAIN + tail, 2))


def framed(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return varint.encode(len(body)) + body


MALFORMED = {
    "a negative record length": b"\1" + PLAIN[1:],
    "a record longer than the payload": b"\xfe\xff\x03" + PLAIN[2:],
    "a key length of -2": framed(b"\0\0\0\3\1\0"),
    "a value length of -2": framed(b"\0\0\0\1\3\0"),
    "a key that reaches beyond the record": framed(b"\0\0\0\x20k\1\0"),
    "a value that reaches beyond the record": framed(b"\0\0\0\1\x20v\0"),
    "a value shorter than the record": framed(b"\0\0\0\1\2vv\0"),
    "a negative header count": framed(b"\0\0\0\1\1\1"),
    "more headers than bytes": framed(b"\0\0\0\1\1\x20"),
    "more headers than there are": framed(b"\0\0\0\1\1\4\2h\1"),
    "fewer headers than there are": framed(b"\0\0\0\1\1\2\2h\1\2h\1"),
    "a header without a name": framed(b"\0\0\0\1\1\2\1\1"),
    "a header's name beyond the record": framed(b"\0\0\0\1\1\2\x40h\1"),
    "a header's value beyond the record": framed(b"\0\0\0\1\1\2\2h\x40v"),
    "a header's value length of -2": framed(b"\0\0\0\1\1\2\2h\3"),
    "a negative offset": framed(b"\0\0\1\1\1\0"),
    "an offset beyond the batch's": framed(b"\0\0\x20\1\1\0"),
    "an integer that does not end": framed(b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\1\1\0"),
    "a length of more than 32 bits": framed(b"\0\0\0\1\xff\xff\xff\xff\x7f\0"),
    "a record without room for its fields": framed(b"\0\0\0"),
}


@pytest.mark.parametrize("payload", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_record_is_refused(payload: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode(with_payload(payload, 1))


def test_offsets_that_do_not_rise_are_refused() -> None:
    one = framed(b"\0\0\2\1\1\0")
    with pytest.raises(CorruptBatch):
        decode(with_payload(one + one, 2))


def test_records_are_read_one_after_the_other_up_to_the_one_that_is_malformed() -> None:
    good, bad = framed(b"\0\0\0\1\1\0"), framed(b"\0\0\0")
    found = each(with_payload(good + bad, 2))
    assert next(found).offset == 0
    with pytest.raises(CorruptBatch):
        next(found)


@pytest.mark.parametrize("base", [2**63 - 1, -(2**63), 2**62 - 1, -(2**62) + 1, 0])
@pytest.mark.parametrize("delta", [2**63 - 1, -(2**63), 1, -1])
def test_a_timestamp_beyond_64_bits_is_refused(base: int, delta: int) -> None:
    batch = with_payload(framed(b"\0", varint.encode(delta), b"\0\1\1\0"), 1, base_timestamp=base)
    if -(2**63) <= base + delta < 2**63:
        assert decode(batch)[0].timestamp == base + delta
    else:
        with pytest.raises(CorruptBatch):
            decode(batch)


def test_no_value_in_a_longer_spelling_is_still_no_value() -> None:
    batch = with_payload(framed(b"\0\0\0\x81\0\x81\0\0"), 1)
    assert decode(batch) == [Record(0, 1000, None, None)]
    assert keys(batch) == [(0, None, False)]


@given(st.binary(max_size=120), st.integers(0, 20), st.integers(0, 7))
@settings(max_examples=500)
def test_any_payload_is_decoded_or_refused(payload: bytes, count: int, codec: int) -> None:
    for read in (decode, keys):
        try:
            read(with_payload(payload, count, attributes=codec))
        except RecordError:
            pass


@given(record_lists(), st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_records_are_decoded_or_refused(
    given: tuple[int, list[Record]], data: st.DataObject
) -> None:
    base, records = given
    batch = bytearray(build(records, base_offset=base))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(17, len(batch) - 1))] = data.draw(st.integers(0, 255))
    for read in (decode, keys):
        try:
            read(batch)
        except RecordError:
            pass


@given(st.binary(max_size=150))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    length = struct.pack(">i", max(0, len(data) - 12))
    for attempt in (data, data[:8] + length + data[12:16] + b"\2" + data[17:]):
        for read in (decode, keys):
            try:
                read(attempt)
            except RecordError:
                pass
