"""Records of all kinds to changes of tables: on a plain DataFrame, in one job for all tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.views.tables.bad_values import BadValue, ValueRefused
from headwater.views.tables.decoding import Decoder, Table

RECORD = "topic STRING, key BINARY, value BINARY, partition INT, offset BIGINT"
ANN, BEA = {"id": 1, "name": "Ann", "tags": ["x"]}, {"id": 2, "name": "Bea", "tags": None}


def tables() -> list[Table]:
    plain = StructType.fromDDL("id BIGINT, name STRING, tags ARRAY<STRING>")
    odd = StructType.fromDDL("a INT, b STRING, op STRING")
    return [Table("people", plain, ("id",), ("lower(`name`)",)), Table("odd", odd, ("a", "b"))]


def changes(
    spark: SparkSession, *records: tuple[str, object, object]
) -> list[list[dict[str, Any]]]:
    rows = [
        (topic, as_bytes(key), as_bytes(value), 0, offset)
        for offset, (topic, key, value) in enumerate(records)
    ]
    found = Decoder(tables())(spark.createDataFrame(rows, RECORD))
    return [sorted(each.to_pylist(), key=lambda row: row["o"]) for each in found]


def as_bytes(value: object) -> bytearray | None:
    if value is None:
        return None
    return bytearray((value if isinstance(value, str) else json.dumps(value)).encode())


def test_every_form_of_a_change_is_understood(spark: SparkSession):
    people, odd = changes(
        spark,
        ("people", "1", ANN),
        ("people", {"id": 1}, {"before": None, "after": ANN, "op": "c", "source": {"x": 1}}),
        ("people", None, {"schema": {}, "payload": {"before": ANN, "after": BEA, "op": "u"}}),
        ("people", {"id": 2}, {"before": BEA, "after": None, "op": "d"}),
        ("people", {"payload": {"id": 3}, "schema": {}}, None),
        ("people", '"4"', None),
        ("people", None, {"before": None, "after": None, "op": "t"}),
        (
            "people",
            "5",
            '{"id": 5, "payload": "a } text", "more": [{}, {"x": {}}, 1], "name": "Eve"} \n',
        ),
        ("people", "6", {"schema": {}, "payload": {"id": 6, "name": "Fay"}}),
        ("odd", None, {"a": 1, "b": "x", "op": "sum"}),
        ("odd", {"a": 1, "b": "x"}, {"op": "d", "before": {"a": 1, "b": "x"}}),
        ("odd", {"a": 2, "b": "y"}, None),
        ("other", None, "whatever"),
    )
    shown = [
        (row["c0"], row["c1"], row["d0"], row["gone"], row["emptied"], row["m0"]) for row in people
    ]
    assert shown == [
        (1, "Ann", "ann", False, False, None),
        (1, "Ann", "ann", False, False, None),
        (2, "Bea", "bea", False, False, 1),
        (2, None, None, True, False, None),
        (3, None, None, True, False, None),
        (4, None, None, True, False, None),
        (None, None, None, False, True, None),
        (5, "Eve", "eve", False, False, None),
        (6, "Fay", "fay", False, False, None),
    ]
    assert people[0]["c2"] == ["x"]
    assert [(row["c0"], row["c1"], row["c2"], row["gone"]) for row in odd] == [
        (1, "x", "sum", False),
        (1, "x", None, True),
        (2, "y", None, True),
    ]


BAD: list[tuple[object, str]] = [
    ("no json", "it is no JSON"),
    ("", "it is no JSON"),
    ("null", "it is no row"),
    ("5", "field value is 5"),
    ({"before": None, "after": {"id": "x"}, "op": "c"}, "field id is 'x', which is no int64"),
    ({"before": {"id": "y"}, "after": None, "op": "d"}, "field id is 'y', which is no int64"),
    ({"schema": {}, "payload": {"id": [1]}}, r"field id is \[1\]"),
    ({"id": 1, "tags": "x"}, "field tags is 'x'"),
    ('{"id": 1} and more', "it is no JSON: Extra data"),
    ('{"id": 1}{"id": 2}', "it is no JSON: Extra data"),
    ('{"id": 1}, {"id": 2}', "it is no JSON: Extra data"),
    ('{"op": "c", "after": {"id": 1}}}', "it is no JSON: Extra data"),
    ({}, "it does not say its key"),
    ({"id": None, "name": "Eve"}, "it does not say its key"),
    ({"before": None, "after": {"name": "Eve"}, "op": "c"}, "it does not say its key"),
    ({"before": {"id": 1}, "after": None, "op": "u"}, "it does not say its key"),
]


@pytest.mark.parametrize(("value", "reason"), BAD)
def test_a_value_that_does_not_fit_is_refused_with_its_place_and_reason(
    spark: SparkSession, value: object, reason: str
):
    with pytest.raises(ValueRefused, match=f"offset 1 of people-0 cannot be read.*{reason}"):
        changes(spark, ("people", "1", ANN), ("people", "1", value))


def test_what_is_good_goes_on_without_what_is_bad(spark: SparkSession):
    rows = [
        ("people", as_bytes("1"), as_bytes(value), 0, offset)
        for offset, value in enumerate([ANN, *(each for each, _ in BAD), BEA])
    ]
    rows.append(("odd", None, as_bytes({"a": "x", "b": "y"}), 0, 77))
    bad: list[BadValue] = []
    people, odd = Decoder(tables(), bad.extend)(spark.createDataFrame(rows, RECORD))
    assert sorted(people["c0"].to_pylist()) == [1, 2] and odd.num_rows == 0
    assert sorted(each.offset for each in bad if each.topic == "people") == [
        *range(1, len(BAD) + 1)
    ]
    assert [(each.offset, each.value) for each in bad if each.topic == "odd"] == [
        (77, b'{"a": "x", "b": "y"}')
    ]


def test_a_delete_that_says_no_key_is_bad_and_not_the_end_of_the_view(spark: SparkSession):
    bad: list[BadValue] = []
    rows = [("people", None, None, 0, 7), ("people", as_bytes("1"), as_bytes(ANN), 0, 8)]
    people, _ = Decoder(tables(), bad.extend)(spark.createDataFrame(rows, RECORD))
    assert people["c0"].to_pylist() == [1]
    assert [(each.offset, each.reason) for each in bad] == [(7, "it does not say its key (id)")]


def test_a_table_may_have_columns_of_the_names_that_decoding_uses(spark: SparkSession):
    row = StructType.fromDDL("id BIGINT, topic STRING, p STRING, o STRING, bad STRING, t0 STRING")
    table = Table("people", row, ("id",), ("lower(`topic`)", "lower(`t0`)"))
    value = {"id": 1, "topic": "X", "p": "P", "o": "O", "bad": "B", "t0": "T"}
    records = [("people", None, as_bytes(value), 0, 3)]
    (found,) = Decoder([table])(spark.createDataFrame(records, RECORD))
    (change,) = found.to_pylist()
    assert [change[f"c{n}"] for n in range(6)] == [1, "X", "P", "O", "B", "T"]
    assert (change["d0"], change["d1"], change["p"], change["o"]) == ("x", "t", 0, 3)
