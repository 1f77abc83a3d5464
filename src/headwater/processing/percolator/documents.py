"""Documents as the text that a worker indexes: every column type as tantivy takes it. In Spark's own plan.

Called by `matcher`. What an index has no value for becomes the nearest that gives the same answers, or
nothing that could be found:

    DATE, TIMESTAMP, TIMESTAMP_NTZ   a moment, without a zone as if in UTC; before 1677 and after 2262 the
                                     first and the last second, which no stored query may ask for
    FLOAT, DOUBLE, DECIMAL           a DOUBLE; infinite: the largest there is; NaN: nothing; -0.0: 0.0
    a list                           without its nulls; of lists: all that is in them
    a struct                         its fields by these rules; DATE and TIMESTAMP_NTZ stay words in it
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headwater.processing.percolator.fields import Fields
from headwater.processing.row_text import JSON, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

FIRST_S, LAST_S = -9_223_372_036, 9_223_372_036
"""Seconds since 1970 between which tantivy has dates, which are nanoseconds in 64 bits."""
_WRITTEN = {**JSON, "ignoreNullFields": "true"}


def document(row: StructType, fields: Fields) -> Column:
    """The columns that are searched, as one text."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [
        _top(F.col(quoted(name)), row[name].dataType, kind).alias(name)
        for name, kind in fields.kinds
    ]
    return F.to_json(F.struct(*columns), _WRITTEN) if columns else F.lit("{}")


def _top(column: Column, kind: DataType, field: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType

    if isinstance(kind, ArrayType):
        values = F.array_compact(column)
        if isinstance(kind.elementType, ArrayType):
            return _top(F.flatten(values), kind.elementType, field)
        element = kind.elementType
        return F.array_compact(F.transform(values, lambda each: _top(each, element, field)))
    if field == "date":
        return _moment(column, kind)
    if field == "float":
        return _number(column)
    return _within(column, kind)


def _within(column: Column, kind: DataType) -> Column:
    """A value in a struct."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import (
        ArrayType,
        DecimalType,
        FractionalType,
        MapType,
        StructType,
        TimestampType,
    )

    if isinstance(kind, TimestampType):
        return _moment(column, kind)
    if isinstance(kind, FractionalType) and not isinstance(kind, DecimalType):
        return _number(column)
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda each: _within(each, kind.elementType))
    if isinstance(kind, MapType):
        return F.transform_values(column, lambda _, value: _within(value, kind.valueType))
    if isinstance(kind, StructType) and kind.fields:
        fields = [
            _within(column.getField(each.name), each.dataType).alias(each.name)
            for each in kind.fields
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    return column


def _moment(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import DateType, TimestampNTZType

    start = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    if isinstance(kind, DateType):
        micros = F.unix_date(column) * F.lit(86_400_000_000)
    elif isinstance(kind, TimestampNTZType):
        micros = F.timestamp_diff("MICROSECOND", start, column)
    else:
        micros = F.unix_micros(column)
    first, last = F.lit(FIRST_S * 1_000_000), F.lit(LAST_S * 1_000_000)
    kept = F.when(micros < first, first).when(micros > last, last).otherwise(micros)
    return F.timestamp_micros(kept)


def _number(column: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    value = column.cast("double") + F.lit(0.0)
    most = F.lit(sys.float_info.max)
    return (
        F.when(F.isnan(value), F.lit(None))
        .when(value == F.lit(float("inf")), most)
        .when(value == F.lit(float("-inf")), -most)
        .otherwise(value)
    )
