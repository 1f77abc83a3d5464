"""A part of a JSON text (`after` in `payload`) as a row, read from the whole text with every digit.

Called by whoever decodes changes with Spark's own functions. Spark's `get_json_object`, and a column of type
STRING in `from_json`, write what they find anew: 123456789012345678.91 comes out as 1.2345678901234568E17. So
a part is never taken out as text and parsed again.

`from_json` also rounds: 1.239 becomes a DECIMAL(20,2) of 1.24. `is_broken` sees that by reading with more
digits behind the point, as many as 38 leave room for beside those in front of it; in a DECIMAL(38,s) ten
more, where those in front leave room for them. Beyond that it cannot be seen. And it takes 1e39 for an
infinite FLOAT, which a DOUBLE shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headwater.views.tables.spellings import is_misread, is_misread_alone, is_whole, reduced

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

BROKEN = "_headwater_broken"
PRECISION_MAX = 38
_MORE_DIGITS = 10
STRICT = {"enableDateTimeParsingFallback": "false"}
"""For `from_json`: else it takes "20261115" for so many days since 1970."""


def part(text: Column, path: Sequence[str], row: StructType, mode: str = "PERMISSIVE") -> Column:
    """The object at the path as a row; null where it is not there, or is broken."""
    from pyspark.sql import functions as F  # noqa: N812

    read = F.from_json(text, _around(path, row), {**STRICT, "mode": mode})
    for name in path:
        read = read[name]
    return read


def with_broken(text: Column, row: StructType) -> Column:
    """Text as a row, with a column more that says whether it is broken."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([*row.fields, StructField(BROKEN, StringType())])
    return F.from_json(text, schema, {**STRICT, "columnNameOfCorruptRecord": BROKEN})


def is_broken(text: Column, path: Sequence[str], row: StructType) -> Column:
    """Whether what is at the path is no such row: another thing, or with a decimal that would be rounded, a
    float that would become infinite, or what is misread for its spelling."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    wide = _widened(row)
    assert isinstance(wide, StructType)
    whole = found = with_broken(text, _around(path, wide))
    for name in path:
        found = found[name]
    lost = [_is_rounded(found, row, wide), _is_rounded_at_38(text, path, row)]
    broken = whole.isNull() | whole[BROKEN].isNotNull() | found.isNull()
    broken = broken | is_misread(text, _around(path, row))
    if (twice := has_key_twice(found, row)) is not None:
        broken = broken | twice
    for each in lost:
        broken = broken if each is None else broken | F.coalesce(each, F.lit(False))
    return broken


def is_altered(text: Column, path: Sequence[str], row: StructType) -> Column:
    """Whether Spark would read another row than is written at the path, where it reads one at all; of what is
    no JSON, either is said."""
    from pyspark.sql import functions as F  # noqa: N812

    altered = is_misread(text, _around(path, row)) | ~is_whole(text)
    if (doubt := may_be_rounded(text, row)) is not None:
        altered = altered | (doubt & is_broken(text, path, row))
    if (twice := has_key_twice(part(text, path, row), row)) is not None:
        altered = altered | twice
    return F.coalesce(altered, F.lit(False))


def is_altered_alone(text: Column, kind: DataType) -> Column:
    """Whether Spark would make another value of the type from a text that is no JSON."""
    from pyspark.sql import functions as F  # noqa: N812

    altered = is_misread_alone(text, kind)
    wide = _widened(kind)
    if (rounded := _is_rounded(text.try_cast(wide), kind, wide)) is not None:
        altered = altered | rounded
    if kind.typeName() in ("float", "double"):
        endless = F.abs(text.try_cast(kind)) == F.lit(float("inf"))
        altered = altered | (endless & text.rlike(r"\d"))
    return F.coalesce(altered, F.lit(False))


def _is_rounded_at_38(text: Column, path: Sequence[str], row: StructType) -> Column | None:
    """Whether a decimal that has all 38 digits would be rounded, read apart as others have room enough."""
    from pyspark.sql.types import DecimalType, StructType

    def full(kind: DataType) -> DecimalType | None:
        is_full = isinstance(kind, DecimalType) and kind.precision == PRECISION_MAX
        return kind if is_full and isinstance(kind, DecimalType) else None

    def finer(kind: DataType) -> DataType | None:
        scale = None if (found := full(kind)) is None else found.scale
        return None if scale is None else DecimalType(38, min(38, scale + _MORE_DIGITS))

    some, wide = reduced(row, full), reduced(row, finer)
    if not isinstance(some, StructType) or not isinstance(wide, StructType):
        return None
    return _is_rounded(part(text, path, wide), some, wide)


def has_key_twice(value: Column, kind: DataType) -> Column | None:
    """Whether some map in a value has a key twice: Spark keeps both, and no store can. None where there is no
    map in the type."""
    from pyspark.sql import functions as F  # noqa: N812

    found = _key_twice(value, kind)
    return None if found is None else F.coalesce(found, F.lit(False))


def _key_twice(value: Column, kind: DataType) -> Column | None:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        inside = [has_key_twice(value[each.name], each.dataType) for each in kind]
        known = [each for each in inside if each is not None]
        return F.greatest(F.lit(False), *known) if known else None
    if isinstance(kind, t.MapType):
        keys = F.map_keys(value)
        own = F.size(F.array_distinct(keys)) < F.size(keys)
        inner = _within(F.map_values(value), kind.valueType)
        return own if inner is None else own | inner
    return _within(value, kind.elementType) if isinstance(kind, t.ArrayType) else None


def _within(values: Column, kind: DataType) -> Column | None:
    from pyspark.sql import functions as F  # noqa: N812

    if _key_twice(F.lit(None), kind) is None:
        return None

    def twice(value: Column) -> Column:
        found = has_key_twice(value, kind)
        assert found is not None
        return found

    return F.exists(values, twice)


def may_be_rounded(text: Column, row: StructType) -> Column | None:
    """Whether to look at all: some number in the text has an exponent, or more digits behind the point than
    some decimal of the row, or as many as no float. None where the row has no decimal and no float."""
    looks = sorted(set(_suspicious(row)))
    return text.rlike("|".join([*looks, r"\d[eE]"])) if looks else None


def _suspicious(kind: DataType) -> Iterator[str]:
    from pyspark.sql import types as t

    if isinstance(kind, t.DecimalType):
        yield rf"\.\d{{{kind.scale + 1}}}"
    elif isinstance(kind, t.FloatType):
        yield r"\d{39}"
    elif isinstance(kind, t.StructType):
        for each in kind:
            yield from _suspicious(each.dataType)
    elif isinstance(kind, t.ArrayType | t.MapType):
        yield from _suspicious(
            kind.elementType if isinstance(kind, t.ArrayType) else kind.valueType
        )


def _around(path: Sequence[str], row: StructType) -> StructType:
    from pyspark.sql.types import StructField, StructType

    for name in reversed(path):
        row = StructType([StructField(name, row)])
    return row


def _widened(kind: DataType) -> DataType:
    """The type with as many digits behind the point as there is room for, to see what is written there."""
    from pyspark.sql import types as t

    if isinstance(kind, t.FloatType):
        return t.DoubleType()
    if isinstance(kind, t.DecimalType):
        return t.DecimalType(PRECISION_MAX, PRECISION_MAX - kind.precision + kind.scale)
    if isinstance(kind, t.StructType):
        return t.StructType(
            [t.StructField(each.name, _widened(each.dataType), each.nullable) for each in kind]
        )
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_widened(kind.elementType), kind.containsNull)
    if isinstance(kind, t.MapType):
        return t.MapType(kind.keyType, _widened(kind.valueType), kind.valueContainsNull)
    return kind


def _is_rounded(wide: Column, kind: DataType, wider: DataType) -> Column | None:
    """Whether a value of the wider type is none of the type itself; None where it always is one."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as t

    if isinstance(kind, t.DecimalType):
        # Back again: to compare two kinds of decimals Spark may need more digits than it has.
        return wide.isNotNull() & ~wide.eqNullSafe(wide.try_cast(kind).try_cast(wider))
    if isinstance(kind, t.FloatType):
        infinite = F.lit(float("inf"))
        return (F.abs(wide) < infinite) & (F.abs(wide.cast("float")) == infinite)
    if isinstance(kind, t.StructType):
        assert isinstance(wider, t.StructType)
        inside = [_is_rounded(wide[f.name], f.dataType, wider[f.name].dataType) for f in kind]
        known = [F.coalesce(each, F.lit(False)) for each in inside if each is not None]
        return F.greatest(F.lit(False), F.lit(False), *known) if known else None
    if isinstance(kind, t.ArrayType) and isinstance(wider, t.ArrayType):
        return _any(wide, kind.elementType, wider.elementType)
    if isinstance(kind, t.MapType) and isinstance(wider, t.MapType):
        return _any(F.map_values(wide), kind.valueType, wider.valueType)
    return None


def _any(values: Column, kind: DataType, wider: DataType) -> Column | None:
    from pyspark.sql import functions as F  # noqa: N812

    if _is_rounded(F.lit(None), kind, wider) is None:
        return None

    def rounded(value: Column) -> Column:
        found = _is_rounded(value, kind, wider)
        assert found is not None
        return F.coalesce(found, F.lit(False))

    return F.exists(values, rounded)
