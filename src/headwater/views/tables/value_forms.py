"""A change's value in all of its forms, by one parse: Debezium's envelope, also in `payload`, or a row.

Called by `decoder`. What one parse does not decide is in doubt, and is read part by part there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.views.tables.json_parts import BROKEN, has_key_twice, may_be_rounded, with_broken
from headwater.views.tables.spellings import is_misread

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from headwater.views.tables.decoder import Table

ENVELOPE = ("op", "before", "after")
_OURS = (*ENVELOPE, "payload", "schema")


def may_be_quick(table: Table) -> bool:
    """Whether one parse can tell all forms of a value apart."""
    return not any(name.lower() in _OURS for name in table.row.names)


def parsed(table: Table) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return with_broken(F.col("value").cast("string"), forms(table))


def forms(table: Table) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    either = [
        *table.row.fields,
        StructField("op", StringType()),
        StructField("before", table.before),
        StructField("after", table.row),
    ]
    wrapped = [StructField("payload", StructType(either)), StructField("schema", StringType())]
    return StructType([*either, *wrapped])


def fits_one_parse(table: Table, number: int) -> Column:
    """Whether one parse has told all that a value says."""
    from pyspark.sql import functions as F  # noqa: N812

    parsed = F.col(f"parsed{number}")
    fits = parsed.isNotNull() & parsed[BROKEN].isNull()
    fits = fits & ~is_misread(F.col("value"), forms(table))
    if (doubt := may_be_rounded(F.col("value"), table.row)) is not None:
        fits = fits & ~doubt
    if (twice := has_key_twice(parsed, forms(table))) is not None:
        fits = fits & ~twice
    return fits


def from_forms(table: Table, parsed: Column) -> dict[str, Column]:
    from pyspark.sql import functions as F  # noqa: N812

    payload = parsed["payload"]
    # Debezium's converter says the schema beside; a row may have a column named payload by itself.
    wrapped = payload.isNotNull() & (parsed["schema"].isNotNull() | payload["op"].isNotNull())
    said = {name: F.when(wrapped, payload[name]).otherwise(parsed[name]) for name in ENVELOPE}
    plain = F.when(wrapped, F.struct(*(payload[name].alias(name) for name in table.row.names)))
    plain = plain.otherwise(F.struct(*(parsed[name].alias(name) for name in table.row.names)))
    return {**said, "plain": plain}
