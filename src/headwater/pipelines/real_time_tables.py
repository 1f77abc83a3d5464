"""Changes of a table at real-time speed, where Spark runs no Python: nothing can be put away, nor planned
in steps. Called by `tables`, in place of `headwater.views.tables`.

Understood are Debezium's envelope (also inside `payload`) and plain rows, where a record without a value
deletes the key. A value that is no JSON of the schema stops the query, and so does one that Spark would read
as another, a key that says no row, and what one row for each record cannot tell: a truncate, and a row that
moves to another key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.pipelines.sources import OF_THE_RECORD, exactly
from headwater.views.tables.record_keys import key_row, one_zero

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

CHANGE = ("_op", "_deleted", "_before")
MARKS = (*CHANGE, *OF_THE_RECORD)
"""Columns that say something about a record and are no part of its row."""
DELETED = "_deleted"


def decoded(records: DataFrame, row: StructType, key: tuple[str, ...]) -> DataFrame:
    """Records with Kafka's columns as changes of rows of type `row`; what is none is an error."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    read = _read(records)
    empties = F.lit("op" not in row.names) & ~F.col("_envelope") & (F.col("_said") == "t")
    typed = read.select(
        "*",
        F.when(empties, _refused("a truncate").cast("string"))
        .when(F.col("_value").isNull(), F.lit("d"))
        .otherwise(F.when(F.col("_envelope"), F.col("_said")).otherwise(F.lit("u")))
        .alias("_op"),
        F.when(F.col("_envelope"), F.when(F.col("_has_after"), _typed("after", row)))
        .otherwise(_typed("", row))
        .alias("_after"),
        F.when(F.col("_envelope") & F.col("_has_before"), _typed("before", row)).alias("_before"),
        key_row(F.col("_text"), StructType([row[name] for name in key])).alias("_key_row"),
    ).withColumn(DELETED, F.col("_op") == F.lit("d"))
    moved = F.lit(False)
    for name in key:
        before, after = F.col("_before")[name], F.col("_after")[name]
        moved = moved | (before.isNotNull() & ~before.eqNullSafe(after))
    moved = F.coalesce(~F.col(DELETED) & moved, F.lit(False))
    rows = [_field(name, key, row) for name in row.names]
    keyless = F.lit(False)
    for each in (each for each, name in zip(rows, row.names, strict=True) if name in key):
        keyless = keyless | each.isNull()
    # In a column that every view has, since a filter would look like one of the view's own.
    gone = F.when(moved, _refused("a change of a row's key").cast("boolean"))
    gone = gone.when(
        F.col("_op").isNotNull() & keyless,
        _refused("a record that does not say its key").cast("boolean"),
    )
    gone = gone.otherwise(F.col(DELETED))
    rows = [each.alias(name) for each, name in zip(rows, row.names, strict=True)]
    marks = [gone.alias(name) if name == DELETED else F.col(name) for name in MARKS]
    return typed.select(*rows, *marks)


def _read(records: DataFrame) -> DataFrame:
    """The record's marks, the texts of its key and its value, and which parts the value has."""
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col("value").cast("string")
    payload, beside = (F.get_json_object(value, f"$.{name}") for name in ("payload", "schema"))
    # Debezium's converter says the schema beside; a row may have a column named payload by itself.
    by_op = F.get_json_object(payload, "$.op").isNotNull()
    wrapped = payload.startswith("{") & (beside.isNotNull() | by_op)
    op, before, after = (
        F.when(wrapped, F.get_json_object(value, f"$.payload.{name}")).otherwise(
            F.get_json_object(value, f"$.{name}")
        )
        for name in ("op", "before", "after")
    )
    return records.select(
        F.try_validate_utf8(F.col("key").cast("string")).alias("_text"),
        F.col("key").alias("_key"),
        value.alias("_value"),
        F.coalesce(wrapped, F.lit(False)).alias("_wrapped"),
        (op.isNotNull() & (before.isNotNull() | after.isNotNull())).alias("_envelope"),
        op.alias("_said"),
        before.isNotNull().alias("_has_before"),
        after.isNotNull().alias("_has_after"),
        *(F.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset", "timestamp")),
    )


def _refused(what: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    said = f": {what} cannot be followed at real-time speed; leave out speed="
    return F.raise_error(F.concat(F.col("_topic"), F.lit(said)))


def _typed(name: str, row: StructType) -> Column:
    return _where(name, lambda path: exactly("_value", path, row, "_"))


def _where(name: str, read: Callable[[tuple[str, ...]], Column]) -> Column:
    """What `read` makes of a part of the value, which may stand inside `payload`."""
    from pyspark.sql import functions as F  # noqa: N812

    path = (name,) if name else ()
    return F.when(F.col("_wrapped"), read(("payload", *path))).otherwise(read(path))


def _field(name: str, key: tuple[str, ...], row: StructType) -> Column:
    """A column of the row as it is now; of a deleted one as it was, or as its key says."""
    from pyspark.sql import functions as F  # noqa: N812

    gone = F.col("_before")[name]
    if name in key:
        gone = F.coalesce(gone, F.col("_key_row")[name])
    now = F.when(F.col(DELETED), gone).otherwise(F.col("_after")[name])
    return one_zero(now, row[name].dataType) if name in key else now
