"""What an aggregate of a sliding window needs of its column: by the column's type, in batch and live.

Called by `sliding_windows` while a query is built. The value is always a DOUBLE (counts: BIGINT):

    column                        total and mean are added up          minimum, maximum
    BYTE, SHORT, INT, LONG        exactly, and rounded once            by value
    DECIMAL                       exactly, and rounded once            by value
    FLOAT, DOUBLE                 in the order of time, as Spark does  by value; NaN is the largest
    TIMESTAMP, BOOLEAN            refused                              as numbers
    the rest                      refused                              refused

A mean is the total by the count. Events of one moment are added up from the smallest value on: Spark
itself has no order there, and fractions would come out differently each time. Zero has no sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.pipelines.errors import PipelineError
from headwater.processing.aggregates import Aggregate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec
    from pyspark.sql.types import DataType

KINDS = ("count", "total", "minimum", "maximum", "mean")
FRACTION, WHOLE, DECIMAL, PRESENCE = "fraction", "whole", "decimal", "presence"
_SENT = {FRACTION: "double", WHOLE: "bigint", DECIMAL: "string"}


@dataclass(frozen=True)
class Measure:
    """One aggregate over one column; it goes to the workers."""

    kind: str
    form: str
    """How its values are added up; of a count it only matters whether there are any."""
    scale: int = 0
    """Of decimals."""
    column: str | None = None

    @property
    def result(self) -> str:
        return "bigint" if self.kind == "count" else "double"

    @property
    def in_order(self) -> bool:
        """Whether it depends on the order in which events are added up."""
        return self.form == FRACTION and self.kind in ("total", "mean")

    # ---- live: what a worker gets ------------------------------------------------------------------

    def present(self) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return self._value().isNotNull() if self.column is not None else F.lit(True)

    def sent(self) -> Column:
        """Never null, as pandas would make fractions of whole numbers that are, and nulls of NaN."""
        from pyspark.sql import functions as F  # noqa: N812

        if self.form == PRESENCE:
            return F.lit(0).cast("bigint")
        value = self._value().cast(_SENT[self.form])
        nothing = F.lit("0" if self.form == DECIMAL else 0).cast(_SENT[self.form])
        return unsigned_zero(F.coalesce(value, nothing), self.form == FRACTION)

    # ---- in batch ----------------------------------------------------------------------------------

    def over(self, window: WindowSpec) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        value = self._value()
        if self.kind == "count":
            return F.count(value).over(window)
        if self.kind in ("minimum", "maximum"):
            best = F.min if self.kind == "minimum" else F.max
            return unsigned_zero(best(value).over(window).cast("double"))
        total = self._total().over(window).cast("double")
        if self.kind == "total":
            return total
        count = F.count(value).over(window)
        return F.when(count > 0, total / count)

    def order(self) -> Column:
        """For events of one moment."""
        return unsigned_zero(self._value().cast("double")).asc_nulls_first()

    def _total(self) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        if self.form == FRACTION:
            return F.sum(unsigned_zero(self._value().cast("double")))
        if self.form == WHOLE:
            return F.sum(
                self._value().cast("decimal(20,0)")
            )  # a sum of BIGINTs may be too large for one
        return F.try_sum(self._value())

    def _value(self) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.lit(1) if self.column is None else F.col(self.column)


def measure(name: str, aggregate: Aggregate, events: DataFrame) -> Measure:
    """For one aggregate; PipelineError says why there is none."""
    if aggregate.kind not in KINDS:
        raise PipelineError(
            f"{name}: a sliding window has count, sum, min, max and avg, and no sketches",
            hint="use tumbling or hopping windows for it",
        )
    if name.lower() in {each.lower() for each in events.columns}:
        raise PipelineError(
            f"{name}: the events have a column of this name already",
            hint="give the aggregate another one",
        )
    if aggregate.kind == "count":
        return Measure("count", PRESENCE, column=aggregate.column)
    assert aggregate.column is not None
    kind = events.select(aggregate.column).schema[0].dataType
    form, scale = _form(kind, aggregate.kind in ("minimum", "maximum"))
    if form is None:
        raise PipelineError(
            f"{name}: the {aggregate.kind} of {aggregate.column}, which is {kind.simpleString()}, "
            "is no number",
            hint="cast the column to a number before, or count it",
        )
    return Measure(aggregate.kind, form, scale, aggregate.column)


def _form(kind: DataType, compared: bool) -> tuple[str | None, int]:
    from pyspark.sql.types import (
        BooleanType,
        DecimalType,
        FractionalType,
        IntegralType,
        NumericType,
        TimestampType,
    )

    if compared:  # no two values change places when they become DOUBLE
        return (
            FRACTION if isinstance(kind, NumericType | BooleanType | TimestampType) else None
        ), 0
    if isinstance(kind, DecimalType):
        return DECIMAL, kind.scale
    if isinstance(kind, IntegralType):
        return WHOLE, 0
    return (FRACTION if isinstance(kind, FractionalType) else None), 0


def unsigned_zero(value: Column, fraction: bool = True) -> Column:
    """-0.0 and 0.0 are equal, and which of them a minimum finds is chance."""
    from pyspark.sql import functions as F  # noqa: N812

    return value + F.lit(0.0) if fraction else value
