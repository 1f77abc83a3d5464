"""The batch header: read whole, byte by byte, with trailing bytes; patched without breaking it."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from headwater.record import batch as batches
from headwater.record import codecs
from headwater.record.batch import BatchHeader
from headwater.record.errors import CorruptBatch, RecordError, UnknownMagic
from headwater.record.records import Record, build, decode

RECORDS = [Record(i, 1_700_000_000_000 + i, b"k%d" % i, b"value %d" % i) for i in range(3)]
BATCH = build(
    RECORDS, codec=codecs.NONE, producer_id=77, producer_epoch=3, base_sequence=9, leader_epoch=5
)


def test_the_header_is_laid_out_as_kafka_does() -> None:
    payload = b"records"
    checked = struct.pack(">hiqqqhii", 0b1011001, 6, 1000, 1006, 42, 7, 100, 5)
    rest = struct.pack(">ibI", 11, 2, crc32c(checked + payload)) + checked + payload
    raw = struct.pack(">qi", 1234, len(rest)) + rest
    header = batches.check(raw)
    assert header == BatchHeader(
        base_offset=1234,
        batch_length=len(raw) - 12,
        leader_epoch=11,
        magic=2,
        crc=crc32c(raw[21:]),
        attributes=0b1011001,
        last_offset_delta=6,
        base_timestamp=1000,
        max_timestamp=1006,
        producer_id=42,
        producer_epoch=7,
        base_sequence=100,
        record_count=5,
    )
    assert (header.size, header.last_offset, header.next_offset) == (len(raw), 1240, 1241)
    assert (header.codec, header.last_sequence, header.has_producer_id) == (1, 106, True)
    assert (header.is_log_append_time, header.is_transactional) == (True, True)
    assert (header.is_control, header.has_delete_horizon) == (False, True)
    assert batches.pack(header, payload) == raw


def test_sequences_start_again_after_the_largest_integer() -> None:
    header = batches.read_header(BATCH)
    assert header._replace(base_sequence=2**31 - 1, last_offset_delta=0).last_sequence == 2**31 - 1
    assert header._replace(base_sequence=2**31 - 1, last_offset_delta=1).last_sequence == 0
    assert header._replace(base_sequence=2**31 - 3, last_offset_delta=10).last_sequence == 7
    assert header._replace(base_sequence=-1, last_offset_delta=10).last_sequence == -1


def test_a_batch_cut_anywhere_is_refused() -> None:
    for end in range(len(BATCH)):
        with pytest.raises(CorruptBatch):
            batches.check(BATCH[:end])
        with pytest.raises(RecordError):
            batches.validate_produced(BATCH[:end])


def test_a_batch_is_found_at_any_position_and_with_anything_after_it() -> None:
    for kind in (bytes, bytearray, memoryview):
        header = batches.check(kind(b"before" + BATCH + b"after"), 6)
        assert header.size == len(BATCH)
        assert header.record_count == 3


def test_a_changed_bit_after_the_epoch_is_noticed() -> None:
    for at in range(16, len(BATCH)):
        for bit in range(8):
            changed = bytearray(BATCH)
            changed[at] ^= 1 << bit
            with pytest.raises(RecordError):
                batches.check(changed)


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 128, 255])
def test_another_message_format_is_named_before_anything_else_is_read(magic: int) -> None:
    old = bytearray(BATCH[:17])
    old[16] = magic
    with pytest.raises(UnknownMagic):
        batches.read_header(old)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_that_leaves_no_room_for_the_header_is_refused(length: int) -> None:
    with pytest.raises(CorruptBatch):
        batches.read_header(BATCH[:8] + struct.pack(">i", length) + BATCH[12:])


def test_scan_walks_whole_batches_and_stops_before_a_partial_one() -> None:
    second = build(RECORDS[:1], codec=codecs.LZ4)
    for end in range(len(BATCH), len(BATCH) + len(second)):
        assert [at for at, _ in batches.scan((BATCH + second)[:end])] == [0]
    found = list(batches.scan(memoryview(BATCH + second)))
    assert [(at, header.record_count) for at, header in found] == [(0, 3), (len(BATCH), 1)]
    assert list(batches.scan(b"")) == []


def test_restamp_changes_offset_and_epoch_and_keeps_the_checksum_true() -> None:
    stamped = batches.restamp(BATCH, base_offset=2**40, leader_epoch=12)
    assert len(stamped) == batches.CRC_START
    header = batches.check(stamped + BATCH[21:])
    assert header == batches.read_header(BATCH)._replace(base_offset=2**40, leader_epoch=12)


def test_append_time_replaces_every_timestamp_and_nothing_else() -> None:
    stamped = batches.with_append_time(BATCH, 99)
    before, after = batches.check(BATCH), batches.check(stamped)
    assert after == before._replace(crc=after.crc, attributes=8, max_timestamp=99)
    assert decode(stamped) == [record._replace(timestamp=99) for record in RECORDS]


@pytest.mark.parametrize("target", range(5), ids=codecs.NAMES)
@pytest.mark.parametrize("source", range(5), ids=codecs.NAMES)
def test_recompress_keeps_all_but_the_codec(source: int, target: int) -> None:
    before = batches.recompress(BATCH, source)
    after = batches.recompress(memoryview(before), target)
    header = batches.check(after)
    assert header.codec == target
    assert header[6:] == batches.read_header(BATCH)[6:]
    assert decode(after) == RECORDS
    assert batches.recompress(after, codecs.NONE) == BATCH


@given(st.binary(max_size=200) | st.binary(min_size=61, max_size=100).map(lambda b: b[:16] + b"\2"))
def test_any_bytes_have_a_header_or_raise(data: bytes) -> None:
    for read in (batches.read_header, batches.check, batches.validate_produced, batches.payload):
        try:
            read(data)
        except RecordError:
            pass


HEADERS = st.tuples(
    *[st.integers(-(2**31), 2**31 - 1)] * 3,
    st.integers(0, 127) | st.just(2),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**15), 2**15 - 1) | st.integers(0, 127),
    *[st.integers(-2, 2**31 - 1)] * 4,
    st.integers(-(2**15), 2**15 - 1),
    *[st.integers(-2, 2**31 - 1)] * 2,
)


@given(HEADERS, st.binary(max_size=64))
def test_any_header_with_a_true_checksum_is_read_or_refused(
    fields: tuple[int, ...], payload: bytes
) -> None:
    raw = batches.pack(BatchHeader._make(fields), payload)
    assert batches.check(raw).size == len(raw)
    for read in (decode, batches.validate_produced, batches.payload):
        try:
            read(raw)
        except RecordError:
            pass
