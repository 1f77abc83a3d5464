"""`table` to Spark: the table as it is, for views over tables; or its changes, each with what happened to it.

Records are read by `headwater.views.tables`, in one way for both. A value that is not JSON of the given
schema is no change: a null row would look like a delete, or like nothing. It becomes a dead letter
(`bad_changes`; in a view over tables `bad_values`), and who computes a view from the log as a whole leaves it
out. At real-time speed, where Spark runs no Python, it stops the query. Where changes are handed on one by
one, so it is with a truncate: nobody knows there which rows there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.pipelines import bad_changes, inputs, real_time_tables, registry
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import REAL_TIME
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.sources import events
from headwater.views.order import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

    from headwater.views.tables.decoder import Table

MARKS = real_time_tables.MARKS
DELETED = real_time_tables.DELETED


def changes(
    context: Context,
    topic: str,
    *,
    schema: str | None,
    key: tuple[str, ...],
    starting: str,
    options: Mapping[str, str],
) -> DataFrame:
    """One row per change of the table that `topic` tells of; or, where asked for, its rows."""
    from headwater.views.tables import change_stream

    if schema is None:
        described = registry.of_table(context, topic, options)
        schema, key, options = (
            described.schema,
            key or described.key,
            {**described.options, **options},
        )
    else:
        options = {**registry.decoded(context, schema, options), **options}
    if not key:
        raise PipelineError(
            f"table {topic!r} has no key", hint="name the columns that make a row one row: key="
        )
    table = table_of(topic, schema, key)
    if (plain := _PLAIN.get()) is not None:
        return plain(Mention(table, starting, dict(options)))
    records = events(context, topic, schema=None, starting=starting, options=options)
    if context.pinned is not None:
        return inputs.latest(marked(change_stream.still_valid(records, table)), key)
    return one_by_one(context, records, table)


def one_by_one(context: Context, records: DataFrame, table: Table) -> DataFrame:
    """Every change of a table with its marks; what is none is a dead letter. Of inputs that are pinned, it
    is left out."""
    from headwater.views.tables import change_stream

    if context.speed == REAL_TIME:
        return real_time_tables.decoded(records, table.row, table.key)
    refuse = None if context.pinned is not None else bad_changes.refusal(context)
    return marked(change_stream.changes(records, table, refuse))


def marked(changes: DataFrame) -> DataFrame:
    """With the marks behind the columns, in their order."""
    columns = [quoted(name) for name in changes.columns if name not in MARKS]
    return changes.select(*columns, *MARKS)


@dataclass(frozen=True)
class Mention:
    """A table as a view's function names it."""

    table: Table
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


def table_of(topic: str, schema: str, key: tuple[str, ...]) -> Table:
    """A topic as a table. Its columns may all be null: NOT NULL is asked of values, and not of rows."""
    from headwater.views.tables.decoder import Table

    row = row_type(schema, f"table {topic!r}", key)
    for name in key:
        if _inside(row[name].dataType):
            raise PipelineError(
                f"the key of table {topic!r} has {name}, which is {row[name].dataType.simpleString()}",
                hint="name columns that are one value each",
            )
    required = tuple(field.name for field in row.fields if not field.nullable)
    nullable: Any = row.toNullable()
    return Table(topic, nullable, key, required=required)


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
    if (unread := no_json(row)) is not None:
        raise PipelineError(
            f"the schema of {named} has {unread}, and the names in a JSON object are texts",
            hint="make it a MAP<STRING, …>, and cast its keys in the query",
        )
    if (twice := named_twice(row)) is not None:
        raise PipelineError(
            f"the schema of {named} has {twice} twice, but for capital letters",
            hint="leave one of them out: Spark and stores take such names for one",
        )
    missing = [name for name in key if name not in row.names]
    if missing:
        raise PipelineError(
            f"the key of {named} names {', '.join(missing)}, which its schema lacks",
            hint=f"its columns are {', '.join(row.names)}",
        )
    return row


def named_twice(kind: DataType) -> str | None:
    """A name that two fields of one struct have, at any depth."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        names = [name.lower() for name in kind.names]
        if twice := [name for name in kind.names if names.count(name.lower()) > 1]:
            return str(twice[-1])
    return next((name for each in _inside(kind) if (name := named_twice(each)) is not None), None)


def no_json(kind: DataType) -> str | None:
    """A map in a type that JSON cannot say: its keys are no texts."""
    from pyspark.sql import types as t

    if isinstance(kind, t.MapType) and not isinstance(kind.keyType, t.StringType):
        return kind.simpleString().upper()
    return next((found for each in _inside(kind) if (found := no_json(each)) is not None), None)


def _inside(kind: DataType) -> list[DataType]:
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        return [each.dataType for each in kind.fields]
    if isinstance(kind, t.ArrayType):
        return [kind.elementType]
    return [kind.valueType] if isinstance(kind, t.MapType) else []
