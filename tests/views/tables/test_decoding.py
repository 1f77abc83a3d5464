"""Records of all kinds to changes of tables: on a plain DataFrame, in one job for all tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.views.tables.bad_values import BadValue, ValueRefused
from headwater.views.tables.decoder import Decoder, Table

RECORD = "topic STRING, key BINARY, value BINARY, partition INT, offset BIGINT, timestamp BIGINT"
ANN, BEA = {"id": 1, "name": "Ann", "tags": ["x"]}, {"id": 2, "name": "Bea", "tags": None}


def tables() -> list[Table]:
    plain = StructType.fromDDL("id BIGINT, name STRING, tags ARRAY<STRING>")
    odd = StructType.fromDDL("a INT, b STRING, op STRING")
    return [Table("people", plain, ("id",), ("lower(`name`)",)), Table("odd", odd, ("a", "b"))]


def changes(
    spark: SparkSession, *records: tuple[str, object, object]
) -> list[list[dict[str, Any]]]:
    rows = [
        (topic, as_bytes(key), as_bytes(value), 0, offset, offset)
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
        ("people", as_bytes("1"), as_bytes(value), 0, offset, 0)
        for offset, value in enumerate([ANN, *(each for each, _ in BAD), BEA])
    ]
    rows.append(("odd", None, as_bytes({"a": "x", "b": "y"}), 0, 77, 0))
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
    rows = [("people", None, None, 0, 7, 0), ("people", as_bytes("1"), as_bytes(ANN), 0, 8, 0)]
    people, _ = Decoder(tables(), bad.extend)(spark.createDataFrame(rows, RECORD))
    assert people["c0"].to_pylist() == [1]
    assert [(each.offset, each.reason) for each in bad] == [(7, "it does not say its key (id)")]


def test_a_table_may_have_columns_of_the_names_that_decoding_uses(spark: SparkSession):
    row = StructType.fromDDL("id BIGINT, topic STRING, p STRING, o STRING, bad STRING, t0 STRING")
    table = Table("people", row, ("id",), ("lower(`topic`)", "lower(`t0`)"))
    value = {"id": 1, "topic": "X", "p": "P", "o": "O", "bad": "B", "t0": "T"}
    records = [("people", None, as_bytes(value), 0, 3, 0)]
    (found,) = Decoder([table])(spark.createDataFrame(records, RECORD))
    (change,) = found.to_pylist()
    assert [change[f"c{n}"] for n in range(6)] == [1, "X", "P", "O", "B", "T"]
    assert (change["d0"], change["d1"], change["p"], change["o"]) == ("x", "t", 0, 3)


def test_what_spark_would_read_as_another_value_is_bad(spark: SparkSession):
    """It would be today, days since 1970, infinity, -56, fifteen, a rounded number, or nothing."""
    row = (
        "id BIGINT, f FLOAT, fs ARRAY<FLOAT>, day DATE, at TIMESTAMP, ats MAP<STRING, TIMESTAMP>, "
    )
    row += "b TINYINT, bs ARRAY<TINYINT>, d DECIMAL(10,2), w DECIMAL(38,0), ds ARRAY<DOUBLE>, "
    row += "s STRUCT<b: TINYINT, w: ARRAY<DECIMAL(38,18)>>, local TIMESTAMP_NTZ"
    table = Table("t", StructType.fromDDL(row), ("id",))
    texts = {
        '"f": 1e39': False,
        '"f": -3.4028236e38': False,
        f'"f": 1{"0" * 39}': False,
        '"fs": [1, null, 1e39]': False,
        '"f": 9.0e+999': False,
        '"ds": [1e400]': False,
        '"ds": [1e300, "NaN", "Infinity"]': True,
        '"b": 128': False,
        '"b" : 255 ': False,
        '"bs": [1,200]': False,
        '"bs": [127,-128]': True,
        '"s": {"b": 128}': False,
        '"s": {"b": 127, "x": 128}': True,
        '"d": "1,5"': False,
        '"d": "\u0661"': False,
        '"d": "1.5"': True,
        '"d": 99999999.999': False,
        '"d": 99999999.99': True,
        '"w": 1.5': False,
        '"w": 99999999999999999999999999999999999999': True,
        '"w": 9999999999999999999999999999.5': False,
        '"s": {"w": [0.0000000000000000001]}': False,
        '"s": {"w": [9999999999.99999999999999999999, 1]}': False,
        '"s": {"w": [12345678901234567890.5, 0.000000000000000001]}': True,
        '"at": "2026-11-15T12:30:00.1234567Z"': False,
        '"at": "2026-11-15T12:30:00.1234560Z"': True,
        '"local": "2026-11-15T12:30:00.1234567"': False,
        '"f": "-Infinity"': True,
        '"f": 1e-50': True,
        '"fs": [1, null]': True,
        '"day": "20261115"': False,
        '"day": "-1"': False,
        '"day": "2026-11-15"': True,
        '"at": "12:30"': False,
        '"at": 1700000000': False,
        '"at": "2026"': False,
        '"ats": {"a": 1700000000}': False,
        '"ats": {"a": null}': True,
        '"at": " T12:30:01"': False,
        '"ats": {"a": "2026-11-15T12:30:00Z", "b": "1:2"}': False,
        '"at": "2026-11-15 12:30"': True,
    }
    wanted = [*texts.values(), *texts.values()]
    plain = [f'{{"id": 1, {text}}}' for text in texts]
    values = [*plain, *(f'{{"op": "u", "after": {text}}}' for text in plain)]
    rows = [("t", None, as_bytes(text), 0, n, 0) for n, text in enumerate(values)]
    bad: list[BadValue] = []
    (found,) = Decoder([table], bad.extend)(spark.createDataFrame(rows, RECORD))
    named = [*texts, *texts]
    assert [named[o] for o in sorted(found["o"].to_pylist())] == [
        text for text, good in zip(named, wanted, strict=True) if good
    ]
    assert sorted(each.offset for each in bad) == [n for n, good in enumerate(wanted) if not good]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("STRING", {'"\\u00e9"': "é", '"say \\"hi\\""': 'say "hi"', "a\\b": "a\\b", '"x"': "x"}),
        (
            "DECIMAL(20,2)",
            {
                '{"schema": {}, "payload": {"id": 123456789012345678.91}}': "123456789012345678.91",
                '{"id": 1.239}': None,
                "1.239": None,
                "1.20": "1.20",
            },
        ),
        ("TIMESTAMP", {"12:30": None, '{"id": "12:30"}': None}),
        ("DOUBLE", {"1e400": None, '{"id": 1e400}': None, "1.5": "1.5", "Infinity": "inf"}),
    ],
)
def test_a_record_without_a_value_deletes_the_row_that_its_key_says_or_none(
    spark: SparkSession, kind: str, keys: dict[str, str | None]
):
    table = Table("t", StructType.fromDDL(f"id {kind}, name STRING"), ("id",))
    rows = [("t", bytearray(key.encode()), None, 0, n, 0) for n, key in enumerate(keys)]
    bad: list[BadValue] = []
    (found,) = Decoder([table], bad.extend)(spark.createDataFrame(rows, RECORD))
    said = dict(zip(found["o"].to_pylist(), map(str, found["c0"].to_pylist()), strict=True))
    assert [said.get(n) for n in range(len(rows))] == list(keys.values())
    assert len(bad) == list(keys.values()).count(None)


def test_a_key_that_spark_would_read_as_another_deletes_no_row(spark: SparkSession):
    table = Table("t", StructType.fromDDL("id TINYINT, name STRING"), ("id",))
    rows = [("t", as_bytes(key), None, 0, n, 0) for n, key in enumerate(({"id": 200}, {"id": 7}))]
    bad: list[BadValue] = []
    (found,) = Decoder([table], bad.extend)(spark.createDataFrame(rows, RECORD))
    assert found["c0"].to_pylist() == [7]
    assert [each.offset for each in bad] == [0]
