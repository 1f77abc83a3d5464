"""Every record of a produced batch is checked: what passes is what a strict reader can read, no more."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.record import batch as batches
from headwater.record import codecs, varint
from headwater.record.errors import InvalidBatch, RecordError
from headwater.record.records import Record, build, decode
from tests.record import reference
from tests.record.test_validate import honest_batches


def repacked(batch: bytes, payload: bytes, codec: int = 0) -> bytes:
    """The batch with these records, and a header and checksum that agree with them."""
    header = batches.read_header(batch)
    header = header._replace(attributes=header.attributes & ~7 | codec)
    return batches.pack(header, codecs.compress(codec, payload))


def is_readable(payload: bytes, batch: bytes) -> bool:
    header = batches.read_header(batch)
    try:
        reference.read(payload, header.record_count, header.base_timestamp)
    except reference.Malformed:
        return False
    return True


def is_accepted(batch: bytes) -> bool:
    try:
        batches.validate_produced(batch)
    except RecordError:
        return False
    decode(batch)  # whoever reads it later must be able to
    return True


@given(honest_batches(), st.data())
@settings(max_examples=300, deadline=None)
def test_one_wrong_byte_is_refused_unless_the_records_can_still_be_read(
    batch: bytes, data: st.DataObject
) -> None:
    payload = bytearray(batches.payload(batch))
    at, to = data.draw(st.integers(0, len(payload) - 1)), data.draw(st.integers(0, 255))
    payload[at] = to
    codec = data.draw(st.sampled_from((0, 0, 4)))
    assert is_accepted(repacked(batch, bytes(payload), codec)) == is_readable(payload, batch)


@pytest.mark.parametrize("seed", range(4))
def test_in_long_runs_of_equal_records_each_byte_of_one_is_looked_at(seed: int) -> None:
    """Runs are checked by columns: no column may be forgotten, in no record of the run."""
    dice = random.Random(seed)
    headers = (("trace", b"abcdef"), ("none", None)) if seed % 2 else ()
    size = (5, 20, 40, 70)[seed]
    records = [
        Record(i, 10**12 + dice.randrange(50), b"key-%06d" % i, b"v" * size, headers)
        for i in range(100)
    ]
    batch = build(records)
    payload = bytes(batches.payload(batch))
    start = len(payload) * dice.randrange(20, 80) // 100
    for at in range(start, min(start + len(payload) // 80, len(payload))):
        for to in (payload[at] ^ 1, payload[at] ^ 0x80, (payload[at] + 2) % 256):
            changed = payload[:at] + bytes((to,)) + payload[at + 1 :]
            accepted = is_accepted(repacked(batch, changed))
            assert accepted == is_readable(changed, batch), f"seed {seed}: byte {at} is {to}"


MIDDLE = 20


def spelt(of: int, **fields: bytes) -> bytes:
    """One record of which some fields are something else."""
    usual = {
        "attributes": b"\0",
        "timestamp": b"\0",
        "number": varint.encode(of),
        "key": varint.encode(3) + b"key",
        "value": varint.encode(5) + b"value",
        "headers": b"\0",
    }
    body = b"".join((usual | fields).values())
    return varint.encode(len(body)) + body


POISON = {
    "another's number": {"number": varint.encode(MIDDLE + 1)},
    "a negative number": {"number": varint.encode(-1)},
    "a key longer than the record": {"key": varint.encode(300) + b"key"},
    "a key that takes all": {"key": varint.encode(9) + b"key"},
    "a negative key length": {"key": varint.encode(-2)},
    "a value longer than the record": {"value": varint.encode(300) + b"value"},
    "a negative value length": {"value": varint.encode(-2)},
    "a tombstone with a lying header count": {"value": b"\1", "headers": varint.encode(3)},
    "a negative header count": {"headers": varint.encode(-1)},
    "a header without a name": {"headers": varint.encode(1) + b"\1\1"},
    "a header's value longer than the record": {"headers": varint.encode(1) + b"\2h\x20x"},
    "a header too many": {"headers": varint.encode(2) + b"\2h\1"},
    "bytes behind its fields": {"headers": b"\0junk"},
    "no headers at all": {"headers": b""},
    "a timestamp of eleven bytes": {"timestamp": b"\xff" * 10 + b"\0"},
    "a timestamp beyond 64 bits": {"timestamp": varint.encode(2**63 - 1)},
    "a number of six bytes": {"number": b"\xa8" + b"\x80" * 4 + b"\0"},
}


@pytest.mark.parametrize("fields", POISON.values(), ids=POISON.keys())
@pytest.mark.parametrize("codec", range(5), ids=codecs.NAMES)
def test_a_malformed_record_in_the_middle_is_refused(fields: dict[str, bytes], codec: int) -> None:
    pieces = [spelt(number) for number in range(40)]
    header = batches.read_header(build([Record(i, 10**12, None, b"") for i in range(40)]))
    honest = batches.pack(header, b"".join(pieces))
    assert batches.validate_produced(honest).header.record_count == 40
    pieces[MIDDLE] = spelt(MIDDLE, **fields)
    with pytest.raises(InvalidBatch):
        batches.validate_produced(repacked(honest, b"".join(pieces), codec))


def test_records_of_any_size_and_shape_are_accepted() -> None:
    dice = random.Random(1)
    for size in (0, 1, 63, 64, 8191, 8192, 100_000, 2_000_000):
        for headers in ((), (("h" * 70, b"v" * 200),), tuple(("h", b"") for _ in range(70))):
            records = [
                Record(i, 10**12 + (i % 3) * dice.choice((0, 100, 10**6)), b"k" * (size % 90), v)
                for i, v in enumerate([b"x" * size, None, b"x" * size, b"x" * size, b"y"])
            ]
            batch = build([each._replace(headers=headers) for each in records])
            assert is_accepted(batch), (size, len(headers))


def test_more_records_than_two_bytes_can_number_are_accepted() -> None:
    for sizes in ((10,), (10, 11), (3, 70)):
        records = [Record(i, i, None, b"v" * sizes[i % len(sizes)]) for i in range(20_000)]
        assert is_accepted(build(records))
