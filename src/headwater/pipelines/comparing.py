"""Two DataFrames of rows compared inside Spark: by checksums first, and only where these differ by row.

Called by `verifying` with what a view must hold and what it holds. Each row has a hash, each key falls into
one of many ranges of its own hash. Ranges whose count and sums agree are equal; of the others, rows with
the same key are set side by side, and only those that differ leave Spark.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from headwater.views import ordering
from headwater.views.target import Kind, Shape
from headwater.views.verifying import Difference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RANGES = 4096
NAMED_MOST = 100_000
"""Of more differences only the count is told."""
_HASH, _RANGE = "_hash", "_range"


class Comparison:
    """Both sides with their hashes, and what is found between them."""

    def __init__(self, expected: DataFrame, found: DataFrame, shape: Shape) -> None:
        from pyspark import StorageLevel

        self.shape = shape
        self.columns = expected.columns
        appended = shape.kind is Kind.APPEND
        self.key = tuple(shape.schema.names) if appended else shape.key
        self._expected = self._hashed(expected).persist(StorageLevel.MEMORY_AND_DISK)
        self._found = self._hashed(found.select(*self._as(expected)))
        here, there = self._sums(self._expected), self._sums(self._found)
        self.rows = sum(count for count, *_ in here.values())
        self.found_rows = sum(count for count, *_ in there.values())
        self.ranges = sorted(r for r in here.keys() | there.keys() if here.get(r) != there.get(r))
        self.counts: Counter[str] = Counter()
        self.differences: list[Difference] = []
        if self.ranges:
            self._look_closer()

    def forget(self) -> None:
        self._expected.unpersist()

    def _as(self, expected: DataFrame) -> list[Any]:
        from pyspark.sql import functions as F  # noqa: N812

        return [
            F.col(ordering.quoted(f.name)).cast(f.dataType).alias(f.name)
            for f in expected.schema.fields
        ]

    def _hashed(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        names = [ordering.quoted(name) for name in self.columns]
        keys = [ordering.quoted(name) for name in self.key]
        of_key = F.pmod(F.xxhash64(*_hashable(frame, keys)), F.lit(RANGES)).cast("int")
        return frame.select(
            *names, F.xxhash64(*_hashable(frame, names)).alias(_HASH), of_key.alias(_RANGE)
        )

    def _sums(self, frame: DataFrame) -> dict[int, tuple[int, ...]]:
        """Range → count of rows and sums of their hashes, in halves that cannot overflow."""
        from pyspark.sql import functions as F  # noqa: N812

        low = F.col(_HASH).bitwiseAND(F.lit(0xFFFFFFFF))
        sums = (F.count("*"), F.bit_xor(_HASH), F.sum(low), F.sum(F.shiftright(_HASH, 32)))
        return {row[0]: tuple(row[1:]) for row in frame.groupBy(_RANGE).agg(*sums).collect()}

    def _look_closer(self) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        one = self._expected.where(F.col(_RANGE).isin(self.ranges)).alias("e")
        other = self._found.where(F.col(_RANGE).isin(self.ranges)).alias("f")
        same = F.col(f"e.{_RANGE}") == F.col(f"f.{_RANGE}")
        for name in self.key:
            quoted = ordering.quoted(name)
            same = same & F.col(f"e.{quoted}").eqNullSafe(F.col(f"f.{quoted}"))
        joined = one.join(other, same, "full_outer")
        unlike = ~F.col(f"e.{_HASH}").eqNullSafe(F.col(f"f.{_HASH}"))
        names = [ordering.quoted(name) for name in self.columns]
        pairs = joined.where(unlike).select(
            F.when(F.col(f"e.{_HASH}").isNotNull(), F.struct(*(f"e.{n}" for n in names))).alias(
                "e"
            ),
            F.when(F.col(f"f.{_HASH}").isNotNull(), F.struct(*(f"f.{n}" for n in names))).alias(
                "f"
            ),
        )
        for row in pairs.limit(NAMED_MOST + 1).toArrow().to_pylist():
            self.differences.append(self._named(row["e"], row["f"]))
        self.counts = Counter(each.kind for each in self.differences)
        self.differences.sort(key=lambda each: str(list(each.key.values())))
        if len(self.differences) > NAMED_MOST:
            kinds = F.when(F.col("f").isNull(), "missing").when(F.col("e").isNull(), "extra")
            counted = pairs.groupBy(kinds.otherwise("different").alias("kind")).count().collect()
            self.counts = Counter({row[0]: row[1] for row in counted})

    def _named(self, expected: Any, found: Any) -> Difference:
        row = found if expected is None else expected
        return Difference({name: row[name] for name in self.key}, expected, found)


def _hashable(frame: DataFrame, names: list[str]) -> list[Any]:
    """Maps have no order, and therefore no hash: their text, by key, has."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import MapType

    kinds = {ordering.quoted(field.name): field.dataType for field in frame.schema.fields}
    return [
        F.to_json(F.map_from_entries(F.array_sort(F.map_entries(n))))
        if isinstance(kinds[n], MapType)
        else F.col(n)
        for n in names
    ]
