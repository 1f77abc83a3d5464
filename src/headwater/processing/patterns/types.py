"""How values travel between Spark and the machine: each column as a plain type that is never null there.

pandas turns whole numbers with gaps into floats. So nulls are sent as bits beside the columns, and times,
dates and intervals as microseconds; what the machine returns gets Spark's type again behind it.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

from headwater.processing.patterns.errors import PatternError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

DAY_US = 86_400_000_000
_WHOLE = ("tinyint", "smallint", "int", "bigint")


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
    if name == "timestamp":
        return F.coalesce(F.unix_micros(value), F.lit(0).cast("bigint"))
    if name == "date":
        return F.coalesce(F.unix_date(value).cast("bigint") * DAY_US, F.lit(0).cast("bigint"))
    if name.startswith("decimal"):
        return F.coalesce(value, F.lit(0).cast(kind))
    raise PatternError(
        f"{sql} is of type {name}, which cannot be compared with other rows",
        hint="make a plain column of it before `match`: a number, a text, a time",
    )


def wire(kind: DataType, name: str) -> str:
    """The type in which the machine returns a measure."""
    said = kind.simpleString()
    if said in _WHOLE or said in ("timestamp", "date") or said.startswith("interval day"):
        return "bigint"
    if said in ("float", "double"):
        return "double"
    if said in ("string", "boolean") or said.startswith("decimal"):
        return said
    if said == "void":
        return "string"
    if said.startswith("array<"):
        return f"array<{wire(kind.elementType, name)}>"  # type: ignore[attr-defined]
    raise PatternError(f"measures {name!r}: a result of type {said} is not possible")


def received(value: Column, kind: DataType) -> Column:
    """A measure with Spark's own type."""
    from pyspark.sql import functions as F  # noqa: N812

    said = kind.simpleString()
    if said == "timestamp":
        return F.timestamp_micros(value)
    if said == "date":
        return F.date_from_unix_date(F.floor(value / DAY_US).cast("int"))
    if said.startswith("interval day"):
        zero = F.lit(0)
        seconds = value.cast("decimal(20,0)") / F.lit(1_000_000).cast("decimal(7,0)")
        return F.make_dt_interval(zero, zero, zero, seconds.cast("decimal(18,6)"))
    if said.startswith("array<"):
        inner = kind.elementType  # type: ignore[attr-defined]
        return F.transform(value, lambda each: received(each, inner))
    return value.cast(kind)


def scale_of(kind: DataType) -> int | None:
    """How many decimals Spark expects of a value; None where it is no decimal."""
    return getattr(kind, "scale", None) if kind.simpleString().startswith("decimal") else None


def rounded(value: Any, scale: int) -> Any:
    if value is None:
        return None
    return Decimal(value).quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
