"""Rows to records: what a row of a view becomes in a topic.

Called by the target `topic:`. A DataFrame that has Kafka's columns already (`value`, and perhaps `key`,
`headers`, `partition`) is written as it is. Any other row becomes

    key     the text of the key column, or its bytes; a list, struct or map, or several columns, as JSON
    value   the row as a JSON object; nothing (a tombstone) where its column `_deleted` is true

Times have all their microseconds, as in 2026-11-15T12:30:00.123456Z, and none of them a zone of its own where
the column has none; bytes are base64. `hw.stream` and `hw.table` read all of it back as it was.

What a target is handed when a view has been built: its DataFrame, and all that belongs to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.pipelines.context import Context
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.tables import DELETED, MARKS
from headwater.views.order import quoted
from headwater.views.tables.record_keys import one_zero

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_KAFKA = {"key", "value", "headers", "partition"}
EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark's own formats end at the millisecond."""


def as_records(frame: DataFrame, view: View, *, updates: bool) -> DataFrame:
    """The DataFrame with the columns that a topic takes."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = set(frame.columns)
    if "value" in columns and columns <= _KAFKA and not view.key:
        return frame
    check_key(view, frame, needed=updates or DELETED in columns)
    shown = [F.col(quoted(name)) for name in frame.columns if name not in MARKS]
    value = F.to_json(F.struct(*shown), {**EXACT, "ignoreNullFields": "false"})
    if DELETED in columns:
        value = F.when(~F.col(DELETED), value)
    return frame.select(_key(view, frame).alias("key"), value.alias("value"))


def _key(view: View, frame: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

    names = [
        one_zero(F.col(quoted(name)), frame.schema[name].dataType).alias(name) for name in view.key
    ]
    if not names:
        return F.lit(None).cast("string")
    if len(names) > 1:
        return F.to_json(F.struct(*names), EXACT)
    kind = frame.schema[view.key[0]].dataType
    if isinstance(kind, BinaryType):
        return names[0]
    # As text, ["a, b"] and ["a", "b"] would be one key.
    is_nested = isinstance(kind, ArrayType | MapType | StructType)
    return F.to_json(names[0], EXACT) if is_nested else names[0].cast("string")


def check_key(view: View, frame: DataFrame, *, needed: bool) -> None:
    """PipelineError unless the key's columns are there; `needed`: rows come again."""
    missing = [name for name in view.key if name not in frame.columns]
    if missing:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) has the key {', '.join(missing)}, which is no "
            "column of its result",
            hint=f"its columns are {', '.join(frame.columns)}{_why(frame.columns)}",
        )
    if needed and not view.key:
        raise PipelineError(
            f"rows of the view {view.name!r} ({view.place}) change, so each needs a key",
            hint=f"name its columns: @hw.view({view.name!r}, key=…)",
        )


def _why(columns: Sequence[str]) -> str:
    if not {"key", "value", "timestampType"}.issubset(columns):
        return ""
    said = ", as those of hw.stream are where no registry knows a schema: give schema=, or register"
    return f"{said} TOPIC-value"


@dataclass(frozen=True)
class Result:
    """Of one view's function."""

    frame: DataFrame
    view: View
    context: Context
    updates: bool
    """Whether a row may come again with other values, so that a key is needed."""
