"""Rows to records: what a row of a view becomes in a topic.

Called by the target `topic:`. A DataFrame that has Kafka's columns already (`value`, and perhaps `key`,
`headers`, `partition`) is written as it is. Any other row becomes

    key     the text of the key column; several key columns as a JSON object
    value   the row as a JSON object; nothing (a tombstone) where its column `_deleted` is true
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.pipelines.declared import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.tables import DELETED, MARKS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KAFKA = {"key", "value", "headers", "partition"}


def as_records(frame: DataFrame, view: View, *, updates: bool) -> DataFrame:
    """The DataFrame with the columns that a topic takes."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = set(frame.columns)
    if "value" in columns and columns <= _KAFKA and not view.key:
        return frame
    check_key(view, frame, needed=updates or DELETED in columns)
    shown = [F.col(f"`{name}`") for name in frame.columns if name not in MARKS]
    value = F.to_json(F.struct(*shown), {"ignoreNullFields": "false"})
    if DELETED in columns:
        value = F.when(~F.col(DELETED), value)
    return frame.select(_key(view).alias("key"), value.alias("value"))


def _key(view: View) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    names = [F.col(f"`{name}`") for name in view.key]
    if not names:
        return F.lit(None).cast("string")
    return names[0].cast("string") if len(names) == 1 else F.to_json(F.struct(*names))


def check_key(view: View, frame: DataFrame, *, needed: bool) -> None:
    """PipelineError unless the key's columns are there; `needed`: rows come again."""
    missing = [name for name in view.key if name not in frame.columns]
    if missing:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) has the key {', '.join(missing)}, which is no "
            "column of its result",
            hint=f"its columns are {', '.join(frame.columns)}",
        )
    if needed and not view.key:
        raise PipelineError(
            f"rows of the view {view.name!r} ({view.place}) change, so each needs a key",
            hint=f"name its columns: @hw.view({view.name!r}, key=…)",
        )
