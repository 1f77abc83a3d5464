"""Produce with batches that lie: refused with Kafka's error, and no trace is left.

Small batches and large ones, because a broker may look at them differently.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import crc32c
import pytest

from .asking import end_offset, offset_at, produce, read_all
from .batches import CONTROL, GZIP, HEADER_BYTES, NOW_MS, batch, message_set
from .cluster import Cluster
from .wire import ErrorCode, Wire

THREE = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
GOOD = batch(THREE)


def with_codec(codec: int, records: bytes) -> bytes:
    """The batch with another codec in its attributes and a CRC that agrees."""
    changed = bytearray(records)
    changed[22] = codec
    return with_crc(changed)


def with_crc(changed: bytearray) -> bytes:
    changed[17:21] = struct.pack(">I", crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


LIES = {
    "bad crc": (batch(THREE, crc_error=1), {ErrorCode.corrupt_message}),
    "length one too long": (batch(THREE, length_error=1), {ErrorCode.invalid_record}),
    "length one too short": (batch(THREE, length_error=-1), {ErrorCode.corrupt_message}),
    "negative length": (batch(THREE, length_error=-1000), {ErrorCode.corrupt_message}),
    "length below the header": (
        batch(THREE, length_error=22 - len(GOOD)),
        {ErrorCode.corrupt_message},
    ),
    "magic 3": (batch(THREE, magic=3), {ErrorCode.corrupt_message}),
    "magic 1 in a batch header": (batch(THREE, magic=1), {ErrorCode.invalid_record}),
    "message format 0": (message_set(THREE, 0), {ErrorCode.invalid_record}),
    "message format 1": (message_set(THREE, 1), {ErrorCode.invalid_record}),
    "count one too many": (batch(THREE, count=4), {ErrorCode.invalid_record}),
    "count one too few": (batch(THREE, count=2), {ErrorCode.invalid_record}),
    "count zero": (batch(THREE, count=0), {ErrorCode.invalid_record}),
    "count negative": (batch(THREE, count=-1), {ErrorCode.invalid_record}),
    "last offset delta too large": (
        batch(THREE, last_offset_delta=3),
        {ErrorCode.invalid_record},
    ),
    "last offset delta too small": (
        batch(THREE, last_offset_delta=1),
        {ErrorCode.invalid_record},
    ),
    "count and delta agree on one more": (
        batch(THREE, last_offset_delta=3, count=4),
        {ErrorCode.invalid_record},
    ),
    "count and delta agree on one less": (
        batch(THREE, last_offset_delta=1, count=2),
        {ErrorCode.invalid_record},
    ),
    "gzip count and delta agree on one more": (
        batch(THREE, last_offset_delta=3, count=4, attributes=GZIP),
        {ErrorCode.invalid_record},
    ),
    "control batch from a client": (batch(THREE, attributes=CONTROL), {ErrorCode.invalid_record}),
    "base offset not zero": (batch(THREE, base_offset=5), {ErrorCode.invalid_record}),
    "two batches": (GOOD + GOOD, {ErrorCode.invalid_record}),
    "second batch corrupt": (GOOD + batch(THREE, crc_error=1), {ErrorCode.invalid_record}),
    "no bytes": (b"", {ErrorCode.invalid_record}),
    "cut in the last record": (GOOD[:-3], {ErrorCode.invalid_record}),
    "header without records": (GOOD[:61], {ErrorCode.invalid_record}),
    "no records": (batch([]), {ErrorCode.invalid_record}),
    "random bytes": (b"x" * 100, {ErrorCode.corrupt_message}),
    "producer id without sequence": (
        batch(THREE, producer=(77_777, 0, -1)),
        {ErrorCode.invalid_record},
    ),
    "timestamp far in the future": (
        batch(THREE, timestamps=[99_999_999_999_999] * 3),
        {ErrorCode.invalid_timestamp},
    ),
}
# Apache Kafka answers UNKNOWN_SERVER_ERROR here; any refusal that names the cause is as good.
UNREADABLE = {
    "codec 5": batch(THREE, attributes=5),
    "codec 7": batch(THREE, attributes=7),
    "gzip that is not gzip": with_codec(1, GOOD),
    "snappy that is not snappy": with_codec(2, GOOD),
    "lz4 that is not lz4": with_codec(3, GOOD),
    "zstd that is not zstd": with_codec(4, GOOD),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_lies_is_refused_and_leaves_no_trace(
    wire: Wire, cluster: Cluster, lies_topic: str, lie: str
) -> None:
    records, expected = LIES[lie]
    before = end_offset(wire, lies_topic)
    answer = produce(wire, lies_topic, records)
    assert answer.error_code in expected
    assert answer.base_offset == -1
    assert end_offset(wire, lies_topic) == before


@pytest.mark.parametrize("codec", UNREADABLE)
def test_a_batch_whose_records_cannot_be_unpacked_is_refused(
    wire: Wire, lies_topic: str, codec: str
) -> None:
    before = end_offset(wire, lies_topic)
    answer = produce(wire, lies_topic, UNREADABLE[codec])
    assert answer.error_code in {
        ErrorCode.unknown_server_error,
        ErrorCode.invalid_record,
        ErrorCode.corrupt_message,
        ErrorCode.unsupported_compression_type,
    }
    assert end_offset(wire, lies_topic) == before


@pytest.fixture
def lies_topic(cluster: Cluster, topic: str) -> str:
    return cluster.create_topic(topic)


FORTY = [(b"key-%d" % each, b"value-%d" % each * 20) for each in range(40)]


def with_rubbish(share: float) -> bytes:
    """300 bytes in the middle of the records that are no records, under a CRC that agrees."""
    changed = bytearray(batch(FORTY))
    position = HEADER_BYTES + int((len(changed) - HEADER_BYTES) * share)
    changed[position : position + 300] = b"\xff" * 300
    return with_crc(changed)


def with_hole(count: int, attributes: int = 0) -> bytes:
    """Forty records, the last of which is numbered as the header's count wants it."""
    numbers = [*range(39), count - 1]
    return batch(
        FORTY,
        offset_deltas=numbers,
        last_offset_delta=count - 1,
        count=count,
        attributes=attributes,
    )


def large_lies() -> Iterator[tuple[str, bytes]]:
    yield "a hole of one", with_hole(41)
    yield "a hole of one, gzip", with_hole(41, GZIP)
    yield "a hole of sixty", with_hole(100)
    doubled = [*range(20), 19, *range(20, 39)]
    yield "one number twice", batch(FORTY, offset_deltas=doubled, last_offset_delta=38, count=39)
    yield "rubbish in the middle", with_rubbish(0.5)
    yield "rubbish near the start", with_rubbish(0.1)


@pytest.mark.parametrize("lie", [pytest.param(data, id=name) for name, data in large_lies()])
def test_a_large_batch_that_lies_is_refused_and_leaves_no_trace(
    wire: Wire, lies_topic: str, lie: bytes
) -> None:
    assert produce(wire, lies_topic, lie).error_code is ErrorCode.invalid_record
    assert end_offset(wire, lies_topic) == 0


def test_a_large_batch_that_tells_the_truth_is_appended(wire: Wire, lies_topic: str) -> None:
    assert produce(wire, lies_topic, batch(FORTY)).error_code is ErrorCode.none
    assert read_all(wire, lies_topic)[0].pairs == FORTY


def test_a_max_timestamp_that_lies_is_set_right(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    times = [NOW_MS, NOW_MS + 7, NOW_MS + 3]
    produce(wire, topic, batch(THREE, timestamps=times, max_timestamp=NOW_MS + 99_999))
    (stored,) = read_all(wire, topic)
    assert stored.max_timestamp == NOW_MS + 7


LATER_AND_LATER = [NOW_MS - 5000, NOW_MS - 2000, NOW_MS]


def test_records_are_found_by_time_where_the_header_says_nothing(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    produce(wire, topic, batch(THREE, timestamps=LATER_AND_LATER, max_timestamp=-1))
    assert offset_at(wire, topic, NOW_MS - 1000).offset == 2


def test_records_are_found_by_time_whatever_the_header_says(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    produce(wire, topic, batch(THREE, timestamps=LATER_AND_LATER, max_timestamp=NOW_MS - 5000))
    assert offset_at(wire, topic, NOW_MS - 1000).offset == 2


def test_records_from_the_future_are_refused_whatever_the_header_says(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    times = [NOW_MS, NOW_MS, NOW_MS + 30 * 86_400_000]
    answer = produce(wire, topic, batch(THREE, timestamps=times, max_timestamp=NOW_MS))
    assert answer.error_code is ErrorCode.invalid_timestamp
    assert end_offset(wire, topic) == 0


def test_a_header_from_the_future_is_set_right(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    lie = batch(THREE, max_timestamp=NOW_MS + 30 * 86_400_000)
    assert produce(wire, topic, lie).error_code is ErrorCode.none
