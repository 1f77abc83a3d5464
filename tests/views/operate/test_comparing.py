"""Rows compared inside Spark: maps at any depth, both zeros, times that Python does not have."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.pipelines.comparison import Comparison
from headwater.testing.targets import shape
from headwater.views.operate.differences import differences_of
from headwater.views.targets.contract import Kind

ROWS = """
    id LONG, m MAP<STRING, DOUBLE>, s STRUCT<x: INT, m: MAP<STRING, ARRAY<MAP<INT, DOUBLE>>>>,
    a ARRAY<MAP<STRING, INT>>, f DOUBLE, at TIMESTAMP
"""
ONE = (
    "SELECT 1L, map('a', 0.0D, 'b', double('nan')), struct(1, map('p', array(map(1, -0.0D, 2, 1.0D)), "
    "'q', null)), array(map('x', 1, 'y', 2), null), -0.0D, timestamp'+12000-01-01 00:00:00'"
)
SAME = (
    "SELECT 1L, map('b', double('nan'), 'a', -0.0D), struct(1, map('q', null, 'p', array(map(2, 1.0D, "
    "1, 0.0D)))), array(map('y', 2, 'x', 1), null), 0.0D, timestamp'+12000-01-01 00:00:00'"
)
OTHER = (
    "SELECT 1L, map('b', double('nan'), 'a', 0.0D), struct(1, map('q', null, 'p', array(map(2, 7.0D, "
    "1, 0.0D)))), array(map('y', 2, 'x', 1), null), 0.0D, timestamp'+12000-01-01 00:00:00'"
)
NOTHING = "SELECT 2L, null, null, null, null, null"


def frame(spark: SparkSession, *selects: str) -> Any:
    names = ["id", "m", "s", "a", "f", "at"]
    return spark.sql(" UNION ALL ".join(selects)).toDF(*names)


@pytest.mark.parametrize("kind", [Kind.UPSERT, Kind.APPEND])
def test_maps_in_another_order_and_both_zeros_are_the_same_at_any_depth(
    spark: SparkSession, kind: Kind
):
    from pyspark.sql.pandas.types import to_arrow_schema

    expected = frame(spark, ONE, NOTHING)
    fit = shape(kind, schema=to_arrow_schema(expected.schema, timezone="UTC"))
    pair = Comparison(expected, frame(spark, SAME, NOTHING), fit)
    assert (pair.rows, pair.found_rows, pair.differences) == (2, 2, [])
    pair.forget()
    pair = Comparison(expected, frame(spark, OTHER, NOTHING), fit)
    kinds = {Kind.UPSERT: {"different": 1}, Kind.APPEND: {"missing": 1, "extra": 1}}
    assert dict(pair.counts) == kinds[kind]
    pair.forget()


def test_numbers_of_an_aggregate_may_be_rounded_otherwise_and_no_more(spark: SparkSession):
    numbers = [0.1 + 0.2, 1.0, None, 0.0, *map(float, ("inf", "inf", "nan", "nan"))]
    others = [0.3, 1.001, 0.0, 1e-300, *map(float, ("5", "-inf", "1", "nan"))]
    fit = shape(schema=pa.schema([("id", pa.int64()), ("f", pa.float64())]))
    one, other = (
        spark.createDataFrame(list(enumerate(each)), "id LONG, f DOUBLE")
        for each in (numbers, others)
    )
    exact = Comparison(one, other, fit)
    assert sorted(each.key["id"] for each in exact.differences) == [0, 1, 2, 3, 4, 5, 6]
    near = Comparison(one, other, fit, lambda: True)
    assert sorted(each.key["id"] for each in near.differences) == [1, 2, 3, 4, 5, 6]
    exact.forget()
    near.forget()


def test_every_nan_is_one_key_and_so_are_both_zeros():
    fit = shape(schema=pa.schema([("id", pa.float64()), ("n", pa.int64())]))
    right = [{"id": float("nan"), "n": 1}, {"id": 0.0, "n": 2}]
    here = [{"id": float("nan"), "n": 1}, {"id": -0.0, "n": 3}]
    (found,) = differences_of(right, here, fit)
    assert (found.kind, found.columns["n"]) == ("different", [2, 3])


def test_no_number_inside_of_a_value_is_no_difference() -> None:
    fit = shape(schema=pa.schema([("id", pa.int64()), ("n", pa.list_(pa.float64()))]))
    deep = [[{"a": [float("nan"), 1.0], "m": [("k", float("nan"))]}] for _ in range(2)]
    right, here = ([{"id": 1, "n": each}] for each in deep)
    assert not differences_of(right, here, fit)
    here[0]["n"][0]["a"][1] = 2.0
    assert differences_of(right, here, fit)


COLUMNS = "a STRING, b STRING, l ARRAY<STRING>, n ARRAY<ARRAY<INT>>, m MAP<STRING, STRING>, "
COLUMNS += "s STRUCT<x: STRING, y: ARRAY<STRUCT<p: INT, q: INT>>>"
VALUES: list[list[Any]] = [
    [None, "x", ""],
    [None, "x", ""],
    [None, [], [None], [None, None], ["x"], ["x", None], [None, "x"], [""]],
    [None, [], [None], [[]], [[None]], [[1], []], [[], [1]], [[1]], [[1, 2]], [[1], [2]]],
    [None, {}, {"x": None}, {"x": ""}, {"": "x"}, {"x": "y"}, {"x": "y", "y": None}],
    [
        *(None, (None, None), (None, []), ("x", None), ("x", [None]), (None, [(None, None)])),
        *(("x", [(1, None)]), ("x", [(None, 1)]), ("x", [(1, 1)]), ("x", [(1, None), (None, 1)])),
    ],
]


def test_any_two_rows_that_are_not_equal_differ(spark: SparkSession):
    """Every pair of rows side by side: those alike but for a column, and many drawn by lot."""
    from pyspark.sql.pandas.types import to_arrow_schema

    lot = random.Random(7)
    rows = [tuple(map(lot.choice, VALUES)) for _ in range(60)]
    rows += [
        tuple(value if n == place else None for n in range(len(VALUES)))
        for place, values in enumerate(VALUES)
        for value in values
    ]
    rows = list({repr(row): row for row in rows}.values())
    pairs = [(one, other) for one in rows for other in rows]
    expected, found = (
        spark.createDataFrame(
            [(n, *pair[side]) for n, pair in enumerate(pairs)], f"id INT, {COLUMNS}"
        )
        for side in (0, 1)
    )
    compared = Comparison(
        expected, found, shape(schema=to_arrow_schema(expected.schema, timezone="UTC"))
    )
    unequal = {n for n, (one, other) in enumerate(pairs) if one is not other}
    assert {each.key["id"] for each in compared.differences} == unequal
    compared.forget()


def test_a_row_that_is_there_twice_is_a_row_too_many(spark: SparkSession):
    from pyspark.sql.pandas.types import to_arrow_schema

    expected = spark.sql("SELECT 1L AS id, 'x' AS text UNION ALL SELECT 2L, 'y'")
    fit = shape(Kind.UPSERT, schema=to_arrow_schema(expected.schema, timezone="UTC"))
    for text, count in [("x", 1), ("y", 2)]:
        again = spark.sql(f"SELECT 1L AS id, '{text}' AS text")
        pair = Comparison(expected, expected.unionAll(again), fit)
        assert (pair.rows, pair.found_rows, pair.has_copies) == (2, 3, True)
        assert pair.counts["extra"] == 1
        assert 1 <= sum(pair.counts.values()) <= count
        assert all(each.key == {"id": 1} for each in pair.differences)
        pair.forget()
