"""`table` to Spark: change records as typed rows, each with what happened to it.

Understood are Debezium's envelope (`before`, `after`, `op`; also inside `payload`, where its converter
adds schemas) and plain rows, where a record without a value deletes the key. A value is taken for an
envelope if it has `op` and one of `before` and `after`.

A value that is not JSON of the given schema is no change: a null row would look like a delete, or like
nothing. It becomes a dead letter (`bad_changes`; in a view over tables `headwater.views.tables`), and who
computes a view from the log as a whole leaves it out. At real-time speed, where Spark runs no Python, it
stops the query with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.pipelines import bad_changes, pinned
from headwater.pipelines.context import Context
from headwater.pipelines.declared import REAL_TIME
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.sources import OF_THE_RECORD, events

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

CHANGE = ("_op", "_deleted", "_before")
MARKS = (*CHANGE, *OF_THE_RECORD)
"""Columns that say something about a record and are no part of its row."""
DELETED = "_deleted"


def changes(
    context: Context,
    topic: str,
    *,
    schema: str,
    key: tuple[str, ...],
    starting: str,
    options: Mapping[str, str],
) -> DataFrame:
    """One row per change of the table that `topic` tells of; or, where asked for, its rows."""
    row = row_type(schema, f"table {topic!r}", key)
    if (plain := _PLAIN.get()) is not None:
        return plain(Mention(topic, row, key, starting, dict(options)))
    records = events(context, topic, schema=None, starting=starting, options=options)
    if context.pinned is not None:
        return pinned.latest(decoded(records, row, key, left_out), key)
    if context.speed == REAL_TIME:
        return decoded(records, row, key)
    refuse = bad_changes.refusal(context)
    return decoded(records, row, key, lambda read, bad: bad_changes.without(read, bad, row, refuse))


@dataclass(frozen=True)
class Mention:
    """A table as a view's function names it."""

    topic: str
    row: StructType
    key: tuple[str, ...]
    starting: str
    options: Mapping[str, str]


Plain = Callable[[Mention], "DataFrame"]
_PLAIN: ContextVar[Plain | None] = ContextVar("headwater_plain_tables", default=None)


@contextmanager
def plainly(give: Plain) -> Iterator[None]:
    """Let `table` be a table with its own columns, as `give` has it, instead of a stream of changes."""
    token = _PLAIN.set(give)
    try:
        yield
    finally:
        _PLAIN.reset(token)


TakeOut = Callable[["DataFrame", "Column"], "DataFrame"]
"""Gets records and which of them are bad; gives the others."""


def left_out(read: DataFrame, bad: Column) -> DataFrame:
    """Bad values are nowhere: for who computes what a view must be."""
    return read.where(~bad)


def decoded(
    records: DataFrame,
    row: StructType,
    key: tuple[str, ...],
    take_out: TakeOut | None = None,
) -> DataFrame:
    """Records with Kafka's columns as changes of rows of type `row`.

    Where nobody takes out bad values, the first one is an error.
    """
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col("value").cast("string")
    inner = F.coalesce(F.get_json_object(value, "$.payload"), value)
    envelope = F.get_json_object(inner, "$.op").isNotNull() & (
        F.get_json_object(inner, "$.before").isNotNull()
        | F.get_json_object(inner, "$.after").isNotNull()
    )
    read = records.select(
        F.col("key").cast("string").alias("_text"),
        F.col("key").alias("_key"),
        F.when(value.isNotNull(), inner).alias("_value"),
        F.coalesce(envelope, F.lit(False)).alias("_envelope"),
        *(F.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset", "timestamp")),
    )
    op = F.when(F.col("_value").isNull(), F.lit("d")).otherwise(
        F.when(F.col("_envelope"), F.get_json_object("_value", "$.op")).otherwise(F.lit("u"))
    )
    after = F.when(F.col("_envelope"), F.get_json_object("_value", "$.after")).otherwise(
        F.col("_value")
    )
    before = F.when(F.col("_envelope"), F.get_json_object("_value", "$.before"))
    mode = "FAILFAST"
    if take_out is not None:
        bad = F.coalesce(_is_bad(after, row) | _is_bad(before, row), F.lit(False))
        read, mode = take_out(read, bad), "PERMISSIVE"
    typed = read.select(
        "*",
        op.alias("_op"),
        _typed(after, row, mode).alias("_after"),
        _typed(before, row, mode).alias("_before"),
        _key_row(row, key).alias("_key_row"),
    ).withColumn(DELETED, F.col("_op") == F.lit("d"))
    return typed.select(*(_field(name, key) for name in row.names), *MARKS)


def _is_bad(text: Column, row: StructType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    broken = "_headwater_broken"
    schema = StructType([*row.fields, StructField(broken, StringType())])
    read = F.from_json(text, schema, {"columnNameOfCorruptRecord": broken})
    return text.isNotNull() & (read.isNull() | read[broken].isNotNull())


def _typed(text: Column, row: StructType, mode: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.from_json(text, row, {"mode": mode})


def _field(name: str, key: tuple[str, ...]) -> Column:
    """A column of the row as it is now; of a deleted one as it was, or as its key says."""
    from pyspark.sql import functions as F  # noqa: N812

    gone = F.col("_before")[name]
    if name in key:
        gone = F.coalesce(gone, F.col("_key_row")[name])
    return F.when(F.col(DELETED), gone).otherwise(F.col("_after")[name]).alias(name)


def _key_row(row: StructType, key: tuple[str, ...]) -> Column:
    """The key columns from the record's key: JSON, Debezium's JSON with a schema, or plain text."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    wanted = StructType([row[name] for name in key])
    text = F.col("_text")
    inner = F.coalesce(F.get_json_object(text, "$.payload"), text)
    parsed = F.from_json(inner, wanted)
    if len(key) > 1:
        return parsed
    plain = F.struct(F.trim(text, F.lit('"')).try_cast(wanted[0].dataType).alias(key[0]))
    return F.when(text.startswith("{"), parsed).otherwise(plain)


def row_type(schema: str, named: str, key: tuple[str, ...] = ()) -> StructType:
    """The type of rows that a schema such as `"id STRING, total DOUBLE"` says; it has the key's columns."""
    from pyspark.sql.types import StructType

    try:
        row = StructType.fromDDL(schema)
    except Exception:
        row = None
    if not isinstance(row, StructType):
        raise PipelineError(
            f"the schema of {named} cannot be read: {schema!r}",
            hint="write it as in 'order_id STRING, total DOUBLE'",
        )
    missing = [name for name in key if name not in row.names]
    if missing:
        raise PipelineError(
            f"the key of {named} names {', '.join(missing)}, which its schema lacks",
            hint=f"its columns are {', '.join(row.names)}",
        )
    return row
