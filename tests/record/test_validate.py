"""What the broker refuses of a producer's batch: every lie in the header, and nothing honest."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.record import batch as batches
from headwater.record import codecs, varint
from headwater.record.errors import CorruptBatch, InvalidBatch, RecordError
from headwater.record.records import Record, build, decode

COUNT = 40
HONEST = build([Record(i, 1000 + i, b"key", b"value %d" % i) for i in range(COUNT)])
IDEMPOTENT = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


def changed(batch: bytes, **fields: int) -> bytes:
    """The batch with other header fields, and a checksum that agrees with them."""
    return batches.pack(batches.read_header(batch)._replace(**fields), batch[61:])


LIES: dict[str, dict[str, int]] = {
    "no records": {"record_count": 0, "last_offset_delta": -1},
    "a negative count": {"record_count": -1, "last_offset_delta": -2},
    "a count without its offsets": {"record_count": COUNT + 1},
    "offsets without their count": {"last_offset_delta": COUNT},
    "offsets that go backwards": {"last_offset_delta": -1},
    "more records than the bytes can hold": {"record_count": 5000, "last_offset_delta": 4999},
    "an unknown codec": {"attributes": 5},
    "the last codec number": {"attributes": 7},
    "a control batch": {"attributes": 0x20, **IDEMPOTENT},
    "a transactional control batch": {"attributes": 0x30, **IDEMPOTENT},
    "a delete horizon": {"attributes": 0x40},
    "the first reserved bit": {"attributes": 0x80},
    "the last reserved bit": {"attributes": -0x8000},
    "a transaction without a producer": {"attributes": 0x10},
    "a producer id below none": {"producer_id": -2},
    "a producer without an epoch": {**IDEMPOTENT, "producer_epoch": -1},
    "a producer without a sequence": {**IDEMPOTENT, "base_sequence": -1},
    "a time before time began": {"max_timestamp": -2},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_lie_in_the_header_is_refused(lie: dict[str, int]) -> None:
    with pytest.raises(InvalidBatch):
        batches.validate_produced(changed(HONEST, **lie))


@pytest.mark.parametrize("codec", range(5), ids=codecs.NAMES)
@pytest.mark.parametrize("actual", [1, 2, 15, 16, 17, 40, 300])
def test_a_wrong_record_count_is_refused(actual: int, codec: int) -> None:
    batch = build([Record(i, i, None, b"v" * (i % 200)) for i in range(actual)], codec=codec)
    for count in {1, actual - 1, actual + 1, actual + 7, 2 * actual + 1} - {0, actual}:
        lie = changed(batch, record_count=count, last_offset_delta=count - 1)
        with pytest.raises(RecordError):
            batches.validate_produced(lie)


def test_records_that_do_not_start_with_number_0_are_refused() -> None:
    batch = build([Record(i, 0, None, b"v") for i in range(1, 40)])
    with pytest.raises(InvalidBatch):
        batches.validate_produced(changed(batch, last_offset_delta=38))


def test_bytes_before_and_after_the_records_are_refused() -> None:
    header = batches.read_header(HONEST)
    for payload in (HONEST[61:] + b"\0", b"\0" + HONEST[61:], HONEST[61:-1], HONEST[62:]):
        with pytest.raises(InvalidBatch):
            batches.validate_produced(batches.pack(header, payload))


@pytest.mark.parametrize("codec", range(1, 5), ids=codecs.NAMES[1:])
def test_a_codec_that_the_payload_is_not_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        batches.validate_produced(changed(HONEST, attributes=codec))


def test_two_batches_at_once_are_refused() -> None:
    with pytest.raises(InvalidBatch):
        batches.validate_produced(HONEST + HONEST)


def test_a_payload_larger_than_allowed_is_refused() -> None:
    batch = build([Record(0, 0, None, bytes(100_000))], codec=codecs.ZSTD)
    batches.validate_produced(batch, payload_bytes_max=200_000)
    with pytest.raises(CorruptBatch):
        batches.validate_produced(batch, payload_bytes_max=99_000)


# What clients send besides the plain thing: kafkajs has epoch 0 and sequence 0 without a producer,
# older sarama no maximum timestamp.
HONEST_FIELDS = {
    "plain": {},
    "without a producer but with its fields at zero": {"producer_epoch": 0, "base_sequence": 0},
    "without a maximum timestamp": {"max_timestamp": -1},
    "idempotent": IDEMPOTENT,
    "transactional": {"attributes": 0x10, **IDEMPOTENT},
    "with the sequence about to start again": {**IDEMPOTENT, "base_sequence": 2**31 - 2},
    "with an epoch of its own": {"leader_epoch": 0},
}


@pytest.mark.parametrize("fields", HONEST_FIELDS.values(), ids=HONEST_FIELDS.keys())
def test_what_honest_clients_send_is_accepted(fields: dict[str, int]) -> None:
    header = batches.validate_produced(changed(HONEST, **fields)).header
    assert header.record_count == COUNT


def lookalike(number: int, length: int) -> bytes:
    """Bytes that look like the beginning of a last record, with any length before them."""
    return varint.encode(length) + b"\0\0" + varint.encode(number)


@st.composite
def honest_batches(draw: st.DrawFn) -> bytes:
    count = draw(st.integers(1, 40) | st.integers(41, 700))
    decoys = st.builds(lookalike, st.integers(max(0, count - 2), count), st.integers(0, 300))
    noise = st.lists(decoys | st.binary(max_size=30) | st.just(varint.encode(count - 1) * 90))
    samples = draw(st.lists(noise.map(b"".join), min_size=1, max_size=5))
    steps = draw(st.lists(st.integers(-(2**40), 2**40) | st.integers(0, 300), min_size=1))
    records = [
        Record(
            offset=i,
            timestamp=1_700_000_000_000 + steps[i % len(steps)],
            key=None if i % 3 else samples[(i + 1) % len(samples)],
            value=samples[i % len(samples)] or None,
            headers=(("h", samples[-1]),) if i % 7 == 0 else (),
        )
        for i in range(count)
    ]
    return build(records, codec=draw(st.integers(0, 4)))


@given(honest_batches())
@settings(max_examples=300, deadline=None)
def test_no_honest_batch_is_refused(batch: bytes) -> None:
    times = [record.timestamp for record in decode(batch)]
    produced = batches.validate_produced(batch)
    keyless = any(record.key is None for record in decode(batch))
    assert produced == (batches.read_header(batch), min(times), max(times), keyless)
    assert batches.validate_produced(memoryview(batch)) == produced


LATE, EARLY = 1_700_000_000_000 + 2**40, 1_700_000_000_000 - 2**40
TIMES = {
    "all the same": [1_700_000_000_000] * 400,
    "one after the other": [1_700_000_000_000 + i for i in range(400)],
    "backwards": [1_700_000_000_000 - i for i in range(400)],
    "now here, now there": [1_700_000_000_000 + (i * 7919) % 100_003 - 50_000 for i in range(400)],
    "one late": [1_700_000_000_000] * 200 + [LATE] + [1_700_000_000_000] * 199,
    "one early": [1_700_000_000_000] * 200 + [EARLY] + [1_700_000_000_000] * 199,
    "far apart": [EARLY, LATE] * 200,
    "before 1970 and after": [i - 300 for i in range(400)],
}


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES.keys())
@pytest.mark.parametrize("base", [0, 1_700_000_000_000, 2**62 + 1])
def test_the_records_say_which_is_the_latest(times: list[int], codec: int, base: int) -> None:
    for size in (1, 40):
        records = [Record(i, at, b"k", bytes(i % size)) for i, at in enumerate(times)]
        batch = build(records, codec=codec, base_timestamp=base)
        for claimed in (-1, 5, max(times), 2**62):
            produced = batches.validate_produced(changed(batch, max_timestamp=claimed))
            assert produced[1:] == (min(times), max(times), False)


def test_records_before_time_began_are_refused_whatever_the_header_says() -> None:
    batch = build([Record(i, -7, b"k", b"v") for i in range(3)], base_timestamp=0, max_timestamp=5)
    with pytest.raises(InvalidBatch):
        batches.validate_produced(batch)


@pytest.mark.parametrize("with_time", [[], [1_700_000_000_000], [5, 1_700_000_000_000, 7]])
def test_records_without_a_timestamp_are_not_the_earliest(with_time: list[int]) -> None:
    for times in (
        with_time + [-1] * 300,
        [-1] * 300 + with_time,
        [-1] * 3 + with_time + [-1] * 300,
    ):
        batch = build([Record(i, at, b"k", b"v") for i, at in enumerate(times)], base_timestamp=0)
        earliest, latest = min(with_time, default=-1), max(with_time, default=-1)
        assert batches.validate_produced(batch)[1:] == (earliest, latest, False)


def padded(value: int) -> bytes:
    """A longer spelling of the integer than it needs, which Kafka accepts."""
    spelt = varint.encode(value)
    return spelt[:-1] + bytes((spelt[-1] | 0x80, 0))


@pytest.mark.parametrize("count", [1, 5, 17, 400])
def test_integers_with_longer_spellings_are_accepted(count: int) -> None:
    payload = b""
    for number in range(count):
        body = b"\0" + padded(0) + padded(number) + padded(-1) + padded(3) + b"abc" + padded(0)
        payload += padded(len(body)) + body
    header = batches.read_header(HONEST)._replace(
        record_count=count, last_offset_delta=count - 1, attributes=0
    )
    batches.validate_produced(batches.pack(header, payload))


@given(st.binary(min_size=7, max_size=400), st.integers(1, 60))
def test_any_payload_is_accepted_or_refused(payload: bytes, count: int) -> None:
    header = batches.read_header(HONEST)
    header = header._replace(record_count=count, last_offset_delta=count - 1)
    for codec in range(5):
        try:
            batches.validate_produced(batches.pack(header._replace(attributes=codec), payload))
        except RecordError:
            pass


@pytest.mark.parametrize("byte", [b"\0", b"\2", b"\x80", b"\xff", b"\0\0\x22", b"\x0c\0\0\x22"])
def test_a_payload_made_to_be_searched_long_is_refused_soon(byte: bytes) -> None:
    first = build([Record(0, 0, None, b"")])[61:]
    payload = first + byte * (1_000_000 // len(byte))
    header = batches.read_header(HONEST)
    started = time.process_time()
    for count in (2, 18, 1000, 140_000):
        lie = batches.pack(
            header._replace(record_count=count, last_offset_delta=count - 1), payload
        )
        with pytest.raises(RecordError):
            batches.validate_produced(lie)
    assert (
        time.process_time() - started < 10
    )  # byte by byte, and for each count anew, it would be minutes
