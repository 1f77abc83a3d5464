"""Change records to rows of a table, and rows of a view to records: on plain DataFrames."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.real_time_tables import decoded
from headwater.pipelines.rows import as_records
from headwater.pipelines.sources import exactly
from headwater.views.tables import change_stream
from headwater.views.tables.decoder import Table
from headwater.views.tables.json_parts import is_altered

RECORD = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
ROW = "id BIGINT, name STRING, tags ARRAY<STRING>"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def table(
    spark: SparkSession, *records: tuple[object, object], key: tuple[str, ...] = ("id",)
) -> list[dict[str, Any]]:
    """By the decoder of real time, and by that of all others, which must agree."""
    rows = [(bytes_of(k), bytes_of(v), "shop.orders", 0, n, AT) for n, (k, v) in enumerate(records)]
    row = StructType.fromDDL(ROW)
    assert isinstance(row, StructType)
    frame = spark.createDataFrame(rows, RECORD)
    streamed = change_stream.changes(frame, Table("shop.orders", row, key), None)
    ways = [
        [each.asDict(recursive=True) for each in way.orderBy("_offset").collect()]
        for way in (decoded(frame, row, key), streamed)
    ]
    assert ways[0] == ways[1]
    return ways[0]


def bytes_of(value: object) -> bytearray | None:
    if value is None:
        return None
    return bytearray((value if isinstance(value, str) else json.dumps(value)).encode())


ANN = {"id": 1, "name": "Ann", "tags": ["x"]}
BEA = {"id": 1, "name": "Bea", "tags": None}


def test_debeziums_envelope_is_understood_with_and_without_its_schema(spark: SparkSession):
    updated = {"before": ANN, "after": BEA, "op": "u", "source": {"lsn": 7}, "ts_ms": 1}
    found = table(
        spark,
        ({"id": 1}, {"before": None, "after": ANN, "op": "c"}),
        ({"id": 1}, {"schema": {"type": "struct"}, "payload": updated}),
        ({"id": 1}, {"before": BEA, "after": None, "op": "d"}),
        ({"id": 1}, None),
    )
    assert [row["_op"] for row in found] == ["c", "u", "d", "d"]
    assert [row["_deleted"] for row in found] == [False, False, True, True]
    assert [row["name"] for row in found] == ["Ann", "Bea", "Bea", None]
    assert [row["id"] for row in found] == [1, 1, 1, 1]
    assert found[1]["_before"] == ANN
    assert found[0]["tags"] == ["x"]
    assert (found[3]["_topic"], found[3]["_partition"], found[3]["_offset"]) == (
        "shop.orders",
        0,
        3,
    )


def test_plain_rows_are_upserts_and_a_record_without_a_value_deletes_its_key(spark: SparkSession):
    found = table(spark, ("1", ANN), ("1", None), ('{"id": 2}', None), ('"3"', None))
    assert [row["_op"] for row in found] == ["u", "d", "d", "d"]
    assert [row["id"] for row in found] == [1, 1, 2, 3]
    assert found[0]["_before"] is None


def test_a_row_of_several_key_columns_finds_them_in_the_key(spark: SparkSession):
    (found,) = table(spark, ({"id": 4, "name": "Dan"}, None), key=("id", "name"))
    assert (found["id"], found["name"], found["tags"]) == (4, "Dan", None)


def test_a_row_may_have_a_column_named_op(spark: SparkSession):
    (found,) = table(spark, ("1", {**ANN, "op": "sum"}))
    assert (found["_op"], found["name"]) == ("u", "Ann")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no json", "shop.orders: the value at offset 0 of partition 0 is no JSON, or"),
        ({"before": None, "after": {"id": "x"}, "op": "c"}, "MALFORMED_RECORD_IN_PARSING"),
    ],
)
def test_a_value_that_does_not_fit_stops_the_query(spark: SparkSession, value: object, reason: str):
    with pytest.raises(Exception, match=reason):
        table(spark, ("1", value))


HURTING = (
    "id DECIMAL(20,2), b TINYINT, d DECIMAL(10,2), w DOUBLE, at TIMESTAMP, m MAP<STRING, STRING>"
)


OTHERS = (
    '"b": 200',
    '"d": "1,5"',
    '"d": 99999999.999',
    '"d": 1.239',
    '"w": 1e400',
    '"at": "12:30"',
    '"m": {"a": "1", "a": "2"}',
    '"b": 1} {"id": 2',
)
OFFSET = "t: the value at offset 7 of partition 0 is no JSON, or would be read as another"


def test_what_spark_would_read_as_another_value_stops_the_query(spark: SparkSession):
    row = StructType.fromDDL(HURTING)
    plain = ['{"id": 1, ' + each + "}" for each in OTHERS]
    wrapped = [f'{{"op": "c", "before": null, "after": {each}}}' for each in plain]
    frame = spark.createDataFrame(list(zip(plain, wrapped, strict=True)), "value STRING, e STRING")
    found = frame.select(
        is_altered(F.col("value"), (), row), is_altered(F.col("e"), ("after",), row)
    )
    assert [tuple(each) for each in found.collect()] == [(True, True)] * len(OTHERS)
    for text in (plain[0], wrapped[2]):
        records = spark.createDataFrame([(b"1", text.encode(), "t", 0, 7, AT)], RECORD)
        with pytest.raises(Exception, match=OFFSET):
            decoded(records, row, ("id",)).collect()
    placed = frame.selectExpr("value", "'t' AS topic", "0 AS partition", "7L AS offset")
    with pytest.raises(Exception, match=OFFSET):
        placed.select(exactly("value", (), row)).collect()


def test_values_that_only_look_like_others_are_read(spark: SparkSession):
    row = StructType.fromDDL(HURTING)
    text = '{"id": 123456789012345678.91, "b": -128, "d": "1.50", "w": 1e300, "at": "2026-01-01 12:30"}'
    records = spark.createDataFrame([(b"1", text.encode(), "t", 0, 7, AT)], RECORD)
    (found,) = decoded(records, row, ("id",)).collect()
    assert (str(found["id"]), found["b"], str(found["d"])) == (
        "123456789012345678.91",
        -128,
        "1.50",
    )


def test_a_row_may_have_a_column_named_payload(spark: SparkSession):
    row = StructType.fromDDL("id DOUBLE, payload STRUCT<id: DOUBLE>")
    value = b'{"id": -0.0, "payload": {"id": 2}}'
    records = spark.createDataFrame([(b"0", value, "t", 0, 7, AT)], RECORD)
    (found,) = decoded(records, row, ("id",)).collect()
    assert (str(found["id"]), found["payload"]["id"]) == ("0.0", 2)


def test_a_record_that_says_no_key_stops_the_query(spark: SparkSession):
    row = StructType.fromDDL(HURTING)
    for key, value in ((b'{"id": 1.239}', None), (b"1", b'{"b": 1}')):
        records = spark.createDataFrame([(key, value, "t", 0, 7, AT)], RECORD)
        with pytest.raises(Exception, match="t: a record that does not say its key"):
            decoded(records, row, ("id",)).collect()


def test_a_change_that_says_no_key_is_refused_also_where_changes_go_one_by_one(spark: SparkSession):
    keyed = Table("t", StructType.fromDDL("id TINYINT, name STRING"), ("id",))
    sent = [(b'{"id": 200}', None), (None, b'{"name": "x"}'), (b"7", None)]
    rows = [(key, value, "t", 0, n, AT) for n, (key, value) in enumerate(sent)]
    found = change_stream.changes(spark.createDataFrame(rows, RECORD), keyed, None).collect()
    assert [(row["id"], row["_offset"]) for row in found] == [(7, 2)]


def written(frame: DataFrame, *key: str, updates: bool = False) -> list[tuple[Any, Any]]:
    view = View("v", lambda: None, "topic:v", key, place="file.py:1")
    return [
        (row["key"], row["value"]) for row in as_records(frame, view, updates=updates).collect()
    ]


def test_a_row_becomes_json_and_its_key_text_or_json(spark: SparkSession):
    frame = spark.createDataFrame([(1, None, "x")], "id INT, `a.b` STRING, c STRING")
    value = '{"id":1,"a.b":null,"c":"x"}'
    assert written(frame, "id") == [("1", value)]
    assert written(frame, "id", "c") == [('{"id":1,"c":"x"}', value)]
    assert written(frame) == [(None, value)]


def test_both_zeros_are_one_key(spark: SparkSession):
    frame = spark.createDataFrame([(-0.0, 1), (0.0, 1)], "x DOUBLE, n INT")
    assert [key for key, _ in written(frame, "x")] == ["0.0", "0.0"]
    assert [key for key, _ in written(frame, "x", "n")] == ['{"x":0.0,"n":1}'] * 2


def test_a_deleted_row_becomes_a_tombstone_and_marks_are_left_out(spark: SparkSession):
    rows = [(1, "x", False, 5), (2, "y", True, 6)]
    frame = spark.createDataFrame(rows, "id INT, c STRING, _deleted BOOLEAN, _offset INT")
    assert written(frame, "id") == [("1", '{"id":1,"c":"x"}'), ("2", None)]
    with pytest.raises(PipelineError, match="each needs a key"):
        written(frame)


def test_records_are_written_as_they_are(spark: SparkSession):
    frame = spark.createDataFrame([("k", "v")], "key STRING, value STRING")
    assert written(frame) == [("k", "v")]
    assert written(frame.select("value"), "value") == [("v", '{"value":"v"}')]
