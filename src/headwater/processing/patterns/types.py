"""How values travel between Spark and the machine: each column as a plain type that is never null there.

pandas turns whole numbers with gaps into floats. So nulls are sent as bits beside the columns, and times,
dates and intervals as microseconds; what the machine returns gets Spark's type again behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.processing.patterns import numbers
from headwater.processing.patterns.errors import PatternError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

DAY_US = 86_400_000_000
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("timestamp", "timestamp_ntz", "date")
_EPOCH = "TIMESTAMP_NTZ '1970-01-01'"


def is_plain(type: str) -> bool:
    """Whether the machine compares values of this type as Spark does; a collated text is another type."""
    known = (*_TIMES, "string", "boolean", "void")
    return type in known or numbers.is_number(type) or numbers.is_day_time(type)


def sent(value: Column, kind: DataType, sql: str) -> Column:
    """A value as the machine takes it."""
    from pyspark.sql import functions as F  # noqa: N812

    name = kind.simpleString()
    if name in _WHOLE:
        return F.coalesce(value.cast("bigint"), F.lit(0).cast("bigint"))
    if name in ("float", "double"):
        return F.coalesce(value.cast("double"), F.lit(0.0))
    if name == "string":
        return F.coalesce(value, F.lit(""))
    if name == "boolean":
        return F.coalesce(value, F.lit(False))
    if name in _TIMES:
        return F.coalesce(_micros(value, name), F.lit(0).cast("bigint"))
    if name.startswith("decimal"):
        return F.coalesce(value, F.lit(0).cast(kind))
    raise PatternError(
        f"{sql} is of type {name}, which cannot be compared with other rows",
        hint="make a plain column of it before `match`: a number, a text, a time",
    )


def _micros(value: Column, name: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if name == "timestamp":
        return F.unix_micros(value)
    if name == "date":
        return F.unix_date(value).cast("bigint") * DAY_US
    # Not by way of a timestamp: an hour that daylight saving leaves out would be moved.
    seconds = (value - F.expr(_EPOCH)).cast("interval second").cast("decimal(20,6)")
    return (seconds * 1_000_000).cast("bigint")


def wire(kind: DataType, name: str) -> str:
    """The type in which the machine returns a measure."""
    said = kind.simpleString()
    if said in _WHOLE or said in _TIMES or numbers.is_day_time(said):
        return "bigint"
    # pandas takes NaN for null; as text, it is there.
    if said in ("float", "double", "void"):
        return "string"
    if said in ("string", "boolean") or said.startswith("decimal"):
        return said
    if said.startswith("array<"):
        return f"array<{wire(kind.elementType, name)}>"  # type: ignore[attr-defined]
    raise PatternError(f"measures {name!r}: a result of type {said} is not possible")


def as_text(kind: DataType) -> bool:
    """Whether what the machine returns for the type, or for its elements, is the text of a number."""
    return kind.simpleString() in ("float", "double", "array<float>", "array<double>")


def received(value: Column, kind: DataType) -> Column:
    """A measure with Spark's own type."""
    from pyspark.sql import functions as F  # noqa: N812

    said = kind.simpleString()
    if said == "timestamp":
        return F.timestamp_micros(value)
    if said == "timestamp_ntz":
        return F.expr(_EPOCH) + _interval(value)
    if said == "date":
        return F.date_from_unix_date(F.floor(value / DAY_US).cast("int"))
    if numbers.is_day_time(said):
        return _interval(value).cast(kind)
    if said.startswith("array<"):
        inner = kind.elementType  # type: ignore[attr-defined]
        return F.transform(value, lambda each: received(each, inner))
    return value.cast(kind)


def _interval(micros: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    zero = F.lit(0)
    seconds = micros.cast("decimal(20,0)") / F.lit(1_000_000).cast("decimal(7,0)")
    return F.make_dt_interval(zero, zero, zero, seconds.cast("decimal(18,6)"))
