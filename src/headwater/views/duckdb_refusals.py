"""Rows that break a rule of their table: found, and taken out of the staging.

Called by the DuckDB target when a commit fails on a constraint, which only tables have that somebody made
with more rules than ours: NOT NULL and CHECK. DuckDB names the rule but not the rows; asking each rule of
the staged rows gives them.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from headwater.views.json_rows import documents
from headwater.views.sql_book import quoted
from headwater.views.staged_files import StagedFiles
from headwater.views.target import DELETED, Kind, Part, Refusal, Shape

NUMBER = "_row"
"""In parts from which rows were taken: which row of the part each one was."""
_STAGED = "headwater_checked"
_RULES = """SELECT constraint_type, expression, constraint_column_names FROM duckdb_constraints()
    WHERE table_name = ? AND schema_name = current_schema()"""


def take_out(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    staged: StagedFiles,
    parts: Sequence[Part],
    shape: Shape,
) -> list[Refusal]:
    """The rows that break rules; they are not staged any more."""
    rules = _rules(connection, table)
    refusals: list[Refusal] = []
    for part in parts:
        rows = staged.table([part]).combine_chunks()
        if NUMBER not in rows.schema.names:
            rows = rows.append_column(NUMBER, pa.array(range(rows.num_rows), pa.int64()))
        bad = _breaking(connection, rows, rules, keyed=shape.kind is not Kind.APPEND)
        numbers = rows.column(NUMBER).to_pylist()
        for place, number in enumerate(numbers):
            if number in bad:
                shown = rows.select(shape.schema.names).slice(place, 1).to_batches()[0]
                refusals.append(Refusal(documents(shown)[0], bad[number], part.number, number))
        staged.rewrite(part, rows.filter(pa.array([number not in bad for number in numbers])))
    return refusals


def _rules(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    """What must hold, and how it is said."""
    found = []
    for kind, expression, columns in connection.execute(_RULES, [table]).fetchall():
        if kind == "CHECK":
            found.append((expression, f"breaks CHECK ({expression})"))
        elif kind == "NOT NULL":
            found.append((f"{quoted(columns[0])} IS NOT NULL", f"{columns[0]} may not be null"))
    return found


def _breaking(
    connection: duckdb.DuckDBPyConnection,
    rows: pa.Table,
    rules: Sequence[tuple[str, str]],
    *,
    keyed: bool,
) -> dict[int, str]:
    connection.register(_STAGED, rows)
    only = f"NOT {DELETED} AND " if keyed else ""
    bad: dict[int, str] = {}
    for rule, reason in rules:
        query = f"SELECT {NUMBER} FROM {_STAGED} WHERE {only}NOT ({rule})"
        for (number,) in connection.execute(query).fetchall():
            bad.setdefault(number, reason)
    connection.unregister(_STAGED)
    return bad
