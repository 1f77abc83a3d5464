"""Transaction markers, as Kafka writes them."""

from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatch

from headwater.record import batch as batches
from headwater.record import control
from headwater.record.errors import CorruptBatch, InvalidBatch
from headwater.record.records import Record, build


@pytest.mark.parametrize("kind", [control.COMMIT, control.ABORT])
def test_a_marker_comes_back_and_takes_one_offset(kind: int) -> None:
    batch = control.marker(kind, 42, 7, offset=1000, timestamp=555, coordinator_epoch=3)
    header = batches.check(batch)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert (header.base_offset, header.next_offset) == (1000, 1001)
    assert control.read_marker(b"." + batch, 1) == control.Marker(kind, 42, 7, 1000, 555, 3)


def test_a_marker_has_kafkas_bytes() -> None:
    batch = control.marker(control.COMMIT, 1, 0, offset=0, timestamp=0, coordinator_epoch=258)
    assert batch[61:].hex(" ") == "20 00 00 00 08 00 00 00 01 0c 00 00 00 00 01 02 00"


@pytest.mark.parametrize("kind", [control.COMMIT, control.ABORT])
def test_kafka_python_reads_the_marker(kind: int) -> None:
    batch = control.marker(kind, 42, 7, offset=5, timestamp=555, coordinator_epoch=3)
    (record,) = DefaultRecordBatch(batch)
    assert (record.commit, record.abort) == (kind == control.COMMIT, kind == control.ABORT)


def test_an_ordinary_batch_is_not_a_marker() -> None:
    with pytest.raises(InvalidBatch):
        control.read_marker(build([Record(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\0")]))


def test_another_kind_of_control_record_is_not_a_marker() -> None:
    with pytest.raises(InvalidBatch):
        control.read_marker(build([Record(0, 0, b"\0\0\0\2", b"\0\0")], control=True))


def test_a_marker_that_compaction_removed_is_not_a_marker() -> None:
    with pytest.raises(InvalidBatch):
        control.read_marker(build([], last_offset_delta=0, control=True))


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"\0" * 6), (b"\0\0\0", b"\0" * 6), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0" * 5)],
)
def test_a_marker_without_its_fields_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        control.read_marker(build([Record(0, 0, key, value)], control=True))


def test_a_newer_version_with_more_fields_is_read() -> None:
    newer = build([Record(4, 9, b"\0\1\0\0more", b"\0\1\0\0\0\5more")], base_offset=4, control=True)
    assert control.read_marker(newer) == control.Marker(control.ABORT, -1, -1, 4, 9, 5)
