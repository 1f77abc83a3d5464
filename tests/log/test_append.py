"""What a topic's configuration makes of a produced batch, or why it refuses it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.log.append import BatchTooLarge, TimestampOutOfRange, prepare
from headwater.log.config import LogConfig
from headwater.record import codecs, records
from headwater.record.errors import InvalidBatch, RecordError
from headwater.record.records import Record

from .plain import NOW_MS, batch_of

CONFIG = LogConfig()
HOUR_MS = 3_600_000


def test_a_batch_is_kept_as_it_came() -> None:
    data = batch_of(b"one", b"two", codec=codecs.GZIP)
    stored, header = prepare(data, CONFIG, NOW_MS)
    assert stored is data
    assert (header.record_count, header.codec) == (2, codecs.GZIP)


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_the_topics_compression_replaces_the_producers(name: str) -> None:
    data = batch_of(b"one" * 50, b"two", codec=codecs.GZIP)
    stored, header = prepare(data, replace(CONFIG, compression_type=name), NOW_MS)
    assert header.codec == (0 if name == "uncompressed" else codecs.NAMES.index(name))
    assert records.decode(stored) == records.decode(data)


def test_append_time_replaces_the_records_own() -> None:
    data = batch_of(b"old", timestamp=5)
    stored, header = prepare(data, replace(CONFIG, timestamp_type="LogAppendTime"), NOW_MS)
    assert header.is_log_append_time
    assert header.max_timestamp == NOW_MS
    assert [record.timestamp for record in records.decode(stored)] == [NOW_MS]


def test_a_batch_larger_than_the_topic_allows_is_refused() -> None:
    data = batch_of(b"x" * 500)
    with pytest.raises(BatchTooLarge, match=r"max\.message\.bytes=500"):
        prepare(data, replace(CONFIG, max_message_bytes=500), NOW_MS)
    prepare(data, replace(CONFIG, max_message_bytes=len(data)), NOW_MS)


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    with pytest.raises(BatchTooLarge, match=r"segment\.bytes=300"):
        prepare(batch_of(b"x" * 500), replace(CONFIG, segment_bytes=300), NOW_MS)


def test_a_compacted_topic_needs_keys() -> None:
    without = records.build([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v")])
    prepare(without, CONFIG, NOW_MS)
    with pytest.raises(InvalidBatch, match="without key"):
        prepare(without, replace(CONFIG, compact=True), NOW_MS)


def test_timestamps_too_far_from_now_are_refused() -> None:
    config = replace(CONFIG, timestamp_before_max_ms=HOUR_MS, timestamp_after_max_ms=HOUR_MS)
    prepare(batch_of(b"v", timestamp=NOW_MS - HOUR_MS), config, NOW_MS)
    prepare(batch_of(b"v", timestamp=NOW_MS + HOUR_MS), config, NOW_MS)
    with pytest.raises(TimestampOutOfRange, match="past"):
        prepare(batch_of(b"v", timestamp=NOW_MS - HOUR_MS - 1), config, NOW_MS)
    with pytest.raises(TimestampOutOfRange, match="future"):
        prepare(batch_of(b"v", timestamp=NOW_MS + HOUR_MS + 1), config, NOW_MS)


def test_records_without_a_timestamp_are_taken() -> None:
    config = replace(CONFIG, timestamp_before_max_ms=HOUR_MS)
    prepare(batch_of(b"v", timestamp=-1), config, NOW_MS)


def test_a_batch_that_is_not_whole_is_refused() -> None:
    data = batch_of(b"one")
    for broken in (data[:-1], data + b"x", data[:-1] + b"x", b""):
        with pytest.raises(RecordError):
            prepare(broken, CONFIG, NOW_MS)
