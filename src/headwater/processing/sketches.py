"""Sketches: what a window remembers of its events in a few kilobytes, mergeable, kept in views.

All of them are Spark's own. Each family has the same verbs; `sketch` and `merge` are aggregates, to be
used in `.agg(…)`, live or in batch; what they give is BINARY (`Top`: a struct) and can be a view's column.

    sketch(column)   events → sketch        merge(column)   sketches → sketch (of an hour: of a day)
    of(column)       events → the answer, in one line; the rest reads a sketch

Errors, with the sizes that are set by default, are in docs/analytics.md; each says its own below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headwater.processing.durations import Duration, micros
from headwater.processing.fingerprints import Value
from headwater.processing.jvm_sketches import bloom_aggregate, bloom_filter, count_min_sketch

if TYPE_CHECKING:
    from pyspark.sql import Column

ColumnOrName = Any


def rate(
    amount: ColumnOrName, window: ColumnOrName = "window", *, per: Duration = "1 second"
) -> Column:
    """An amount by the length of its window: events per second, or `per` something else."""
    from pyspark.sql import functions as F  # noqa: N812

    span = F.col(window) if isinstance(window, str) else window
    length = F.unix_micros(span["end"]) - F.unix_micros(span["start"])
    number = F.col(amount) if isinstance(amount, str) else amount
    return number * F.lit(float(micros(per))) / length


class Distinct:
    """How many different values: HyperLogLog. Relative standard error 0.83 / √2^lg_k (lg_k=12: 1.3 %)."""

    LG_K = 12

    @staticmethod
    def sketch(column: ColumnOrName, lg_k: int = LG_K) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.hll_sketch_agg(column, lg_k)

    @staticmethod
    def merge(sketch: ColumnOrName) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.hll_union_agg(sketch)

    @staticmethod
    def estimate(sketch: ColumnOrName) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.hll_sketch_estimate(sketch)

    @classmethod
    def of(cls, column: ColumnOrName, lg_k: int = LG_K) -> Column:
        return cls.estimate(cls.sketch(column, lg_k))


class Sets:
    """Different values of which sets can be compared: theta. Relative standard error 1 / √2^lg_k (1.6 %).

    Of an intersection or a difference the error is relative to the union, so of small ones large.
    """

    LG_K = 12

    @staticmethod
    def sketch(column: ColumnOrName, lg_k: int = LG_K) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.theta_sketch_agg(column, lg_k)

    @staticmethod
    def merge(sketch: ColumnOrName, lg_k: int = LG_K) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.theta_union_agg(sketch, lg_k)

    @staticmethod
    def estimate(sketch: ColumnOrName) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.theta_sketch_estimate(sketch)

    @staticmethod
    def both(one: ColumnOrName, other: ColumnOrName) -> Column:
        """In the one and in the other: who came back."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.theta_intersection(one, other)

    @staticmethod
    def without(one: ColumnOrName, other: ColumnOrName) -> Column:
        """In the one and not in the other: who stayed away."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.theta_difference(one, other)

    @classmethod
    def of(cls, column: ColumnOrName, lg_k: int = LG_K) -> Column:
        return cls.estimate(cls.sketch(column, lg_k))


class Percentiles:
    """Values at ranks: KLL. The rank of an answer is wrong by at most 1.65 % with k=200 (99 % confidence)."""

    K = 200

    @staticmethod
    def sketch(column: ColumnOrName, k: int = K) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.kll_sketch_agg_double(F.col(column).cast("double"), k)

    @staticmethod
    def merge(sketch: ColumnOrName, k: int = K) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.kll_merge_agg_double(sketch, k)

    @staticmethod
    def at(sketch: ColumnOrName, ranks: float | Sequence[float]) -> Column:
        """The value at a rank from 0 to 1, or an array of them for several."""
        from pyspark.sql import functions as F  # noqa: N812

        if isinstance(ranks, float | int):
            return F.kll_sketch_get_quantile_double(sketch, F.lit(float(ranks)))
        several = F.array(*(F.lit(float(each)) for each in ranks))
        return F.kll_sketch_get_quantile_double(sketch, several)

    @classmethod
    def of(cls, column: ColumnOrName, ranks: float | Sequence[float], k: int = K) -> Column:
        return cls.at(cls.sketch(column, k), ranks)


class Top:
    """The most frequent values, with how often: frequent items. A count is at most 3.5 N / size too high.

    N events, `size` values kept: with 10,000 and a million events, by 350.
    """

    SIZE = 10_000

    @staticmethod
    def sketch(column: str, size: int = SIZE) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.call_function("approx_top_k_accumulate", F.col(column), F.lit(size))

    @staticmethod
    def merge(sketch: str, size: int = SIZE) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.call_function("approx_top_k_combine", F.col(sketch), F.lit(size))

    @staticmethod
    def estimate(sketch: ColumnOrName, k: int = 10) -> Column:
        """An array of `item` and `count`, the most frequent first."""
        from pyspark.sql import functions as F  # noqa: N812

        named = F.col(sketch) if isinstance(sketch, str) else sketch
        return F.call_function("approx_top_k_estimate", named, F.lit(k))

    @classmethod
    def of(cls, column: str, k: int = 10, size: int = SIZE) -> Column:
        return cls.estimate(cls.sketch(column, size), k)


class Frequencies:
    """How often any value came: count-min. Never too low; too high by more than eps * N in 1 of 20 cases.

    `count` and `merge` read sketches that are out of Spark again, as a view's reader has them; they need a
    session that is no Spark Connect.
    """

    EPS, CONFIDENCE, SEED = 0.001, 0.95, 1

    @classmethod
    def sketch(
        cls, column: ColumnOrName, eps: float = EPS, confidence: float = CONFIDENCE
    ) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.count_min_sketch(column, eps, confidence, cls.SEED)

    @staticmethod
    def count(sketch: bytes, value: str | int | bytes) -> int:
        return count_min_sketch(sketch).count(value)

    @staticmethod
    def merge(*sketches: bytes) -> bytes:
        first, *others = map(count_min_sketch, sketches)
        return first.merged(others)


class Members:
    """Whether a value came: Bloom. Never says no of one that did; yes of others in `fpp` of the cases (3 %).

    `items` is how many different values are expected: with more, it says yes more often. Numbers are asked
    for by their value, whatever the width of the column; a TIMESTAMP by a datetime with a zone.
    """

    FPP = 0.03

    @staticmethod
    def sketch(column: str, items: int, fpp: float = FPP) -> Column:
        return bloom_aggregate(column, items, fpp)

    @staticmethod
    def contains(sketch: bytes, value: Value) -> bool:
        return bloom_filter(sketch).contains(value)

    @staticmethod
    def merge(*sketches: bytes) -> bytes:
        first, *others = map(bloom_filter, sketches)
        return first.merged(others)
