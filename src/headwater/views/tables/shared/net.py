"""Step 1: the changes of a batch to the rows that really change, each as it was and as it is.

The rules are those of `views.tables.net_changes`, which says them; here they are DataFrames. What comes out
is a delta of the table's state and says besides

    was         the key had a row; was_c0, … what it was
    same        that is said again, only its time is new
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.views.tables.shared.pieces import Layout, matching, named

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

PLACE = ("p", "ts")
EXACT = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""JSON that is another text for every other value."""


def net(changes: DataFrame, rows: DataFrame, layout: Layout, batch: int) -> DataFrame:
    """What changes in a table with these rows; they must have all of the changed keys and, where a partition
    was emptied, all of its rows."""
    from pyspark.sql import functions as F  # noqa: N812

    names = layout.columns.names
    emptied = changes.where("emptied").groupBy("p").agg(F.max("o").alias("until"))
    known = rows.join(emptied, "p", "left_anti")
    latest = _latest(_steps(changes, layout, emptied), known, layout)
    # A row that a truncate has removed, and nothing has brought back.
    left = rows.join(emptied, "p", "left_semi")
    left = left.join(latest, matching(left, latest, layout.keys), "left_anti")
    latest = latest.unionByName(left.withColumn("gone", F.lit(True)))
    old = named(rows, "was_", names).withColumn("was", F.lit(True))
    on = F.lit(True)
    for key in layout.keys:
        on = on & (F.col(key) == F.col(f"was_{key}"))
    both = latest.join(old, on, "left").withColumn("was", F.coalesce("was", F.lit(False)))
    said_again = F.col("was") & ~F.col("gone") & (F.col("p") == F.col("was_p"))
    for field in _own(layout.columns):
        said_again = said_again & exactly(F.col(field.name), field.dataType).eqNullSafe(
            exactly(F.col(f"was_{field.name}"), field.dataType)
        )
    marked = both.withColumn("same", F.coalesce(said_again, F.lit(False)))
    return marked.where(_counts()).withColumn("b", F.lit(batch).cast("long"))


def before(found: DataFrame, layout: Layout) -> DataFrame:
    """The rows that change, as they were."""
    from pyspark.sql import functions as F  # noqa: N812

    names = layout.columns.names
    return found.where("was AND NOT same").select(*(F.col(f"was_{n}").alias(n) for n in names))


def after(found: DataFrame, layout: Layout) -> DataFrame:
    """The rows that change, as they are."""
    return found.where("NOT gone AND NOT same").select(*layout.columns.names)


def exactly(column: Column, kind: DataType) -> Column:
    """What is the same for two values only if they are one: Spark finds both zeros equal, and cannot compare
    maps."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType | t.ArrayType | t.MapType):
        return F.to_json(column, EXACT)
    if isinstance(kind, t.FloatType | t.DoubleType):
        return column.cast("string")
    return column


def delta_columns(columns: StructType) -> StructType:
    """Of what `net` gives."""
    from pyspark.sql.types import BooleanType, LongType, StructField, StructType

    marks = [StructField(name, BooleanType()) for name in ("gone", "was", "same")]
    old = [StructField(f"was_{each.name}", each.dataType) for each in columns.fields]
    return StructType([*columns.fields, *marks, *old, StructField("b", LongType())])


def _steps(changes: DataFrame, layout: Layout, emptied: DataFrame) -> DataFrame:
    """What happened to which key, after the last truncate: where a row moved, its old key goes first."""
    from pyspark.sql import functions as F  # noqa: N812

    fields = [each for each in layout.columns.fields if each.name not in PLACE]
    place = [F.col(name) for name in ("p", "o", "ts")]
    own = changes.where("NOT emptied").select(
        *(F.col(each.name) for each in fields), "gone", *place, F.lit(1).alias("step")
    )
    old = {key: F.col(f"m{n}") for n, key in enumerate(layout.keys)}
    left = [old.get(each.name, F.lit(None)).cast(each.dataType).alias(each.name) for each in fields]
    moved = changes.where("m0 IS NOT NULL").select(
        *left, F.lit(True).alias("gone"), *place, F.lit(0).alias("step")
    )
    steps = own.union(moved).join(emptied, "p", "left")
    return steps.where("until IS NULL OR o > until").drop("until")


def _latest(steps: DataFrame, known: DataFrame, layout: Layout) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    names = [each.name for each in _own(layout.columns)]
    row = F.struct(*names, "gone")
    # In a partition the offset is the order; between several the latest time that each has said.
    last = F.max_by(row, F.struct("o", "step")).alias("row")
    found = steps.groupBy(*layout.keys, "p").agg(last, F.max("ts").alias("ts"))
    there = named(known.select(*layout.keys, *PLACE), "known_", [*layout.keys, *PLACE])
    on = F.col("p") == F.col("known_p")
    for key in layout.keys:
        on = on & (F.col(key) == F.col(f"known_{key}"))
    later = F.greatest("ts", "known_ts").alias("ts")
    timed = found.join(there, on, "left").select(*layout.keys, "row", "p", later)
    whole = F.max_by(F.struct("row", "p", "ts"), F.struct("ts", "p")).alias("last")
    chosen = timed.groupBy(*layout.keys).agg(whole).select("last.*")
    return chosen.select(*(f"row.{name}" for name in names), "p", "ts", "row.gone")


def _counts() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    p, ts, was_p, was_ts = (F.col(name) for name in ("p", "ts", "was_p", "was_ts"))
    older = (was_p != p) & ((ts < was_ts) | (ts == was_ts) & (p < was_p))
    newer = ~F.col("same") | was_ts.isNull() | (ts > was_ts)
    return F.when(older, False).when(F.col("gone"), F.col("was")).otherwise(newer)


def _own(columns: StructType) -> list[StructField]:
    return [each for each in columns.fields if each.name not in PLACE]
