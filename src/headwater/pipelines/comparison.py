"""Two DataFrames of rows compared inside Spark: by checksums first, and only where these differ by row.

Called by `verify_job` with what a view must hold and what it holds. Each row has a hash, each key falls
into one of many ranges of its own hash. Ranges whose count and sums agree are equal; of the others, rows with
the same key are set side by side, and only those that differ leave Spark. Rows with one key are numbered and
meet number by number, so a second one is a row too many.

What floating-point numbers add up to depends on the order of the addition, which is Spark's own: where a view
aggregates, two of them that differ by no more than that (`ROUNDING`) are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.views import order
from headwater.views.operate.differences import Difference
from headwater.views.targets.contract import Kind, Shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

RANGES = 4096
NAMED_MOST = 100_000
"""Of more differences only the count is told."""
ROUNDING = {"double": 1e-9, "float": 1e-5}
"""As a part of the larger one."""
_HASH, _RANGE, _COPY = "_hash", "_range", "_copy"


class Comparison:
    """Both sides with their hashes, and what is found between them."""

    def __init__(
        self,
        expected: DataFrame,
        found: DataFrame,
        shape: Shape,
        aggregates: Callable[[], bool] = lambda: False,
    ) -> None:
        """`aggregates`: whether the view does; asked where something differs."""
        from pyspark import StorageLevel

        self.shape, self._aggregates = shape, aggregates
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
        self.has_copies = False
        """Whether some key has a further row."""
        if self.ranges:
            self._look_closer()

    def forget(self) -> None:
        self._expected.unpersist()

    def _as(self, expected: DataFrame) -> list[Any]:
        from pyspark.sql import functions as F  # noqa: N812

        return [
            F.col(order.quoted(f.name)).cast(f.dataType).alias(f.name)
            for f in expected.schema.fields
        ]

    def _hashed(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        names = [order.quoted(name) for name in self.columns]
        keys = [order.quoted(name) for name in self.key]
        of_key = F.pmod(_hash(frame, keys), F.lit(RANGES)).cast("int")
        return frame.select(*names, _hash(frame, names).alias(_HASH), of_key.alias(_RANGE))

    def _sums(self, frame: DataFrame) -> dict[int, tuple[int, ...]]:
        """Range → count of rows and sums of their hashes, in halves that cannot overflow."""
        from pyspark.sql import functions as F  # noqa: N812

        low = F.col(_HASH).bitwiseAND(F.lit(0xFFFFFFFF))
        sums = (F.count("*"), F.bit_xor(_HASH), F.sum(low), F.sum(F.shiftright(_HASH, 32)))
        return {row[0]: tuple(row[1:]) for row in frame.groupBy(_RANGE).agg(*sums).collect()}

    def _look_closer(self) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        one = self._numbered(self._expected).alias("e")
        other = self._numbered(self._found).alias("f")
        same = F.col(f"e.{_RANGE}") == F.col(f"f.{_RANGE}")
        same = same & (F.col(f"e.{_COPY}") == F.col(f"f.{_COPY}"))
        for mine, theirs in zip(self._keys("e."), self._keys("f."), strict=True):
            same = same & mine.eqNullSafe(theirs)
        joined = one.join(other, same, "full_outer")
        unlike = ~F.col(f"e.{_HASH}").eqNullSafe(F.col(f"f.{_HASH}"))
        if self._aggregates():
            unlike = unlike & ~F.coalesce(self._are_near(), F.lit(False))
        names = [order.quoted(name) for name in self.columns]
        pairs = joined.where(unlike).select(
            F.when(F.col(f"e.{_HASH}").isNotNull(), F.struct(*(f"e.{n}" for n in names))).alias(
                "e"
            ),
            F.when(F.col(f"f.{_HASH}").isNotNull(), F.struct(*(f"f.{n}" for n in names))).alias(
                "f"
            ),
            F.greatest(f"e.{_COPY}", f"f.{_COPY}").alias("copy"),
        )
        # A row that is missing is a null of fields that are never null, which PySpark refuses to take over.
        both: Any = pairs.schema.fields[:2]
        pairs = pairs.select(
            *(F.col(f.name).cast(f.dataType.toNullable()).alias(f.name) for f in both), "copy"
        )
        for row in _as_python(pairs.limit(NAMED_MOST + 1).toArrow()):
            self.differences.append(self._named(row["e"], row["f"]))
            self.has_copies |= row["copy"] > 1
        self.counts = Counter(each.kind for each in self.differences)
        self.differences.sort(key=lambda each: str(list(each.key.values())))
        if len(self.differences) > NAMED_MOST:
            whose = F.when(F.col("f").isNull(), "missing").when(F.col("e").isNull(), "extra")
            counted = pairs.groupBy(whose.otherwise("different").alias("kind")).count().collect()
            self.counts = Counter({row[0]: row[1] for row in counted})

    def _are_near(self) -> Column:
        """Whether a pair of rows is the same, but for how floating-point numbers were rounded."""
        from pyspark.sql import functions as F  # noqa: N812

        same = F.col(f"e.{_HASH}").isNotNull() & F.col(f"f.{_HASH}").isNotNull()
        for field in self._expected.schema.fields[: len(self.columns)]:
            one, other = (
                _ordered(F.col(f"{side}.{order.quoted(field.name)}"), field.dataType)
                for side in "ef"
            )
            alike = one.eqNullSafe(other)
            if (part := ROUNDING.get(field.dataType.simpleString())) is not None:
                largest = F.greatest(F.abs(one), F.abs(other))
                near = (largest < float("inf")) & (F.abs(one - other) <= largest * part)
                alike = alike | F.coalesce(near, F.lit(False))
            same = same & alike
        return same

    def _numbered(self, side: DataFrame) -> DataFrame:
        """The rows of the ranges that differ, those of one key from 1 on."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        of_key = Window.partitionBy(_RANGE, *self._keys()).orderBy(_HASH)
        rows = side.where(F.col(_RANGE).isin(self.ranges))
        return rows.withColumn(_COPY, F.row_number().over(of_key))

    def _keys(self, side: str = "") -> list[Any]:
        """The key's columns, such that they can be compared."""
        from pyspark.sql import functions as F  # noqa: N812

        kinds = {field.name: field.dataType for field in self._expected.schema.fields}
        return [_ordered(F.col(f"{side}{order.quoted(n)}"), kinds[n]) for n in self.key]

    def _named(self, expected: Any, found: Any) -> Difference:
        row = found if expected is None else expected
        return Difference({name: row[name] for name in self.key}, expected, found)


def _as_python(rows: pa.Table) -> list[dict[str, Any]]:
    """Times that Python does not have (before the year 1, after 9999) as texts."""
    from headwater.views.targets.json_rows import objects

    try:
        found: list[dict[str, Any]] = rows.to_pylist()
    except (OverflowError, ValueError):
        found = [row for batch in rows.to_batches() for row in objects(batch)]
    return found


def _hash(frame: DataFrame, names: list[str]) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    kinds = {order.quoted(field.name): field.dataType for field in frame.schema.fields}
    ordered = [(_ordered(F.col(name), kinds[name]), kinds[name]) for name in names]
    return F.xxhash64(*(part for column, kind in ordered for part in _spelled_out(column, kind)))


def _spelled_out(column: Any, kind: Any) -> list[Any]:
    """A value as parts that say all of it, whatever it is. Spark's hash passes over nulls, and goes through
    lists and structs without saying where one begins: of such values alone, ('x', null) and (null, 'x')
    would be the same, and so would [], [null] and null."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, MapType):  # as `_ordered` has it
        pair = [StructField("key", kind.keyType), StructField("value", kind.valueType)]
        return _spelled_out(column, ArrayType(StructType(pair)))
    if isinstance(kind, ArrayType):
        items = F.transform(column, lambda item: F.struct(*_spelled_out(item, kind.elementType)))
        return [F.coalesce(F.array_size(column), F.lit(-1)), items]
    if isinstance(kind, StructType):
        inner = [_spelled_out(column[field.name], field.dataType) for field in kind.fields]
        return [column.isNull(), *(part for parts in inner for part in parts)]
    return [column.isNull(), column]


def _ordered(column: Any, kind: Any) -> Any:
    """Maps have no order, and so neither a hash nor an equality: as a list of pairs by key they have, at any
    depth. Spark's hash takes -0.0 for 0.0, a text of it would not."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType

    if not _has_map(kind):
        return column
    if isinstance(kind, MapType):
        pairs = F.transform(
            F.map_entries(column),
            lambda pair: F.struct(
                pair["key"].alias("key"), _ordered(pair["value"], kind.valueType).alias("value")
            ),
        )
        return F.array_sort(pairs)
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda item: _ordered(item, kind.elementType))
    assert isinstance(kind, StructType), kind
    parts = [_ordered(column[f.name], f.dataType).alias(f.name) for f in kind.fields]
    return F.when(column.isNotNull(), F.struct(*parts))


def _has_map(kind: Any) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType)
