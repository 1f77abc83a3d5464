"""A view's rows, read back from wherever it lives, as plain dicts that a test compares.

Called by `rehearsal`. Rows of a topic are JSON and lose their types there; they get them back from the
view's own schema.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.stores import shape_of, store_of
from headwater.testing.desk import Desk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from headwater.client.librdkafka import Message

Row = dict[str, Any]


class Shown(NamedTuple):
    """A view that has run, and the DataFrame that its function gave."""

    view: View
    frame: DataFrame
    reads: tuple[str, ...]


def rows_of(shown: Shown, spark: SparkSession, desk: Desk, *, latest: bool) -> list[Row]:
    """The rows of a view; `latest`: as they are now, and otherwise as they came (of a topic)."""
    scheme, _, rest = shown.view.to.partition(":")
    if scheme == "topic":
        return _of_topic(shown, desk.records(rest), latest)
    if not latest:
        raise PipelineError(
            f"the view {shown.view.name!r} lives in {shown.view.to}, which keeps rows, not changes",
            hint="ask for rows(…), or let it run with to='topic:NAME'",
        )
    if scheme == "memory":
        found = collected(spark.table(shown.view.checkpoint))
    elif scheme == "parquet":
        found = collected(spark.read.parquet(rest))
    else:
        found = _of_store(shown)
    return sorted(found, key=repr)


def collected(frame: DataFrame) -> list[Row]:
    """A DataFrame's rows; times with their zone, which Spark leaves out."""
    kinds = frame.schema
    return [_zoned(row.asDict(recursive=True), kinds) for row in frame.collect()]


def _zoned(value: Any, kind: DataType) -> Any:
    """Times of a TIMESTAMP get their zone; those of a TIMESTAMP_NTZ have none."""
    from pyspark.sql import types as T  # noqa: N812

    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return {field.name: _zoned(value[field.name], field.dataType) for field in kind.fields}
    if isinstance(kind, T.MapType):
        return {key: _zoned(each, kind.valueType) for key, each in value.items()}
    if isinstance(kind, T.ArrayType):
        return [_zoned(each, kind.elementType) for each in value]
    return value.astimezone(dt.UTC) if isinstance(kind, T.TimestampType) else value


def _of_store(shown: Shown) -> list[Row]:
    if shown.view.effect is not None:
        raise PipelineError(
            f"the view {shown.view.name!r} goes to a function, which keeps no rows",
            hint="let it run with to='topic:NAME', or look at what the function did",
        )
    target = store_of(shown.view, shape_of(shown.view, shown.frame))
    with target.reading() as (_, batches):
        return [_as_utc(row) for batch in batches for row in batch.to_pylist()]


def _as_utc(value: Any) -> Any:
    """What a store hands out says its zone itself, if it has one."""
    if isinstance(value, dict):
        return {key: _as_utc(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_utc(each) for each in value]
    is_time = isinstance(value, dt.datetime) and value.tzinfo is not None
    return value.astimezone(dt.UTC) if is_time else value


def _of_topic(shown: Shown, records: list[Message], latest: bool) -> list[Row]:
    schema = shown.frame.schema
    if not latest:
        return [_row(each, schema) for each in records]
    rows: dict[Any, Row] = {}
    for number, each in enumerate(records):
        place: Any = each.key() if shown.view.key else number
        rows.pop(place, None)
        if each.value() is not None:
            rows[place] = _row(each, schema)
    return sorted(rows.values(), key=repr)


def _row(record: Message, schema: StructType) -> Row:
    value = record.value()
    if value is None:
        return {"_key": (record.key() or b"").decode(), "_deleted": True}
    found: Row = json.loads(value, parse_float=Decimal)
    return {f.name: typed(found[f.name], f.dataType) for f in schema.fields if f.name in found}


def typed(value: Any, kind: DataType) -> Any:
    """A value of JSON as Spark would hand it out."""
    from pyspark.sql import types as T  # noqa: N812

    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return {f.name: typed(value.get(f.name), f.dataType) for f in kind.fields}
    if isinstance(kind, T.ArrayType):
        return [typed(each, kind.elementType) for each in value]
    if isinstance(kind, T.MapType):
        return {key: typed(each, kind.valueType) for key, each in value.items()}
    if isinstance(kind, T.FloatType | T.DoubleType):
        return float(value)
    if isinstance(kind, T.TimestampNTZType):
        return dt.datetime.fromisoformat(value)
    if isinstance(kind, T.TimestampType):
        return dt.datetime.fromisoformat(value).astimezone(dt.UTC)
    if isinstance(kind, T.DateType):
        return dt.date.fromisoformat(value)
    if isinstance(kind, T.BinaryType):
        return base64.b64decode(value)
    if isinstance(kind, T.DecimalType):
        return Decimal(value)
    return value
