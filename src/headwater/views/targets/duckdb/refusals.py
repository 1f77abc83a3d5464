"""Rows that break a rule of their table: found, and taken out of the staging.

Called by the DuckDB target for tables that somebody made with more rules than ours: NOT NULL and CHECK. In a
view with a key before each commit, as every change is judged, elsewhere when a commit fails. DuckDB names the
rule but not the rows; asking each rule of the staged rows gives them.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from headwater.views.targets.contract import DELETED, Kind, Part, Refusal, Shape
from headwater.views.targets.duckdb.statements import IS_TABLE, columns_of, indexes_of
from headwater.views.targets.json_rows import documents
from headwater.views.targets.sql.book import quoted
from headwater.views.targets.sql.names import OwnNames
from headwater.views.targets.staged_files import StagedFiles

MANY = 10_000
"""From so many rows of a batch on, those that are there are changed in place."""
_RULES = f"""SELECT constraint_type, expression, constraint_column_names FROM duckdb_constraints()
    WHERE {IS_TABLE} AND schema_name = current_schema()"""


def take_out(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    staged: StagedFiles,
    parts: Sequence[Part],
    shape: Shape,
) -> list[Refusal]:
    """The rows that break rules; they are not staged any more."""
    rules = _rules(connection, table)
    # In parts from which rows were taken: which row of the part each one was.
    number_of = OwnNames.beside(shape)("number_in_part")
    refusals: list[Refusal] = []
    for part in parts:
        rows = staged.table([part]).combine_chunks()
        if number_of not in rows.schema.names:
            rows = rows.append_column(number_of, pa.array(range(rows.num_rows), pa.int64()))
        bad = _breaking(connection, rows, number_of, rules, keyed=shape.kind is not Kind.APPEND)
        numbers = rows.column(number_of).to_pylist()
        for place, number in enumerate(numbers):
            if number in bad:
                shown = rows.select(shape.schema.names).slice(place, 1).to_batches()[0]
                refusals.append(Refusal(documents(shown)[0], bad[number], part.number, number))
        if bad:
            kept = pa.array([number not in bad for number in numbers], pa.bool_())
            staged.rewrite(part, rows.filter(kept))
    return refusals


def has_rules(connection: duckdb.DuckDBPyConnection, table: str, key: Sequence[str]) -> bool:
    """Whether a table has more rules than those of its key."""
    found = connection.execute(_RULES, [table]).fetchall()
    ours = ("PRIMARY KEY", "NOT NULL", "UNIQUE")
    return any(kind not in ours or not set(columns) <= set(key) for kind, _, columns in found)


def may_update(
    connection: duckdb.DuckDBPyConnection, table: str, shape: Shape, rows: pa.Table
) -> bool:
    """Whether rows may be changed where they are: a quarter of the CPU for many of them. Not where the table
    is not quite ours (more columns, rules, indexes), nor with nested values, which DuckDB moves."""
    names = shape.schema.names
    if rows.num_rows < MANY or shape.kind is not Kind.UPSERT or len(names) == len(shape.key):
        return False
    if any(pa.types.is_nested(kind) for kind in shape.schema.types):
        return False
    if [name for name, _ in columns_of(connection, table)] != names:
        return False
    return not has_rules(connection, table, shape.key) and not indexes_of(connection, table)


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
    number_of: str,
    rules: Sequence[tuple[str, str]],
    *,
    keyed: bool,
) -> dict[int, str]:
    staged = OwnNames(rows.schema.names)("checked")
    connection.register(staged, rows)
    only = f"NOT {DELETED} AND " if keyed else ""
    bad: dict[int, str] = {}
    for rule, reason in rules:
        query = f"SELECT {number_of} FROM {staged} WHERE {only}NOT ({rule})"
        for (number,) in connection.execute(query).fetchall():
            bad.setdefault(number, reason)
    connection.unregister(staged)
    return bad
