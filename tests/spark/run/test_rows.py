"""Change records to rows of a table, and rows of a view to records: on plain DataFrames."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.pipelines.declared import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.rows import as_records
from headwater.pipelines.tables import decoded

RECORD = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
ROW = "id BIGINT, name STRING, tags ARRAY<STRING>"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def table(
    spark: SparkSession, *records: tuple[object, object], key: tuple[str, ...] = ("id",)
) -> list[dict[str, Any]]:
    rows = [(bytes_of(k), bytes_of(v), "shop.orders", 0, n, AT) for n, (k, v) in enumerate(records)]
    row = StructType.fromDDL(ROW)
    assert isinstance(row, StructType)
    changes = decoded(spark.createDataFrame(rows, RECORD), row, key)
    return [each.asDict(recursive=True) for each in changes.orderBy("_offset").collect()]


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


@pytest.mark.parametrize("value", ["no json", {"before": None, "after": {"id": "x"}, "op": "c"}])
def test_a_value_that_does_not_fit_stops_the_query(spark: SparkSession, value: object):
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        table(spark, ("1", value))


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
