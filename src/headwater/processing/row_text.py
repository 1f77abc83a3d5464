"""Rows as text, for operators whose state is Python's: packed before them, typed again behind.

pandas has no whole numbers that may be missing, no decimals and no structs; a JSON text carries them all
unchanged. Used by the joins with tables, the search on streams, sliding windows and corrections.

JSON has no map whose keys are not text: those travel as lists of their entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

# Spark writes three digits of a second unless told otherwise, and would lose microseconds; it writes no
# seconds of a zone's offset, which many had until 1937; and it leaves out the entries of maps that are null.
JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}
# Versions before wrote no or three digits of a TIMESTAMP_NTZ, and their state is read too.
_READ = {**JSON, "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][.SSS]"}


def packed(kind: StructType) -> Column:
    """The columns of these names and types as one text."""
    from pyspark.sql import functions as F  # noqa: N812

    if not kind.fields:
        return F.lit("{}")
    columns = [
        _turned(F.col(quoted(each.name)), each.dataType, back=False).alias(each.name)
        for each in kind.fields
    ]
    return F.to_json(F.struct(*columns), JSON)


def unpacked(text: str | Column, kind: StructType) -> Column:
    """The columns that a text was made of, as a struct; null where the text is."""
    from pyspark.sql import functions as F  # noqa: N812

    return _turned(F.from_json(text, _carrier(kind).json(), _READ), kind, back=True)


def quoted(name: str) -> str:
    """A column's name as Spark takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _carrier(kind: DataType) -> DataType:
    """What values of a type are in the text; the type itself where JSON has it."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    if isinstance(kind, ArrayType):
        return ArrayType(_carrier(kind.elementType))
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _carrier(each.dataType)) for each in kind.fields])
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return MapType(kind.keyType, _carrier(kind.valueType))
    if isinstance(kind, MapType):
        pair = [("key", _carrier(kind.keyType)), ("value", _carrier(kind.valueType))]
        return ArrayType(StructType([StructField(*each) for each in pair]))
    return kind


def _goes_as_it_is(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    if isinstance(kind, ArrayType):
        return _goes_as_it_is(kind.elementType)
    if isinstance(kind, StructType):
        return all(_goes_as_it_is(each.dataType) for each in kind.fields)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and _goes_as_it_is(kind.valueType)
    return True


def _turned(column: Column, kind: DataType, *, back: bool) -> Column:
    """A value of a type as its carrier, or back."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    if _goes_as_it_is(kind):
        return column
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda each: _turned(each, kind.elementType, back=back))
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return F.transform_values(column, lambda _, v: _turned(v, kind.valueType, back=back))
    if isinstance(kind, MapType):
        entries = F.transform(
            column if back else F.map_entries(column),
            lambda each: F.struct(
                _turned(each["key"], kind.keyType, back=back).alias("key"),
                _turned(each["value"], kind.valueType, back=back).alias("value"),
            ),
        )
        return F.map_from_entries(entries) if back else entries
    assert isinstance(kind, StructType)
    fields = [
        _turned(column.getField(each.name), each.dataType, back=back).alias(each.name)
        for each in kind.fields
    ]
    return F.when(column.isNotNull(), F.struct(*fields))


def key_text(names: Sequence[str]) -> Column:
    """The values of key columns as one text: equal where all of them are; null where one is null."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [F.col(quoted(name)) for name in names]
    if len(columns) == 1:
        return one_zero_text(columns[0])
    missing = columns[0].isNull()
    for each in columns[1:]:
        missing = missing | each.isNull()
    # By position: the two sides of a join may have other names for the same thing.
    array = F.to_json(F.array(*map(one_zero_text, columns)))
    return F.when(~missing, array)


def one_zero_text(column: Column) -> Column:
    """A value as text; 0.0 and -0.0 are equal, and so is their text."""
    from pyspark.sql import functions as F  # noqa: N812

    text = column.cast("string")
    is_zero = F.typeof(column).isin("float", "double") & (text == "-0.0")
    return F.when(is_zero, F.lit("0.0")).otherwise(text)
