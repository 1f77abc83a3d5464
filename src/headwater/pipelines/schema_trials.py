"""What a view's function makes of its topics by certain schemas, without rows; and how those differ.

Made by `evolution`, looked at by `state_evolution` as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.client.errors import BadOption
from headwater.pipelines.context import Context, within
from headwater.pipelines.declarations import View
from headwater.pipelines.pinned_schemas import Pins
from headwater.pipelines.table_views import Tables, tried
from headwater.pipelines.tables import MARKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.schemas.values.codecs import Found


@dataclass(frozen=True)
class Trial:
    """What a view's function makes of its topics by certain schemas."""

    frame: DataFrame
    context: Context
    tables: Tables | None
    """Where it is kept as a view over tables."""

    @property
    def columns(self) -> dict[str, str]:
        return columns_of(self.frame)


@dataclass(frozen=True)
class Moved:
    """An input whose latest schema is not the query's."""

    subject: str
    was: Found
    now: Found
    registry: str

    @property
    def lost(self) -> list[str]:
        has = columns_by(self.now)
        return [name for name in columns_by(self.was) if name not in has]

    @property
    def unfit(self) -> str:
        """What Spark has no type for in it."""
        try:
            columns_by(self.now)
        except BadOption as error:
            return error.sentence
        return ""

    @property
    def has_others(self) -> bool:
        """Whether columns came or went."""
        return set(columns_by(self.was)) != set(columns_by(self.now))


def columns_by(schema: Found) -> dict[str, str]:
    from headwater.spark.source.values.registry_types import row_columns

    return row_columns(schema)


def columns_of(frame: DataFrame) -> dict[str, str]:
    fields = frame.schema.fields
    return {f.name: f.dataType.simpleString() for f in fields if f.name not in MARKS}


def tried_by(view: View, context: Context, pins: Mapping[str, Pins]) -> Trial:
    trial = replace(context, tried=pins, described={}, streams=[], tables=[])
    frame, tables = tried(view, trial)
    if frame is None:
        with within(trial):
            frame = view.function()
    return Trial(frame, trial, tables)


def listed(names: Iterable[str]) -> str:
    return ", ".join(names)
