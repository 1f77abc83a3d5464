"""Step 4: what differs from what the view holds, by executors, from a result and a digest of each row held.

A difference is a file of its own, and at the same time a delta of what the view holds:

    v0, v1, …   the view's columns; of a key that is gone, the key alone
    h           a digest of the row
    gone        the key has no row any more
    times       how many rows of the result have this key: more than one is a mistake of the view's
    b           the batch
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.views.order import quoted
from headwater.views.tables.shared.net import EXACT
from headwater.views.tables.shared.pieces import Layout
from headwater.views.targets.contract import DELETED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ViewLayout:
    """The view's result, as it is kept."""

    result: StructType
    key: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"v{self.result.names.index(name)}" for name in self.key)

    @property
    def stored(self) -> StructType:
        """v0, v1, …; a column without a type has one, as files need it."""
        from pyspark.sql.types import NullType, StringType, StructField, StructType

        return StructType(
            [
                StructField(f"v{n}", StringType() if isinstance(kind, NullType) else kind)
                for n, kind in enumerate(each.dataType for each in self.result.fields)
            ]
        )

    @property
    def held(self) -> Layout:
        from pyspark.sql.types import StringType, StructField, StructType

        stored = self.stored
        fields = [stored[key] for key in self.keys]
        return Layout(StructType([*fields, StructField("h", StringType())]), self.keys)

    @property
    def columns(self) -> StructType:
        """Of a difference's file."""
        from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

        more = [("h", StringType()), ("gone", BooleanType()), ("times", LongType())]
        fields = [StructField(name, kind) for name, kind in (*more, ("b", LongType()))]
        return StructType([*self.stored.fields, *fields])

    def fresh(self, result: DataFrame) -> DataFrame:
        """A result under the names of files, with a digest of each row."""
        from pyspark.sql import functions as F  # noqa: N812

        named = result.toDF(*self.stored.names)
        own = [F.col(each.name).cast(each.dataType).alias(each.name) for each in self.stored.fields]
        stored = named.select(*own)
        return stored.withColumn("h", F.md5(F.to_json(F.struct("*"), EXACT)))

    def for_target(self, difference: DataFrame) -> DataFrame:
        """A difference as targets take it: the view's columns, and whether the key has no row any more."""
        from pyspark.sql import functions as F  # noqa: N812

        own = [
            F.col(f"v{n}").cast(each.dataType).alias(each.name)
            for n, each in enumerate(self.result.fields)
        ]
        return difference.select(*own, F.col("gone").alias(DELETED))

    def nothing_for_target(self, spark: SparkSession) -> DataFrame:
        return self.for_target(spark.createDataFrame([], self.columns))


def compared(
    result: DataFrame,
    held: DataFrame,
    view: ViewLayout,
    batch: int,
    touched: DataFrame | None,
    followed: Mapping[int, int],
) -> DataFrame:
    """What differs; with `touched`, of these keys alone; `followed`: which w of them is which k."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    keys = view.keys
    fresh = view.fresh(result)
    if touched is not None:
        pairs = [(f"w{w}", keys[k]) for w, k in followed.items()]
        fresh, held = (_among(each, touched, pairs) for each in (fresh, held))
    fresh = fresh.withColumn("times", F.count(F.lit(1)).over(Window.partitionBy(*keys)))
    old = held.select(*(F.col(key).alias(f"o{key}") for key in keys), F.col("h").alias("oh"))
    on = F.lit(True)
    for key in keys:
        on = on & F.col(key).eqNullSafe(F.col(f"o{key}"))
    both = fresh.join(old, on, "full")
    differs = both.where(~F.col("h").eqNullSafe(F.col("oh")) | (F.col("times") > 1))
    gone = F.col("h").isNull()
    shown = [
        (F.when(gone, F.col(f"o{name}")).otherwise(F.col(name)) if name in keys else F.col(name))
        .alias(name)
        for name in view.stored.names
    ]  # fmt: skip
    return differs.select(
        *shown, "h", gone.alias("gone"), "times", F.lit(batch).cast("long").alias("b")
    )


def counted(difference: DataFrame) -> tuple[int, int]:
    """How many rows differ, and how many of a result have one key at most."""
    from pyspark.sql import functions as F  # noqa: N812

    found = difference.agg(F.count("*"), F.max("times")).head()
    assert found is not None
    return int(found[0]), int(found[1] or 0)


def twice(difference: DataFrame, view: ViewLayout) -> tuple[object, ...] | None:
    """A key that two rows of the result have."""
    found = difference.where("times > 1").select(*map(quoted, view.keys)).head(1)
    return tuple(found[0]) if found else None


def _among(rows: DataFrame, touched: DataFrame, pairs: Sequence[tuple[str, str]]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    on = F.lit(True)
    for w, key in pairs:
        on = on & rows[key].eqNullSafe(touched[w])
    return rows.join(touched, on, "left_semi")
