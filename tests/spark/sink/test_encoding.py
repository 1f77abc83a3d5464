"""Rows to record batches: what the product's own decoder, and Kafka's partitioner, make of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from headwater.record import batch as batches
from headwater.record import codecs, records
from headwater.spark.sink import partitioner
from headwater.spark.sink.columns import Columns
from headwater.spark.sink.errors import BadRow
from headwater.spark.sink.partitioner import STICKY_BYTES
from headwater.spark.sink.rows import Rows
from headwater.spark.sink.unsent import finish

COLUMNS = Columns(value=1, key=0, headers=2, topic=3, partition=4)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
    ]
)

content = st.none() | st.binary(max_size=300)
header = st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary()})
row = st.fixed_dictionaries(
    {
        "key": content,
        "value": content,
        "headers": st.none() | st.lists(header, max_size=3),
        "topic": st.sampled_from(["a", "b", "c"]),
        "partition": st.none() | st.integers(0, 2),
    }
)


def rows(batch_bytes: int = 10_000, **partitions: int) -> Rows:
    return Rows(COLUMNS, None, batch_bytes, lambda topic: partitions.get(topic, 3))


def table(found: list[dict[str, Any]]) -> Any:
    return pa.RecordBatch.from_pylist(found, SCHEMA)


def decoded(made: Rows, batch: Any, codec: int = 0) -> list[tuple[str, int, records.Record]]:
    found = []
    for unsent in made.encode(batch):
        whole = finish(unsent, codec, 7, 3, 11)
        header = batches.validate_produced(whole).header
        assert header.is_transactional and header.record_count == unsent.size
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
        found += [(unsent.topic, unsent.partition, each) for each in records.decode(whole)]
    return found


@given(st.lists(row, max_size=40), st.integers(70, 2000), st.sampled_from(range(5)))
def test_every_row_comes_back_as_it_was(
    given_rows: list[dict[str, Any]], batch_bytes: int, codec: int
) -> None:
    found = decoded(rows(batch_bytes), table(given_rows), codec)
    there = Counter(_plain(each) for _, _, each in found)
    assert there == Counter(_wanted(each) for each in given_rows)
    for row_ in given_rows:
        place = _place(row_)
        if place is not None:
            assert (*place, _wanted(row_)) in [(t, p, _plain(each)) for t, p, each in found]


@given(st.lists(row.filter(lambda each: _place(each) is not None), max_size=40))
def test_rows_of_a_partition_keep_their_order(given_rows: list[dict[str, Any]]) -> None:
    numbered = [each | {"value": b"%d" % number} for number, each in enumerate(given_rows)]
    found = decoded(rows(200), table(numbered))
    places = {(topic, partition) for topic, partition, _ in found}
    for place in places:
        there = [each.value for topic, partition, each in found if (topic, partition) == place]
        assert there == [each["value"] for each in numbered if _place(each) == place]


def _place(found: dict[str, Any]) -> tuple[str, int] | None:
    """Where a row must be; None where it may be anywhere."""
    if found["partition"] is not None:
        return found["topic"], found["partition"]
    if found["key"] is not None:
        return found["topic"], (murmur2(found["key"]) & 0x7FFFFFFF) % 3
    return None


def _wanted(found: dict[str, Any]) -> tuple[Any, ...]:
    pairs = tuple((each["key"], each["value"]) for each in found["headers"] or [])
    return found["key"], found["value"], pairs


def _plain(found: records.Record) -> tuple[Any, ...]:
    return found.key, found.value, found.headers


@given(st.binary(max_size=70))
def test_murmur2_is_that_of_kafkas_clients(key: bytes) -> None:
    data = np.frombuffer(b"before" + key + b"after", np.uint8)
    assert int(partitioner.murmur2(data, 6, 6 + len(key))) == murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize("slice_at", [0, 1, 7, 8, 9])
def test_a_slice_of_a_longer_batch_is_encoded_alone(slice_at: int) -> None:
    """
    0 1 2 … slice_at … 19
            ╰── these ──╯
    """
    whole = table(
        [
            {
                "key": None if n % 3 == 0 else b"%d" % n,
                "value": b"v%d" % n,
                "headers": [{"key": "h", "value": b"%d" % n}] * (n % 3),
                "topic": "a",
                "partition": n % 3,
            }
            for n in range(20)
        ]
    )
    found = decoded(rows(), whole.slice(slice_at))
    assert {each.value for _, _, each in found} == {b"v%d" % n for n in range(slice_at, 20)}
    for _, partition, each in found:
        number = int((each.value or b"")[1:])
        assert partition == number % 3
        assert each.key == (None if number % 3 == 0 else b"%d" % number)
        assert each.headers == (("h", b"%d" % number),) * (number % 3)


def test_null_headers_that_span_values_are_no_headers() -> None:
    inner = pa.array([{"key": "h", "value": b"1"}] * 3, HEADERS.value_type)
    spans = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), inner, mask=pa.array([False, True, False])
    )
    columns = [pa.array([b"k"] * 3), pa.array([b"v"] * 3), spans, pa.array(["a"] * 3)]
    partition = pa.array([0, 0, 0], pa.int32())
    batch = pa.record_batch([*columns, partition], names=SCHEMA.names)
    found = decoded(rows(), batch)
    assert [len(each.headers) for _, _, each in found] == [1, 0, 1]


def test_a_header_without_a_key_is_refused() -> None:
    one = {"key": b"k", "value": b"v", "topic": "a", "partition": None}
    bad = one | {"headers": [{"key": None, "value": b"1"}]}
    with pytest.raises(BadRow, match="has no key"):
        rows().encode(table([bad]))
    spans = table([one | {"headers": None}, bad, one | {"headers": []}])
    assert len(decoded(rows(), spans.slice(2))) == 1, "rows that are not written do not matter"


def test_strings_and_large_types_are_written_alike() -> None:
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        values = pa.array(["ä", "", None], pa.string()).cast(kind)
        batch = pa.record_batch([values, values], names=["key", "value"])
        made = Rows(Columns(1, 0, -1, -1, -1), "t", 1000, lambda _: 1)
        found = [each for unsent in made.encode(batch) for each in _records(unsent)]
        assert [each.value for each in found] == ["ä".encode(), b"", None]


def _records(unsent: Any) -> list[records.Record]:
    return records.decode(finish(unsent, codecs.NONE, 1, 0, 0))


def test_rows_without_a_key_are_spread_evenly_in_large_pieces() -> None:
    made = Rows(Columns(0, -1, -1, -1, -1), "t", 256 * 1024, lambda _: 4)
    batch = pa.record_batch([pa.array([b"x" * 100] * 10_000)], names=["value"])
    counts = dict.fromkeys(range(4), 0)
    pieces = 0
    for _ in range(10):
        for unsent in made.encode(batch):
            counts[unsent.partition] += unsent.size
            pieces += 1
    assert min(counts.values()) > 0.9 * max(counts.values())
    assert pieces <= 10 * 10_000 * 110 / STICKY_BYTES


def test_the_digest_knows_the_rows_and_not_their_order() -> None:
    def digest(values: list[bytes | None]) -> int:
        made = Rows(Columns(0, -1, -1, -1, -1), "t", 1000, lambda _: 3)
        for value in values:
            made.encode(pa.record_batch([pa.array([value], pa.binary())], names=["value"]))
        return made.digest

    assert digest([b"1", b"2", b"3"]) == digest([b"3", b"1", b"2"])
    assert digest([b"1", b"2"]) != digest([b"1", b"1"])
    assert digest([b"1", None]) != digest([b"1", b""])
    assert digest([b"12345678"]) != digest([b"12345679"])


@pytest.mark.parametrize("partition", [3, -1, 2**31 - 1])
def test_a_partition_that_does_not_exist_is_refused(partition: int) -> None:
    one = {"key": b"k", "value": b"v", "headers": None, "topic": "a", "partition": partition}
    with pytest.raises(BadRow, match=f"partition {partition}"):
        rows().encode(table([one]))


def test_a_null_topic_is_refused() -> None:
    one = {"key": b"k", "value": b"v", "headers": None, "topic": None, "partition": None}
    with pytest.raises(BadRow, match="topic is null"):
        rows().encode(table([one]))


def test_a_record_larger_than_a_batch_gets_one_of_its_own() -> None:
    values = [b"s", b"x" * 5000, b"s"]
    batch = pa.record_batch([pa.array(values)], names=["value"])
    made = Rows(Columns(0, -1, -1, -1, -1), "t", 100, lambda _: 1)
    assert [unsent.size for unsent in made.encode(batch)] == [1, 1, 1]
