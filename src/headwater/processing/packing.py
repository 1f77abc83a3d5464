"""Rows as text, for operators whose state is Python's: packed before them, typed again behind.

pandas has no whole numbers that may be missing, no decimals and no structs; a JSON text carries them all
unchanged. Used by the joins with tables and by the search on streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

# Spark writes three digits of a second unless told otherwise, and would lose microseconds.
_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def packed(names: Sequence[str]) -> Column:
    """These columns as one text."""
    from pyspark.sql import functions as F  # noqa: N812

    if not names:
        return F.lit("{}")
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in names)), _JSON)


def unpacked(text: str, kind: StructType) -> Column:
    """The columns that a text was made of, as a struct; null where the text is."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.from_json(F.col(text), _nullable(kind), _JSON)


def _nullable(kind: StructType) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(each.name, each.dataType) for each in kind.fields])


def key_text(names: Sequence[str]) -> Column:
    """The values of key columns as one text: equal where all of them are; null where one is null."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [F.col(f"`{name}`") for name in names]
    if len(columns) == 1:
        return columns[0].cast("string")
    missing = columns[0].isNull()
    for each in columns[1:]:
        missing = missing | each.isNull()
    # By position: the two sides of a join may have other names for the same thing.
    array = F.to_json(F.array(*(each.cast("string") for each in columns)))
    return F.when(~missing, array)
