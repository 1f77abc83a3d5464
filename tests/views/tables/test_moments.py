"""A view's function says what is to be done with its tables; one that reads them while it runs is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

import headwater as hw
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import DECLARED
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.table_views import tried, writer_of
from headwater.views.tables.decoder import Table
from headwater.views.tables.moments import takes_rows
from tests.views.tables import static_queries
from tests.views.tables.queries import ROWS, Query
from tests.views.tables.test_upkeep import on_frames

Function = Callable[[Any, Any], Any]


def _with(other: Callable[[Any], Any]) -> Function:
    """A table, joined with what is made of another one, which the plan has as well."""
    return lambda a, b: (
        a.join(b.select(F.col("id").alias("k")), F.col("b") == F.col("k"), "left")
        .join(other(b).select(F.col("id").alias("l"), "s"), F.col("b") == F.col("l"), "left")
        .select("id", "s")
    )


READING: dict[str, Function] = {
    "count": lambda a, b: a.withColumn("of", F.lit(a.count())),
    "count of some": lambda a, b: a.withColumn("of", F.lit(a.where("n > 2").count())),
    "isEmpty": lambda a, b: a if b.isEmpty() else a.join(b, "id", "left_semi"),
    "collect": lambda a, b: a.where(F.col("n").isin([row.n for row in a.distinct().collect()])),
    "first": lambda a, b: a.where(F.col("n") > (a.agg(F.max("n")).first()[0] or 0)),
    "toArrow": lambda a, b: a.where(F.lit(a.toArrow().num_rows > 0)),
    "pivot": lambda a, b: a.groupBy("b").pivot("t").agg(F.sum("n")),
    "localCheckpoint": _with(lambda b: b.localCheckpoint()),
    "localCheckpoint, later": _with(lambda b: b.localCheckpoint(eager=False)),
    "rdd": _with(lambda b: b.sparkSession.createDataFrame(b.rdd, b.schema)),
}


def reads(spark: SparkSession, query: Any) -> bool:
    tables = [Table(f"t{n}", StructType.fromDDL(row), ("id",)) for n, row in enumerate(ROWS)]
    return takes_rows(spark, tables, on_frames(query))


@pytest.mark.parametrize("name", READING)
def test_a_function_that_reads_its_tables_is_noticed(spark: SparkSession, name: str):
    function = READING[name]
    assert reads(spark, Query(("id",), lambda a, b, c: function(a, b), ""))


def test_one_that_does_not_is_not(spark: SparkSession):
    for query in static_queries.QUERIES.values():
        assert not reads(spark, query)


def test_such_a_view_is_refused_and_may_be_recomputed_as_a_whole(
    spark: SparkSession, tmp_path: Path
):
    def counted() -> Any:
        orders = hw.table("shop.orders", schema="id BIGINT, total DOUBLE", key="id")
        return orders.withColumn("of", F.lit(orders.count()))

    def built(**words: Any) -> str:
        hw.view("counted", key="id", to=f"sqlite:{tmp_path}/shop.db", **words)(counted)
        view = DECLARED.views()[-1]
        DECLARED.clear()
        context = Context(spark, "127.0.0.1:1", {}, view.speed, view, checkpoint=str(tmp_path))
        frame, tables = tried(view, context)
        assert tables is not None
        return writer_of(view, context, frame, tables)[1]

    with pytest.raises(PipelineError, match="reads its tables while it runs") as said:
        built()
    assert "every=" in str(said.value.hint)
    assert "headwater_table_0" in built(every="1 minute")
