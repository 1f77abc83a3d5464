"""Aggregates that are kept as running totals: equal to what Spark gives, and without asking it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headwater.views.tables.decoder import Table
from headwater.views.tables.frames import computing
from headwater.views.tables.plan import Plan
from headwater.views.tables.planner import empty_frames, marked, plan
from headwater.views.tables.upkeep import Upkeep
from tests.conftest import SOAK
from tests.views.tables.histories import HISTORIES, Held, keyed
from tests.views.tables.queries import QUERIES, Query
from tests.views.tables.test_upkeep import planned
from tests.views.tables.trying import follow

ROW = (
    "id BIGINT, g STRING, h DATE, i INT, l BIGINT, d DECIMAL(12,2), w DECIMAL(38,2), "
    "s STRING, at TIMESTAMP, ok BOOLEAN, x DOUBLE"
)
MEASURES = (
    "count(*)",
    "count(x)",
    "sum(i)",
    "sum(d)",
    "avg(l)",
    "min(at)",
    "max(s)",
    "max(d)",
    "min(h)",
)


def one_table(spark: SparkSession, function: Any, key: tuple[str, ...]) -> tuple[Plan, Any]:
    table = Table("t", StructType.fromDDL(ROW), ("id",))

    def on_frames(_: SparkSession, frames: Mapping[int, DataFrame]) -> DataFrame:
        found: DataFrame = function(marked(frames[0], 0))
        return found

    return plan("v", key, on_frames(spark, empty_frames(spark, [table])), [table]), on_frames


def grouped(*measures: str, by: tuple[str, ...] = ("g",)) -> Any:
    return lambda t: t.groupBy(*by).agg(
        *(F.expr(each).alias(f"m{n}") for n, each in enumerate(measures))
    )


def changes_of(plan: Plan, rows: list[dict[str, Any]]) -> list[pa.Table]:
    marks = [("gone", pa.bool_()), ("emptied", pa.bool_()), ("m0", pa.int64())]
    places = [("p", pa.int32()), ("o", pa.int64()), ("ts", pa.int64())]
    schema = pa.schema([*plan.columns[0], *marks, *places])
    usual = {"gone": False, "emptied": False, "p": 0}
    return [
        pa.Table.from_pylist([{**usual, "o": n, "ts": n, **r} for n, r in enumerate(rows)], schema)
    ]


def never(_: Any) -> Any:
    raise AssertionError("Spark was asked")


@pytest.mark.parametrize("name", ["totals", "totals by two"])
def test_totals_are_the_query_after_every_batch(
    spark: SparkSession, name: str, tmp_path_factory: pytest.TempPathFactory
):
    found = planned(spark, name, QUERIES[name])
    assert found.aggregation is not None

    @settings(max_examples=500 if SOAK else 25)
    @given(HISTORIES)
    def after_every_batch(history: list[Any]) -> None:
        follow(history, found, QUERIES[name], tmp_path_factory.mktemp("state"))

    after_every_batch()


RECOMPUTED = {
    "a sum of floating-point numbers": grouped("sum(x)"),
    "an average of decimals": grouped("avg(d)"),
    "a sum that may need more digits than there are": grouped("sum(w)"),
    "groups by floating-point numbers": grouped("count(*)", by=("x",)),
    "distinct values": grouped("count(DISTINCT i)"),
    "a filter on a measure": grouped("count(*) FILTER (WHERE i > 1)"),
    "a filter on rows": lambda t: grouped("count(*)")(t.where("i > 1")),
    "a filter on groups": lambda t: grouped("count(*)")(t).where("m0 > 1"),
    "a computed column": grouped("sum(i + 1)"),
    "a computed result": lambda t: grouped("sum(i)")(t).withColumn("m0", F.col("m0") * 2),
    "another function": grouped("stddev(i)"),
    "a list": grouped("sort_array(collect_set(i))"),
}


@pytest.mark.parametrize("name", RECOMPUTED)
def test_what_totals_cannot_say_exactly_is_left_to_spark(spark: SparkSession, name: str):
    function = RECOMPUTED[name]
    key = ("x",) if "groups by" in name else ("g",)
    found, _ = one_table(spark, function, key)
    assert found.program is not None and found.aggregation is None


def chance_row(chance: Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return {
        "c0": chance.randrange(30),
        "c1": maybe(chance.choice(["", "a", "ä", "b\0", "Z"])),
        "c2": maybe(date(2024, 1, chance.randint(1, 3))),
        "c3": maybe(chance.choice([-(2**31), 2**31 - 1, 0, 7])),
        "c4": maybe(chance.randint(-(10**6), 10**6)),
        "c5": maybe(Decimal(chance.randint(-(10**11), 10**11)).scaleb(-2)),
        "c6": None,
        "c7": maybe(chance.choice(["", "é", "z", "𝄞", "\uffff"])),
        "c8": maybe(datetime(2024, 1, 1, microsecond=chance.randrange(10**6), tzinfo=UTC)),
        "c9": maybe(chance.random() < 0.5),
        "c10": maybe(chance.choice([0.0, -0.0, float("nan"), 1.5])),
        "gone": chance.random() < 0.3,
    }


def test_totals_are_what_spark_gives_for_values_that_hurt(spark: SparkSession, tmp_path: Path):
    """
    change ──▶ totals ──▶ the view     =     all rows ──▶ Spark
    """
    each, function = one_table(spark, grouped(*MEASURES, by=("g", "ok")), ("g", "ok"))
    assert each.aggregation is not None
    compute = computing(spark, each, function, tmp_path)
    upkeep, view, chance = Upkeep(each, tmp_path / "state"), Held(each.key), Random(11)
    for number in range(12 if SOAK else 5):
        batch = changes_of(each, [chance_row(chance) for _ in range(25)])
        asked = compute if number == 0 else never
        upkeep.apply(number, lambda batch=batch: batch, asked, view.taking(number))
        assert view.rows == keyed(compute(upkeep.store.whole()), each.key)
    upkeep.close()


def test_a_sum_that_could_leave_its_range_on_the_way_is_left_to_spark(
    spark: SparkSession, tmp_path: Path
):
    each, function = one_table(spark, grouped("sum(l)", "avg(i)"), ("g",))
    compute = computing(spark, each, function, tmp_path)
    asked: list[int] = []

    def counting(rows: Mapping[int, pa.Table]) -> pa.Table:
        asked.append(rows[0].num_rows)
        return compute(rows)

    upkeep, view = Upkeep(each, tmp_path / "state"), Held(each.key)
    most = 2**63 - 1
    values = ([most], [most, -most], [1, -most], [1, 2])
    for number, (first, *second) in enumerate(values):
        rows = [{"c0": n, "c1": "a", "c4": v, "c3": v % 7} for n, v in enumerate((first, *second))]
        batch = changes_of(each, rows)
        upkeep.apply(number, lambda batch=batch: batch, counting, view.taking(number))
        total = first + sum(second)
        mean = sum(v % 7 for v in (first, *second)) / len(rows)
        assert view.rows == {("a",): {"g": "a", "m0": total, "m1": mean}}
    assert asked == [1]  # both signs stay within the range of a long: no order can leave it
    batch = changes_of(each, [{"c0": 3, "c1": "a", "c4": most, "c3": 1}])
    again = changes_of(each, [{"c0": 4, "c1": "a", "c4": -most, "c3": 1}])
    upkeep.apply(4, lambda: [pa.concat_tables(batch + again)], counting, lambda _: None)
    assert asked == [1, 4]
    upkeep.close()


def test_totals_that_are_missing_or_old_are_counted_anew(spark: SparkSession, tmp_path: Path):
    query: Query = QUERIES["totals"]
    each = planned(spark, "totals", query)

    def put(number: int, n: int) -> list[pa.Table]:
        from tests.views.tables.histories import as_changes

        return as_changes([(0, "put", number, 0, (1, n, "x"))], each.columns, {})

    view = Held(query.key)
    upkeep = Upkeep(each, tmp_path)
    whole = pa.table({"k": [1], "rows": [1], "count": [1], "sum": [5], "mean": [5.0]})
    whole = whole.append_column("most", pa.array([5])).append_column("first", pa.array(["x"]))
    upkeep.apply(0, lambda: put(0, 5), lambda _: whole.cast(each.result), view.taking(0))
    upkeep.apply(1, lambda: put(1, 6), never, view.taking(1))
    with upkeep.store.transaction():  # as a version leaves it that knows of no totals
        upkeep.store.run("UPDATE totalled SET batch = 0")
        upkeep.store.run("DELETE FROM totals")
    upkeep.apply(2, lambda: put(2, 7), never, view.taking(2))
    assert view.rows[(1,)]["sum"] == 18
    with upkeep.store.transaction():
        upkeep.store.run("DROP TABLE totalled")
        upkeep.store.run("DROP TABLE totals")
    upkeep.apply(3, lambda: put(2, 1), never, view.taking(3))
    assert view.rows == {
        (1,): {"k": 1, "rows": 3, "count": 3, "sum": 12, "mean": 4.0, "most": 6, "first": "x"}
    }
    upkeep.close()
