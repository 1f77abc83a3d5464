"""A plan that is made once and filled anew gives what a plan of its own would give for every batch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headwater.views.tables.decoder import Table
from headwater.views.tables.frames import computing
from headwater.views.tables.kept_plan import KeptPlan
from headwater.views.tables.planner import empty_frames, marked, plan
from tests.views.tables import static_queries
from tests.views.tables.queries import QUERIES, ROWS

Rows = list[list[tuple[Any, ...]]]
BATCHES: list[Rows] = [
    [[(1, 1, 5, "t"), (2, 1, 7, "u"), (3, 2, None, None)], [(1, 1, "x"), (2, None, "y")], [(1, "u")]],
    [[], [], []],
    [[(1, 2, 9, "T")], [(2, 1, "x")], []],
    [[(n, n % 3, n % 5, f"t{n % 4}") for n in range(60)], [(n, 1, "y") for n in range(3)], [(1, "w")]],
    [[], [(2, 1, "x")], [(1, "u")]],
]  # fmt: skip


def tables() -> list[Table]:
    return [Table(f"t{n}", StructType.fromDDL(row), ("id",)) for n, row in enumerate(ROWS)]


def arrow(rows: Rows, of: list[Table] | None = None) -> dict[int, pa.Table]:
    schemas = [to_arrow_schema(table.row, timezone="UTC") for table in of or tables()]
    return {
        n: pa.Table.from_pylist([dict(zip(s.names, row, strict=True)) for row in some], s)
        for n, (some, s) in enumerate(zip(rows, schemas, strict=True))
    }


def on_marked(function: Callable[..., DataFrame]) -> Any:
    return lambda _, frames: function(*(marked(frames[n], n) for n in sorted(frames)))


def anew(spark: SparkSession, function: Any, rows: dict[int, pa.Table]) -> pa.Table:
    frames = {n: spark.createDataFrame(rows[n], tables()[n].row).coalesce(1) for n in rows}
    return function(spark, frames).toArrow()


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.fixture
def small(spark: SparkSession, tmp_path: Path) -> SparkSession:
    """A session as one that has computed a small batch."""
    own = spark.newSession()
    query = on_marked(QUERIES["filter"].function)
    known = plan("filter", ("id",), query(own, empty_frames(own, tables())), tables())
    computing(own, known, query, tmp_path)(arrow(BATCHES[1]))
    return own


def test_every_query_gives_the_same_by_a_plan_that_is_kept(small: SparkSession):
    not_kept = set()
    for name, query in QUERIES.items():
        function = on_marked(query.function)
        kept = KeptPlan(small, [each.row for each in tables()], function)
        for rows in map(arrow, BATCHES):
            found = kept.run(rows)
            if found is None:
                not_kept.add(name)
                break
            assert sorted_rows(found) == sorted_rows(anew(small, function, rows)), name
    assert not_kept == NOT_KEPT


NOT_KEPT = {"semi", "anti", "except", "three", "three full"}
"""They need an exchange even of rows that are in one partition."""


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: a.join(F.broadcast(b.withColumnRenamed("id", "k")), F.col("b") == F.col("k")),
        lambda a, b, c: a.cache().where("n > 2"),
        lambda a, b, c: a.where(b.where("id > 1").exists()),
        lambda a, b, c: a.withColumn("m", b.select(F.max("id")).scalar()),
        lambda a, b, c: a.repartition(3, "b").groupBy("b").count(),
        lambda a, b, c: a.crossJoin(b.select("s")),
        lambda a, b, c: a.withColumn("u", F.udf(lambda t: t and t.upper())("t")),
        lambda a, b, c: a.limit(2),
        *(query.function for query in static_queries.QUERIES.values()),
    ],
)  # fmt: skip
def test_a_plan_that_holds_rows_of_its_own_is_not_kept(small: SparkSession, function: Any):
    assert (
        KeptPlan(small, [each.row for each in tables()], on_marked(function)).run(arrow(BATCHES[0]))
        is None
    )
    small.catalog.clearCache()


def test_values_of_every_kind_come_out_as_they_went_in(small: SparkSession):
    row = StructType.fromDDL(
        "id BIGINT NOT NULL, b BOOLEAN, y TINYINT, h SMALLINT, i INT, f FLOAT, d DOUBLE, c DECIMAL(38, 4), "
        "s STRING, x BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
        "a ARRAY<STRUCT<p: INT, q: STRING>>, m MAP<STRING, DECIMAL(5, 2)>, "
        "z STRUCT<t: TIMESTAMP, l: ARRAY<TIMESTAMP>>"
    )
    moment = datetime(1899, 12, 31, 23, 59, 59, 123456, tzinfo=UTC)
    local = datetime(2024, 2, 29, 1, 2, 3, 4)
    full = (
        1, True, -128, 32767, -(2**31), -0.0, float("inf"), Decimal("-1234567890123456.7890"), "ä€\0😀",
        b"\xff\x00", date(1, 1, 1), moment, local, [{"p": 1, "q": None}, None], [("k", Decimal("1.25"))],
        {"t": moment, "l": [None, moment]},
    )  # fmt: skip
    none = (2, *[None] * 15)
    of = [Table("t", row, ("id",))]
    kept = KeptPlan(small, [each.row for each in of], on_marked(lambda t: t.where("id > 0")))
    for rows in ([full, none], [none], [], [full]):
        given = arrow([rows], of)
        found = kept.run(given)
        assert found is not None
        assert found.cast(given[0].schema).equals(given[0])


def test_rows_in_several_pieces_and_slices_are_all_there(small: SparkSession):
    kept = KeptPlan(
        small, [each.row for each in tables()], on_marked(lambda a, b, c: a.where("n >= 0"))
    )
    rows = arrow(BATCHES[3])
    cut = pa.concat_tables([rows[0].slice(7, 5), rows[0].slice(0, 0), rows[0].slice(30)])
    found = kept.run({**rows, 0: cut})
    assert found is not None and sorted_rows(found) == sorted_rows(cut)


def test_a_batch_of_many_bytes_is_planned_by_itself(
    small: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    function = on_marked(QUERIES["filter"].function)
    known = plan("filter", ("id",), function(small, empty_frames(small, tables())), tables())
    compute, rows = computing(small, known, function, tmp_path), arrow(BATCHES[3])
    few = compute(rows)
    monkeypatch.setattr("headwater.views.tables.frames.KEPT_BYTES", 0)
    assert sorted_rows(compute(rows)) == sorted_rows(few)
