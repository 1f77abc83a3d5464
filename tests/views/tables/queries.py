"""The views that the tests keep current, each with its key, in PySpark and in DuckDB's SQL.

Three tables: a (id, b, n, t), b (id, c, s), c (id, u); a.b names a row of b, b.c one of c. The SQL is an
answer from elsewhere, and quick: it lets many histories be tried without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = (
    "id BIGINT, b BIGINT, n INT, t STRING",
    "id BIGINT, c BIGINT, s STRING",
    "id BIGINT, u STRING",
)
"""The key of each is id."""


@dataclass(frozen=True)
class Query:
    key: tuple[str, ...]
    function: Callable[[DataFrame, DataFrame, DataFrame], DataFrame]
    sql: str
    followed: tuple[str, ...] | None = None
    """The key columns that are followed to the tables, where not all are."""


def _full(a: Any, b: Any, c: Any) -> Any:
    left = a.withColumnRenamed("id", "aid").withColumnRenamed("b", "k")
    return left.join(b.withColumnRenamed("id", "k"), "k", "full").select("k", "aid", "n", "s")


def _itself(a: Any, b: Any, c: Any) -> Any:
    x, y = a.alias("x"), a.alias("y")
    joined = x.join(y, F.col("x.b") == F.col("y.id"), "left")
    return joined.select(
        F.col("x.id").alias("id"), F.col("x.n").alias("n"), F.col("y.n").alias("m")
    )


def _followers(a: Any, b: Any, c: Any) -> Any:
    x, y = a.alias("x"), a.alias("y")
    joined = x.join(y, F.col("x.b") == F.col("y.id"))
    counted = joined.groupBy(F.col("y.id").alias("id"), F.col("y.t").alias("t"))
    return counted.agg(F.count("*").alias("count"), F.sum("x.n").alias("sum"))


def _summed(a: Any, b: Any, c: Any) -> Any:
    counted = a.groupBy("b").agg(F.sum("n").alias("sum"), F.count("*").alias("count"))
    return counted.where("count > 1")


def _totals(a: Any, b: Any, c: Any) -> Any:
    renamed = a.select(F.col("b").alias("k"), "n", "t", "id").alias("x")
    measures = [F.count("*").alias("rows"), F.count("n").alias("count"), F.sum("n").alias("sum")]
    measures += [F.avg("n").alias("mean"), F.max("n").alias("most"), F.min("t").alias("first")]
    return renamed.groupBy("k").agg(*measures, F.max("id").alias("last")).drop("last")


def _totals_by_two(a: Any, b: Any, c: Any) -> Any:
    counted = a.groupBy("t", "b").agg(F.sum("id").alias("sum"), F.min("n").alias("least"))
    return counted.select("sum", F.col("b").alias("k"), "t", "least")


def _by_name(a: Any, b: Any, c: Any) -> Any:
    joined = a.join(b, a.b == b.id)
    return joined.groupBy("s").agg(F.max("t").alias("t"), F.count("n").alias("n"))


def _each_b(a: Any, b: Any, c: Any) -> Any:
    joined = b.join(a, a.b == b.id, "left")
    return joined.groupBy(b.id, "s").agg(F.count(a.id).alias("count"))


def _sum_beside(a: Any, b: Any, c: Any) -> Any:
    sums = a.groupBy(F.col("b").alias("k")).agg(F.sum("n").alias("sum"))
    return b.join(sums, b.id == sums.k, "left").select("id", "s", "sum")


def _chain(how: str) -> Callable[[Any, Any, Any], Any]:
    def chained(a: Any, b: Any, c: Any) -> Any:
        found = a.join(b, a.b == b.id, how).join(c, b.c == c.id, how)
        return found.select(a.id, "n", "s", "u")

    return chained


def _spelt(a: Any, b: Any, c: Any) -> Any:
    named = a.withColumn("name", F.lower("t"))
    other = b.select(F.lower(F.col("s")).alias("other"), F.col("id").alias("bid"))
    return named.join(other, named.name == other.other).select("id", "bid", "name")


def _newest(a: Any, b: Any, c: Any) -> Any:
    window = Window.partitionBy("b").orderBy(F.desc_nulls_last("n"), "id")
    return a.withColumn("r", F.row_number().over(window)).where("r = 1").drop("r")


def _stacked(a: Any, b: Any, c: Any) -> Any:
    ours = a.select("id", F.lit("a").alias("kind"), F.col("t").alias("text"))
    return ours.union(b.select("id", F.lit("b"), "s")).where("text IS NOT NULL")


def _numbered(a: Any, b: Any, c: Any) -> Any:
    several = a.where("n > 0").select("id", F.explode(F.sequence(F.lit(1), "n")).alias("i"))
    return several.join(c, "id")


QUERIES: dict[str, Query] = {
    "filter": Query(("id",), lambda a, b, c: a.where("n > 2"), "SELECT * FROM a WHERE n > 2"),
    "inner": Query(
        ("id",),
        lambda a, b, c: a.join(b, a.b == b.id).select(a.id, "n", "s"),
        "SELECT a.id, n, s FROM a JOIN b ON a.b = b.id",
    ),
    "left": Query(
        ("id",),
        lambda a, b, c: a.join(b.select(b.id.alias("b"), "s"), "b", "left").select("id", "n", "s"),
        "SELECT a.id, n, s FROM a LEFT JOIN b ON a.b = b.id",
    ),
    "right": Query(
        ("b", "id"),
        lambda a, b, c: a.join(b.select(b.id.alias("b"), "s"), "b", "right"),
        "SELECT b.id AS b, a.id, n, t, s FROM a RIGHT JOIN b ON a.b = b.id",
        followed=("b",),
    ),
    "full": Query(
        ("k", "aid"),
        _full,
        "SELECT coalesce(a.b, b.id) AS k, a.id AS aid, n, s FROM a FULL JOIN b ON a.b = b.id",
        followed=("k",),
    ),
    "with more than equality": Query(
        ("id",),
        lambda a, b, c: a.join(b, (a.b == b.id) & (a.n > b.c), "left").select(a.id, "n", "s"),
        "SELECT a.id, n, s FROM a LEFT JOIN b ON a.b = b.id AND a.n > b.c",
    ),
    "lonely": Query(
        ("id",),
        lambda a, b, c: a.join(b.select(b.id.alias("k")), F.col("b") == F.col("k"), "left").where(
            "k IS NULL"
        ),
        "SELECT a.*, NULL::BIGINT AS k FROM a LEFT JOIN b ON a.b = b.id WHERE b.id IS NULL",
    ),
    "semi": Query(
        ("id",),
        lambda a, b, c: a.join(b, a.b == b.id, "left_semi"),
        "SELECT * FROM a WHERE EXISTS (FROM b WHERE a.b = b.id)",
    ),
    "anti": Query(
        ("id",),
        lambda a, b, c: a.join(b, a.b.eqNullSafe(b.c), "left_anti"),
        "SELECT * FROM a WHERE NOT EXISTS (FROM b WHERE a.b IS NOT DISTINCT FROM b.c)",
    ),
    "itself": Query(
        ("id",), _itself, "SELECT x.id, x.n, y.n AS m FROM a x LEFT JOIN a y ON x.b = y.id"
    ),
    "followers": Query(
        ("id", "t"),
        _followers,
        "SELECT y.id, y.t, count(*) AS count, sum(x.n) AS sum FROM a x JOIN a y ON x.b = y.id "
        "GROUP BY ALL",
    ),
    "union": Query(
        ("id", "kind"),
        _stacked,
        "SELECT * FROM (SELECT id, 'a' AS kind, t AS text FROM a UNION ALL "
        "SELECT id, 'b', s FROM b) WHERE text IS NOT NULL",
        followed=("id",),
    ),
    "aggregate": Query(
        ("b",),
        _summed,
        "SELECT b, sum(n) AS sum, count(*) AS count FROM a GROUP BY b HAVING count(*) > 1",
    ),
    "totals": Query(
        ("k",),
        _totals,
        "SELECT b AS k, count(*) AS rows, count(n) AS count, sum(n) AS sum, avg(n) AS mean, "
        "max(n) AS most, min(t) AS first FROM a GROUP BY b",
    ),
    "totals by two": Query(
        ("k", "t"),
        _totals_by_two,
        "SELECT sum(id) AS sum, b AS k, t, min(n) AS least FROM a GROUP BY b, t",
    ),
    "distinct": Query(
        ("b", "t"),
        lambda a, b, c: a.select("b", "t").distinct(),
        "SELECT DISTINCT b, t FROM a",
    ),
    "except": Query(
        ("id",),
        lambda a, b, c: b.select("id").subtract(a.select("b")),
        "SELECT id FROM b EXCEPT SELECT b FROM a",
    ),
    "join and aggregate": Query(
        ("s",),
        _by_name,
        "SELECT s, max(t) AS t, count(n) AS n FROM a JOIN b ON a.b = b.id GROUP BY s",
    ),
    "left join and aggregate": Query(
        ("id",),
        _each_b,
        "SELECT b.id, s, count(a.id) AS count FROM b LEFT JOIN a ON a.b = b.id GROUP BY ALL",
    ),
    "aggregate and join": Query(
        ("id",),
        _sum_beside,
        "SELECT b.id, s, sum FROM b LEFT JOIN (SELECT b, sum(n) AS sum FROM a GROUP BY b) x "
        "ON b.id = x.b",
    ),
    "three": Query(
        ("id",),
        _chain("inner"),
        "SELECT a.id, n, s, u FROM a JOIN b ON a.b = b.id JOIN c ON b.c = c.id",
    ),
    "three left": Query(
        ("id",),
        _chain("left"),
        "SELECT a.id, n, s, u FROM a LEFT JOIN b ON a.b = b.id LEFT JOIN c ON b.c = c.id",
    ),
    "three full": Query(
        ("id",),
        lambda a, b, c: a.join(b, "id", "full").join(c, "id", "full").select("id", "n", "s", "u"),
        "SELECT coalesce(a.id, b.id, c.id) AS id, n, s, u FROM a FULL JOIN b ON a.id = b.id "
        "FULL JOIN c ON coalesce(a.id, b.id) = c.id",
    ),
    "computed": Query(
        ("id", "bid"),
        _spelt,
        "SELECT a.id, b.id AS bid, lower(t) AS name FROM a JOIN b ON lower(t) = lower(s)",
    ),
    "window": Query(
        ("b",),
        _newest,
        "SELECT * FROM a QUALIFY row_number() OVER "
        "(PARTITION BY b ORDER BY n DESC NULLS LAST, id) = 1",
    ),
    "explode": Query(
        ("id", "i"),
        _numbered,
        "SELECT a.id, i, u FROM (SELECT id, unnest(range(1, n + 1))::INT AS i FROM a WHERE n > 0) a "
        "JOIN c ON a.id = c.id",
        followed=("id",),
    ),
}
