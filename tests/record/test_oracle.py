"""The same batches through other people's implementations, both ways and with every codec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiokafka.codec
import aiokafka.record.default_records as aiokafka_records
import kafka.codec
import kafka.record.default_records as kafka_python_records
import pytest

from headwater.record import batch as batches
from headwater.record import codecs
from headwater.record.records import Record, build, decode

RECORDS = [
    Record(
        offset=i,
        timestamp=1_700_000_000_000 + (i * 37) % 500 - 100,
        key=None if i % 4 == 0 else b"key-%d" % (i % 9),
        value=None if i % 11 == 5 else b"value %d " % i * (i % 60),
        headers=(("trace", b"%d" % i), ("ü", b""), ("none", None)) if i % 6 == 0 else (),
    )
    for i in range(700)
]


def by_kafka_python(codec: int, **producer: Any) -> bytes:
    builder = kafka_python_records.DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, batch_size=10**9, **producer
    )
    for r in RECORDS:
        assert builder.append(r.offset, r.timestamp, r.key, r.value, list(r.headers))
    return bytes(builder.build())


def by_aiokafka(codec: int, **producer: Any) -> bytes:
    producer["is_transactional"] = int(producer["is_transactional"])
    builder = aiokafka_records.DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, batch_size=10**9, **producer
    )
    for r in RECORDS:
        assert builder.append(r.offset, r.timestamp, r.key, r.value, list(r.headers))
    return bytes(builder.build())


def cases(library: str, module: Any, subject: object) -> list[Any]:
    able = [
        True,
        module.has_gzip(),
        module.has_snappy(),
        module.has_lz4(),
        module.has_zstd(),
    ]
    return [
        pytest.param(
            subject,
            codec,
            id=f"{library}-{name}",
            marks=pytest.mark.skipif(not able[codec], reason=f"{library} lacks {name} here"),
        )
        for codec, name in enumerate(codecs.NAMES)
    ]


@pytest.mark.parametrize(
    ("write", "codec"),
    cases("kafka-python", kafka.codec, by_kafka_python)
    + cases("aiokafka", aiokafka.codec, by_aiokafka),
)
def test_what_others_write_is_valid_and_read_alike(write: Callable[..., bytes], codec: int) -> None:
    batch = write(
        codec, is_transactional=True, producer_id=9, producer_epoch=4, base_sequence=2**31 - 5
    )
    header = batches.validate_produced(batch).header
    assert header.codec == codec
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (9, 4, 694)
    assert decode(batch) == RECORDS
    if codec == codecs.NONE:
        assert batch == build(
            RECORDS,
            transactional=True,
            producer_id=9,
            producer_epoch=4,
            base_sequence=2**31 - 5,
            leader_epoch=header.leader_epoch,
        )


@pytest.mark.parametrize(
    ("reader", "codec"),
    cases("kafka-python", kafka.codec, kafka_python_records.DefaultRecordBatch)
    + cases("aiokafka", aiokafka.codec, aiokafka_records.DefaultRecordBatch),
)
def test_what_we_write_is_read_alike_by_others(reader: Callable[..., Any], codec: int) -> None:
    shifted = [record._replace(offset=record.offset * 3 + 5000) for record in RECORDS]
    theirs = reader(build(shifted, base_offset=5000, codec=codec))
    assert theirs.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs]
    assert read == shifted


@pytest.mark.parametrize(
    "reader", [kafka_python_records.DefaultRecordBatch, aiokafka_records.DefaultRecordBatch]
)
def test_append_time_is_read_alike_by_others(reader: Callable[..., Any]) -> None:
    theirs = reader(batches.with_append_time(build(RECORDS[:5]), 123456))
    assert theirs.validate_crc()
    assert {(r.timestamp, r.timestamp_type) for r in theirs} == {(123456, 1)}
