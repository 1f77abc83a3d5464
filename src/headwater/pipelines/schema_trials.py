"""What a view's function makes of its topics by certain schemas, without rows; and how those differ.

Made by `evolution`, looked at by `state_evolution` as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from headwater.client.errors import BadOption
from headwater.pipelines.context import Context, within
from headwater.pipelines.declarations import View
from headwater.pipelines.pinned_schemas import Pins
from headwater.pipelines.table_views import Tables, tried
from headwater.pipelines.tables import MARKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from headwater.schemas.values.codecs import Found

Path: TypeAlias = tuple[str, ...]
"""A name, after those of the columns that it is in."""


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

    @property
    def paths(self) -> list[Path]:
        """Of its columns and of what is in them."""
        return [each for each in paths_in(self.frame.schema) if each[0] not in MARKS]


@dataclass(frozen=True)
class Moved:
    """An input whose latest schema is not the query's."""

    subject: str
    was: Found
    now: Found
    registry: str

    @property
    def lost(self) -> list[str]:
        return missing(paths_by(self.now), paths_by(self.was))

    @property
    def unfit(self) -> str:
        """What Spark has no type for in it."""
        try:
            paths_by(self.now)
        except BadOption as error:
            return error.sentence
        return ""

    @property
    def has_others(self) -> bool:
        """Whether columns came or went, also inside of others."""
        return set(paths_by(self.was)) != set(paths_by(self.now))


def paths_by(schema: Found) -> list[Path]:
    from headwater.spark.source.values.registry_types import row_paths

    return row_paths(schema)


def missing(has: Sequence[Path], wanted: Sequence[Path]) -> list[str]:
    """The columns that are wanted and not there; of one that is not there at all, only itself."""
    known = set(has)
    gone = [each for each in wanted if each not in known]
    return [".".join(each) for each in gone if len(each) == 1 or each[:-1] in known]


def paths_in(kind: DataType, path: Path = ()) -> list[Path]:
    """Of a row, without `path`: of all its columns, and of what is in them."""
    from pyspark.sql import types as t

    while isinstance(kind, t.ArrayType | t.MapType):
        kind = kind.elementType if isinstance(kind, t.ArrayType) else kind.valueType
    fields = kind.fields if isinstance(kind, t.StructType) else []
    inside = [each for one in fields for each in paths_in(one.dataType, (*path, one.name))]
    return [path, *inside] if path else inside


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
