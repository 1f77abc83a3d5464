"""Aggregates that can be put together: what a window keeps of its events, and how two such become one.

`aggregate` takes them by name. Each has three steps, all of them Spark's own expressions:

    partial   events → what is kept         count(1), sum(x), a sketch
    merged    several of these → one        for corrections: the first result and what came late
    finished  what is kept → the value      an estimate, a quotient

They are named as Spark's, and so some hide Python's own: nothing here uses those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.processing.sketches import Distinct, Percentiles

if TYPE_CHECKING:
    from pyspark.sql import Column


def _as_it_is(value: Column) -> Column:
    return value


@dataclass(frozen=True)
class Aggregate:
    """One aggregate; made by `count`, `sum`, `min`, `max`, `avg` and the others below."""

    partial: Callable[[], Column]
    merge: Callable[[Column, Column], Column]
    """Two partial values, neither of them null."""
    finished: Callable[[Column], Column] = _as_it_is
    kind: str = ""
    """For `sliding`, which computes some of them itself."""
    column: str | None = None

    def merged(self, partials: Column, kind: str) -> Column:
        """Of an array of partial values of one type; null where all of them are."""
        from pyspark.sql import functions as F  # noqa: N812

        def merge(one: Column, other: Column) -> Column:
            if self.kind == "total" and kind.startswith("decimal(38,"):
                return _wide_sum(one, other, kind)
            return self.merge(one, other).cast(kind)  # the sum of two decimals is a wider one

        there = F.filter(partials, lambda each: each.isNotNull())
        rest = F.slice(there, F.lit(2), F.greatest(F.size(there) - 1, F.lit(0)))
        return F.when(F.size(there) > 0, F.reduce(rest, F.get(there, F.lit(0)), merge))


def _wide_sum(one: Column, other: Column, kind: str) -> Column:
    """Of decimals with as many digits as there can be: Spark would make room for one more before the point,
    and drop the last behind it. Without a point there is none to drop.
    """
    from pyspark.sql import functions as F  # noqa: N812

    scale = int(kind.rstrip(")").split(",")[1])

    def moved(value: Column, digits: int) -> Column:
        return F.concat(value.cast("string"), F.lit(f"E{digits}"))

    whole = [moved(each, scale).cast("decimal(38,0)") for each in (one, other)]
    return moved(whole[0] + whole[1], -scale).cast(kind)


def count(column: str | None = None) -> Aggregate:
    """How many events there are; with a column, how many have a value in it."""

    def partial() -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.count(F.lit(1) if column is None else F.col(column))

    return Aggregate(partial, lambda one, other: one + other, kind="count", column=column)


def sum(column: str) -> Aggregate:
    """The sum. Of floating-point numbers the last digits depend on their order, as always in Spark."""

    def partial() -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.sum(column)

    return Aggregate(partial, lambda one, other: one + other, kind="total", column=column)


def min(column: str) -> Aggregate:
    """The smallest value."""
    return _extreme(column, "minimum", "min", "least")


def max(column: str) -> Aggregate:
    """The largest value."""
    return _extreme(column, "maximum", "max", "greatest")


def _extreme(column: str, kind: str, of_all: str, of_two: str) -> Aggregate:
    def partial() -> Column:
        return _spark(of_all)(column)

    def merge(one: Column, other: Column) -> Column:
        return _spark(of_two)(one, other)

    return Aggregate(partial, merge, kind=kind, column=column)


def _spark(name: str) -> Callable[..., Column]:
    from pyspark.sql import functions

    found: Callable[..., Column] = getattr(functions, name)
    return found


def avg(column: str) -> Aggregate:
    """The mean; `mean` is the same, as in Spark."""

    def partial() -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.struct(F.sum(F.col(column).cast("double")).alias("s"), F.count(column).alias("n"))

    def merge(one: Column, other: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        added = F.coalesce(one["s"] + other["s"], one["s"], other["s"])
        return F.struct(added.alias("s"), (one["n"] + other["n"]).alias("n"))

    def finished(kept: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.when(kept["n"] > 0, kept["s"] / kept["n"])

    return Aggregate(partial, merge, finished, kind="mean", column=column)


mean = avg


def approx_count_distinct(column: str, *, lg_k: int = Distinct.LG_K) -> Aggregate:
    """About how many different values there are (`Distinct`)."""

    def merge(one: Column, other: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.hll_union(one, other)

    return Aggregate(lambda: Distinct.sketch(column, lg_k), merge, Distinct.estimate)


def approx_percentile(
    column: str, ranks: float | Sequence[float], *, k: int = Percentiles.K
) -> Aggregate:
    """About the values at these ranks, from 0 to 1 (`Percentiles`)."""

    def merge(one: Column, other: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.kll_sketch_merge_double(one, other)

    return Aggregate(
        lambda: Percentiles.sketch(column, k), merge, lambda kept: Percentiles.at(kept, ranks)
    )
