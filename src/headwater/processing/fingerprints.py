"""The hash by which a Bloom filter knows a value: of a column in Spark, and of a value that is asked for.

Called by `jvm_sketches`. Filters are kept in views, so these must stay:

    column                          hash (xxhash64, seed 42) of
    BYTE, SHORT, INT, LONG          the number, as 64 bits: the same for every width
    FLOAT, DOUBLE, DECIMAL          a whole number within 64 bits: as above; others: the nearest DOUBLE
    STRING, BINARY                  the bytes (UTF-8)
    TIMESTAMP, TIMESTAMP_NTZ        microseconds since 1970, as 64 bits; without a zone: as if in UTC
    DATE, BOOLEAN                   days since 1970, and 0 or 1, as 32 bits
    the rest                        as Spark has it; these cannot be asked for
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from pyspark.sql import Column

Value = str | bytes | bool | int | float | Decimal | dt.date | dt.datetime
SEED = 42
_WHOLE_END = 2**63
_WHOLE_TEXT = r"^(-?\d+)(\.0*)?$"
_EPOCH = dt.datetime(1970, 1, 1)


class NotAsked(HeadwaterError):
    """A value of which no sketch can know."""


def fingerprint(column: str) -> Column:
    """Of each value of a column. Its type is not known here: Spark leaves only one branch of these."""
    from pyspark.sql import functions as F  # noqa: N812

    kind = F.typeof(column)
    text = F.col(column).cast("string")  # the only cast that is there for every type
    single = text.try_cast("float").cast("double")
    return (
        F.when(kind.isin("tinyint", "smallint", "int"), F.xxhash64(text.try_cast("bigint")))
        .when(kind == "float", _of_fraction(single))
        .when(kind == "double", _of_fraction(text.try_cast("double")))
        .when(kind.startswith("decimal"), _of_decimal(text))
        .otherwise(F.xxhash64(column))
    )


def _of_fraction(value: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    fits = (value >= -float(_WHOLE_END)) & (value < float(_WHOLE_END))
    whole = fits & (F.rint(value) == value)
    return F.when(whole, F.xxhash64(value.try_cast("bigint"))).otherwise(F.xxhash64(value))


def _of_decimal(text: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    whole = F.regexp_extract(text, _WHOLE_TEXT, 1).try_cast("bigint")
    fraction = _of_fraction(text.try_cast("double"))
    return F.when(whole.isNotNull(), F.xxhash64(whole)).otherwise(fraction)


def fingerprint_of(value: Value, jvm: Any) -> int:
    """Of one value, with Spark's own functions.

    Numbers are hashed by an object of the class: py4j finds a static method only where the JVM happens to
    name it before the instance's method of that name.
    """
    hashes = jvm.org.apache.spark.sql.catalyst.expressions.XXH64
    if isinstance(value, bool):
        return int(hashes(SEED).hashInt(int(value)))
    if isinstance(value, str | bytes | bytearray):
        raw = value.encode() if isinstance(value, str) else bytes(value)
        texts = jvm.org.apache.spark.unsafe.types.UTF8String
        return int(hashes.hashUTF8String(texts.fromBytes(raw), SEED))
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return int(hashes(SEED).hashInt((value - _EPOCH.date()).days))
    return int(hashes(SEED).hashLong(_bits(value, jvm)))


def _bits(value: Any, jvm: Any) -> int:
    """A number or a moment as 64 bits."""
    if isinstance(value, dt.datetime):
        wall = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return (wall - _EPOCH) // dt.timedelta(microseconds=1)
    if not isinstance(value, int | float | Decimal):
        raise NotAsked(
            f"a sketch cannot be asked for {type(value).__name__}",
            hint="ask for a text, a number, bytes, a date or a datetime, as the column has them",
        )
    for number in (value, float(value)):
        if -_WHOLE_END <= number < _WHOLE_END and number == int(number):
            return int(number)
    return int(jvm.java.lang.Double.doubleToLongBits(float(value)))
