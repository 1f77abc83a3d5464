"""The files of a state as DataFrames, and DataFrames to such files: all of it done by executors.

A base lies in buckets by a hash of the key, so that whoever looks for few keys reads few of them:

    data/9-77aa/t0/bucket=5/…parquet      a base: the table's columns
    data/17-4b1c/t0/…parquet              a delta: besides, `gone` and `b`, the batch
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.local_path import for_spark
from headwater.views.tables.shared.chain import DATA
from headwater.views.tables.shared.manifest import Folding, Piece, Pieces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

BUCKETS = 32
"""Part of what is stored: another number is another state."""


@dataclass(frozen=True)
class Layout:
    """What a base has of each row."""

    columns: StructType
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Files:
    """Where the files of a state are, and who reads and writes them."""

    spark: SparkSession
    folder: str

    def path(self, name: str) -> str:
        return f"{self.folder}/{DATA}/{name}"

    def read(self, names: Sequence[str], columns: StructType) -> DataFrame:
        if not names:
            return self.spark.createDataFrame([], columns)
        places = [for_spark(self.path(name)) for name in names]
        return self.spark.read.schema(columns).parquet(*places)

    def write(self, rows: DataFrame, name: str) -> None:
        rows.write.mode("error").parquet(self.path(name))

    # ---- a table ----------------------------------------------------------------------------------

    def rows(
        self, pieces: Pieces, layout: Layout, buckets: Collection[int] | None = None
    ) -> DataFrame:
        """All rows of a table, or at least those of some buckets."""
        names = layout.columns.names
        if not pieces.deltas:
            return self._base(pieces.base, layout, buckets)
        latest = self._latest(pieces.deltas, layout)
        there = latest.where("NOT gone").select(*names)
        if pieces.base is None:
            return there
        base = self._base(pieces.base, layout, buckets)
        return base.join(latest, matching(base, latest, layout.keys), "left_anti").union(there)

    def folded(self, pieces: Pieces, layout: Layout, attempt: str, name: str) -> Pieces:
        """The same table in fewer files, where that is due."""
        if pieces.due is Folding.NONE:
            return pieces
        place = f"{attempt}/{name}-{pieces.due.value}"
        if pieces.due is Folding.DELTAS:
            self.write(self._latest(pieces.deltas, layout), place)
            rows = self.read([place], layout.columns).count()
            return Pieces(pieces.base, (Piece(place, rows),))
        rows_now = self.rows(pieces, layout).withColumn("bucket", bucket(layout.keys))
        shared_out = rows_now.repartition(BUCKETS, "bucket")
        shared_out.write.mode("error").partitionBy("bucket").parquet(self.path(place))
        return Pieces(Piece(place, self.read([place], layout.columns).count()))

    def _base(
        self, piece: Piece | None, layout: Layout, buckets: Collection[int] | None
    ) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import IntegerType

        if piece is None:
            return self.read([], layout.columns)
        found = self.read([piece.name], _with(layout, bucket=IntegerType()))
        if buckets is not None and len(buckets) < BUCKETS:
            found = found.where(F.col("bucket").isin(*buckets))
        return found.select(*layout.columns.names)

    def _latest(self, deltas: Sequence[Piece], layout: Layout) -> DataFrame:
        """The last change of each key; a delta has none twice."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import BooleanType, LongType

        columns = _with(layout, gone=BooleanType(), b=LongType())
        found = self.read([piece.name for piece in deltas], columns)
        if len(deltas) == 1:
            return found
        last = found.groupBy(*layout.keys).agg(F.max_by(F.struct("*"), "b").alias("last"))
        return last.select("last.*")


def _with(layout: Layout, **more: DataType) -> StructType:
    from pyspark.sql.types import StructField, StructType

    added = [StructField(name, kind) for name, kind in more.items()]
    return StructType([*layout.columns.fields, *added])


def bucket(keys: Sequence[str]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.pmod(F.hash(*keys), F.lit(BUCKETS)).cast("int")


def matching(left: DataFrame, right: DataFrame, keys: Sequence[str]) -> Column:
    """Whether two rows have the same key; no value is the same as no value."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.lit(True)
    for key in keys:
        found = found & left[key].eqNullSafe(right[key])
    return found


def named(frame: DataFrame, prefix: str, names: Sequence[str]) -> DataFrame:
    """Columns under other names, and no others."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.select(*(F.col(name).alias(f"{prefix}{name}") for name in names))
