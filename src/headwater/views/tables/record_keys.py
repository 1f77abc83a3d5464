"""The key columns of a row from a record's key: JSON, Debezium's JSON with a schema, or plain text.

Asked by whoever decodes changes, for rows that are deleted: nothing else says then which row it was. A key
that Spark would read as another one says nothing, since another row would be deleted by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.views.tables.json_parts import is_altered, is_altered_alone, part

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType


def key_row(text: Column, wanted: StructType) -> Column:
    """The columns that the key is made of; null, or with nulls, where the text does not say them."""
    from pyspark.sql import functions as F  # noqa: N812

    # Never the payload taken out as text: that writes a decimal anew, with fewer digits.
    wrapped = F.get_json_object(text, "$.payload").startswith("{")
    parsed = F.when(wrapped, _exactly(text, ("payload",), wanted))
    parsed = parsed.otherwise(_exactly(text, (), wanted))
    if len(wanted) > 1:
        return parsed
    (only,) = wanted.fields
    plain = F.struct(_plain(text, only.dataType).alias(only.name))
    return F.when(text.startswith("{"), parsed).otherwise(plain)


def one_zero(key: Column, kind: DataType) -> Column:
    """Both zeros are one key, as where Spark groups and joins."""
    from pyspark.sql import functions as F  # noqa: N812

    if kind.typeName() not in ("float", "double"):
        return key
    return F.when(key == F.lit(0), F.lit(0.0).cast(kind)).otherwise(key)


def _exactly(text: Column, path: Sequence[str], wanted: StructType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.when(~is_altered(text, path, wanted), part(text, path, wanted))


def _plain(text: Column, kind: DataType) -> Column:
    """One value: as its text, which may stand in quotes, and then with JSON's escapes."""
    from pyspark.sql import functions as F  # noqa: N812

    items = F.from_json(F.concat(F.lit("["), text, F.lit("]")), "ARRAY<STRING>")
    is_escaped = text.startswith('"') & text.contains("\\") & (F.size(items) == 1)
    said = F.when(is_escaped, items[0]).otherwise(F.trim(text, F.lit('"')))
    return F.when(~is_altered_alone(said, kind), said.try_cast(kind))
