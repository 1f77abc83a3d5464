"""From a view's result on empty tables to the plan by which it is kept current.

Called once when a view is built. Says no, with a reason, to what cannot be kept current.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.views.tables.aggregation import aggregation
from headwater.views.tables.analysis import TABLE, analysed
from headwater.views.tables.decoder import Table, state_schema
from headwater.views.tables.errors import NotByRow
from headwater.views.tables.plan import Plan
from headwater.views.tables.program import Program, compiled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OTHER_ROWS = "\nwith rows of no table"
"""State without this is of a version that lost them, and must not be gone on with."""
_IDENTITY = re.compile(r"(?:_\d+)?#\d+L?|plan_id=\d+")


class NoKey(HeadwaterError):
    """A view over tables has rows that change, and nothing to tell them apart."""


def empty_frames(spark: SparkSession, tables: Sequence[Table]) -> dict[int, DataFrame]:
    """Tables without rows, to see what a function does with them."""
    return {n: spark.createDataFrame([], table.row) for n, table in enumerate(tables)}


def marked(frame: DataFrame, number: int) -> DataFrame:
    """A table as a view's function gets it: recognisable in the plan."""
    return frame.alias(f"{TABLE}{number}")


def plan(
    name: str,
    key: Sequence[str],
    frame: DataFrame,
    tables: Sequence[Table],
    *,
    as_a_whole: bool = False,
) -> Plan:
    """The plan of a view whose function made `frame` of empty tables.

    `as_a_whole`: a query that cannot be followed row by row is recomputed in every batch.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    _check_key(key, frame)
    try:
        program, tables = _followed(key, frame, tables)
    except NotByRow:
        if not as_a_whole:
            raise
        program = None
    columns = [
        to_arrow_schema(state_schema(table, frame.sparkSession), timezone="UTC") for table in tables
    ]
    result = to_arrow_schema(frame.schema, timezone="UTC")
    text = query_text(frame) + (
        _OTHER_ROWS if program is not None and program.stacks_static else ""
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    kept = None
    if program is not None and sorted(program.key) == sorted(key):
        kept = aggregation(frame, columns, key)
    return Plan(name, tables, columns, result, tuple(key), program, digest, kept)


def query_text(frame: DataFrame) -> str:
    """The query without names of the moment: the same for the same query."""
    text = str(frame._jdf.queryExecution().analyzed().toString())
    return _IDENTITY.sub("", text)


def _followed(
    key: Sequence[str], frame: DataFrame, tables: Sequence[Table]
) -> tuple[Program, list[Table]]:
    from pyspark.errors import AnalysisException, ParseException

    read = analysed(frame)
    names = [table.row.names for table in tables]
    program = compiled(read.root, {each: read.columns[each] for each in key}, names)
    found = [replace(t, derived=program.derived.get(n, ())) for n, t in enumerate(tables)]
    for table in found:
        try:
            state_schema(table, frame.sparkSession)
        except (AnalysisException, ParseException) as error:
            raise NotByRow(
                f"what it compares cannot be computed by itself: {', '.join(table.derived)}",
                hint="join and group by columns of the tables",
            ) from error
    return program, found


def _check_key(key: Sequence[str], frame: DataFrame) -> None:
    names = frame.columns
    if not key:
        raise NoKey(
            "rows of a view over tables change, so each needs a key",
            hint="name the columns that tell them apart: @hw.view(…, key=…)",
        )
    if missing := [name for name in key if name not in names]:
        raise NoKey(
            f"its key has {', '.join(missing)}, which is no column of its result",
            hint=f"its columns are {', '.join(names)}",
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise NoKey(
            f"its result has two columns named {twice[0]}",
            hint="drop one of them, or give it another name",
        )
