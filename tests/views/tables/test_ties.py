"""Functions whose result depends on the order of rows: only with an order that decides to the last."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headwater.views.tables.decoder import Table
from headwater.views.tables.planner import empty_frames, marked
from headwater.views.tables.ties import Undecided, refuse_ties
from tests.views.tables.queries import ROWS


def _numbered(*order: Any) -> Any:
    return F.row_number().over(Window.partitionBy("b").orderBy(*order))


def _of_b(*measures: str) -> Any:
    return lambda a, b: a.groupBy("b").agg(*map(F.expr, measures))


BY_CHANCE: dict[str, Any] = {
    "row_number": lambda a, b: a.withColumn("r", _numbered(F.desc("n"))).where("r = 1"),
    "row_number of a join": lambda a, b: a.join(b.withColumnRenamed("id", "k"), a.n == F.col("s"))
    .withColumn("r", _numbered("id")).where("r = 1"),
    "lag": lambda a, b: a.withColumn("x", F.lag("n").over(Window.partitionBy("b").orderBy("n"))),
    "a running sum of rows": lambda a, b: a.withColumn(
        "x", F.sum("n").over(Window.partitionBy("b").orderBy("n").rowsBetween(-1, 0))
    ),
    "collect_list": _of_b("collect_list(n) AS x"),
    "collect_set": _of_b("collect_set(n) AS x"),
    "collect_list in another": _of_b("reverse(collect_list(n)) AS x"),
    "listagg": _of_b("listagg(t, ',') AS x"),
    "max_by": _of_b("max_by(t, n) AS x"),
    "mode": _of_b("mode(n) AS x"),
}  # fmt: skip
DECIDED: dict[str, Any] = {
    "row_number by the key": lambda a, b: a.withColumn("r", _numbered(F.desc("n"), "id")).where("r = 1"),
    "row_number of a row with what it names": lambda a, b: a.join(
        b.withColumnRenamed("id", "k"), a.n == F.col("k"), "left"
    ).withColumn("r", _numbered("id")).where("r = 1"),
    "row_number of groups": lambda a, b: a.groupBy("b", "n").count()
    .withColumn("r", _numbered("count", "n")).where("r = 1"),
    "row_number of a key with another name": lambda a, b: a.select("b", F.col("id").alias("i"))
    .withColumn("r", _numbered("i")).where("r = 1"),
    "rank": lambda a, b: a.withColumn("r", F.rank().over(Window.partitionBy("b").orderBy("n"))),
    "a sum up to equal rows": lambda a, b: a.withColumn(
        "x", F.sum("n").over(Window.partitionBy("b").orderBy("n"))
    ),
    "sort_array": _of_b("sort_array(collect_list(n)) AS x", "size(collect_set(t)) AS y"),
    "max_by": _of_b("max_by(t, struct(n, id)) AS x", "max_by(n, n) AS y"),
    "mode": _of_b("mode(n, true) AS x", "mode() WITHIN GROUP (ORDER BY t) AS y"),
}  # fmt: skip


def tried(spark: SparkSession, function: Any) -> None:
    tables = [Table(f"t{n}", StructType.fromDDL(row), ("id",)) for n, row in enumerate(ROWS)]
    frames = empty_frames(spark, tables)
    frame = function(*(marked(frames[n], n) for n in range(2)))
    refuse_ties(frame, [table.key for table in tables])


@pytest.mark.parametrize("name", BY_CHANCE)
def test_what_rows_decide_that_nothing_tells_apart_is_refused(spark: SparkSession, name: str):
    with pytest.raises(Undecided) as caught:
        tried(spark, BY_CHANCE[name])
    assert caught.value.hint


@pytest.mark.parametrize("name", DECIDED)
def test_what_an_order_decides_to_the_last_is_taken(spark: SparkSession, name: str):
    tried(spark, DECIDED[name])
