"""Views over tables and rows that are in no table, as `queries` has those over tables alone."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from tests.views.tables.queries import Query

ROWS = ((0, 1, "x"), (3, 2, "y"), (4, None, None), (9, 3, "z"))
"""Of columns i, m and v. Ids of the tables are 0 to 5: 9 is never touched."""
VALUES = (
    "(VALUES (0::BIGINT, 1::INT, 'x'), (3, 2, 'y'), (4, NULL, NULL), (9, 3, 'z')) AS x(i, m, v)"
)


def static(table: Any) -> Any:
    return table.sparkSession.createDataFrame(list(ROWS), "i BIGINT, m INT, v STRING")


def _with_static(a: Any) -> Any:
    return a.select("b", "n", "t").union(static(a))


def _largest(a: Any, b: Any, c: Any) -> Any:
    window = Window.partitionBy("b").orderBy(F.desc_nulls_last("n"), F.desc_nulls_last("t"))
    found = _with_static(a).distinct().withColumn("r", F.row_number().over(window))
    return found.where("r = 1").drop("r")


_STACKED = f"(SELECT b, n, t FROM a UNION ALL SELECT * FROM {VALUES})"
QUERIES: dict[str, Query] = {
    "union": Query(
        ("id", "kind"),
        lambda a, b, c: a.select("id", F.lit("a").alias("kind"), "t").union(
            static(a).select("i", F.lit("x"), "v")
        ),
        f"SELECT id, 'a' AS kind, t FROM a UNION ALL SELECT i, 'x', v FROM {VALUES}",
        followed=("id",),
    ),
    "union the other way round": Query(
        ("i", "kind"),
        lambda a, b, c: (
            static(a).select("i", F.lit("x").alias("kind")).union(a.select("id", F.lit("a")))
        ),
        f"SELECT i, 'x' AS kind FROM {VALUES} UNION ALL SELECT id, 'a' FROM a",
        followed=("i",),
    ),
    "union and aggregate": Query(
        ("b",),
        lambda a, b, c: _with_static(a).groupBy("b").agg(F.sum("n").alias("sum")),
        f"SELECT b, sum(n) AS sum FROM {_STACKED} GROUP BY b",
    ),
    "union and distinct": Query(
        ("b", "n", "t"),
        lambda a, b, c: _with_static(a).distinct(),
        f"SELECT DISTINCT * FROM {_STACKED}",
    ),
    "union and window": Query(
        ("b",),
        _largest,
        f"SELECT * FROM (SELECT DISTINCT * FROM {_STACKED}) QUALIFY row_number() OVER "
        "(PARTITION BY b ORDER BY n DESC NULLS LAST, t DESC NULLS LAST) = 1",
    ),
    "except a table": Query(
        ("i",),
        lambda a, b, c: static(a).select("i").subtract(a.select("b")),
        f"SELECT i FROM {VALUES} EXCEPT SELECT b FROM a",
    ),
    "a table except": Query(
        ("id",),
        lambda a, b, c: a.select("id").subtract(static(a).select("i")),
        f"SELECT id FROM a EXCEPT SELECT i FROM {VALUES}",
    ),
    "intersect": Query(
        ("i",),
        lambda a, b, c: static(a).select("i").intersect(a.select("b")),
        f"SELECT i FROM {VALUES} INTERSECT SELECT b FROM a",
    ),
    "left": Query(
        ("id",),
        lambda a, b, c: a.join(static(a), a.b == F.col("i"), "left").select("id", a.n, "v"),
        f"SELECT id, a.n, v FROM a LEFT JOIN {VALUES} ON a.b = i",
    ),
    "inner, the other way round": Query(
        ("id",),
        lambda a, b, c: static(a).join(a, a.b == F.col("i")).select("id", "v"),
        f"SELECT id, v FROM {VALUES} JOIN a ON a.b = i",
    ),
    "anti": Query(
        ("id",),
        lambda a, b, c: a.join(static(a), a.b == F.col("i"), "left_anti"),
        f"SELECT * FROM a WHERE NOT EXISTS (FROM {VALUES} WHERE a.b = i)",
    ),
    "cross": Query(
        ("id", "i"),
        lambda a, b, c: a.select("id", "t").crossJoin(static(a).select("i", "v")),
        f"SELECT id, t, i, v FROM a CROSS JOIN {VALUES}",
        followed=("id",),
    ),
    "larger": Query(
        ("id", "i"),
        lambda a, b, c: a.join(static(a), a.n > F.col("i")).select("id", "i", "v"),
        f"SELECT id, i, v FROM a JOIN {VALUES} ON a.n > i",
        followed=("id",),
    ),
}
