"""The statements of the DuckDB target: bookkeeping, tables, and how staged rows reach them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from headwater.views.duckdb_history import CLOSES, OPENS, listed, same, steps
from headwater.views.sql_book import quoted
from headwater.views.target import DELETED, VALIDITY, Kind, Shape

VIEWS = "headwater_views"
STAGED = "headwater_staged"
WANTED = "headwater_wanted"
STEPS = "headwater_steps"

BOOKKEEPING = f"""CREATE TABLE IF NOT EXISTS {VIEWS} (
    view VARCHAR, version INTEGER, place VARCHAR, epoch BIGINT, batch BIGINT, position VARCHAR,
    current BOOLEAN, PRIMARY KEY (view, version))"""
# The first version that there is gets the view's own name, and is what readers see.
REGISTER = f"""INSERT INTO {VIEWS}
    SELECT a.view, a.version, CASE WHEN a.first THEN a.name ELSE a.name || '__v' || a.version END,
        0, NULL, NULL, a.first
    FROM (SELECT ? AS view, ?::INTEGER AS version, ? AS name,
        NOT EXISTS (FROM {VIEWS} WHERE view = ? AND version <> ?) AS first) a"""
PLACE = f"SELECT place, epoch, batch, position FROM {VIEWS} WHERE view = ? AND version = ?"
CLAIM = f"UPDATE {VIEWS} SET epoch = epoch + 1 WHERE view = ? AND version = ? RETURNING epoch"
APPLIED = f"UPDATE {VIEWS} SET batch = ?, position = ?, epoch = ? WHERE view = ? AND version = ?"
VERSIONS = f"SELECT version, epoch, batch, position, current FROM {VIEWS} WHERE view = ? ORDER BY 1"
SHOWN = f"SELECT version, place FROM {VIEWS} WHERE view = ? AND current"
SHOW = f"UPDATE {VIEWS} SET current = (version = ?) WHERE view = ?"
PLACED = f"UPDATE {VIEWS} SET place = ? WHERE view = ? AND version = ?"
FORGET = f"DELETE FROM {VIEWS} WHERE view = ? AND version = ?"

UNIQUE = """SELECT constraint_column_names FROM duckdb_constraints() WHERE table_name = ?
    AND schema_name = current_schema() AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')"""

Columns = list[tuple[str, str]]


def row(connection: duckdb.DuckDBPyConnection, view: Sequence[Any]) -> Any | None:
    """Place, epoch, batch and position of a version."""
    if not columns_of(connection, VIEWS):
        return None
    found = connection.execute(PLACE, list(view)).fetchall()
    return found[0] if found else None


def place(connection: duckdb.DuckDBPyConnection, view: Sequence[Any]) -> str | None:
    found = row(connection, view)
    return found[0] if found else None


def described(connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> Columns:
    """Columns with the types that DuckDB has for these."""
    connection.register(STAGED, schema.empty_table())
    found = connection.execute(f"DESCRIBE SELECT * FROM {STAGED}").fetchall()
    connection.unregister(STAGED)
    return [(name, kind) for name, kind, *_ in found]


def columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> Columns:
    """Of a table; none where it is missing."""
    return connection.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? "
        "AND database_name = current_database() AND schema_name = current_schema() "
        "ORDER BY column_index",
        [table],
    ).fetchall()


def may_adopt(connection: duckdb.DuckDBPyConnection, table: str, key: Sequence[str]) -> bool:
    """Whether a table that somebody has made can be a view's: empty, and unique by the key."""
    if connection.execute(f"SELECT 1 FROM {quoted(table)} LIMIT 1").fetchall():
        return False
    unique = connection.execute(UNIQUE, [table]).fetchall()
    return not key or list(key) in [list(columns) for (columns,) in unique]


def create(table: str, columns: Columns, key: Sequence[str]) -> str:
    parts = [f"{quoted(name)} {kind}" for name, kind in columns]
    if key:
        parts.append(f"PRIMARY KEY ({listed(key)})")
    return f"CREATE TABLE {quoted(table)} ({', '.join(parts)})"


def drop(table: str) -> str:
    return f"DROP TABLE IF EXISTS {quoted(table)}"


def renaming(table: str, name: str) -> str:
    return f"ALTER TABLE {quoted(table)} RENAME TO {quoted(name)}"


def reading(table: str, names: Sequence[str], key: Sequence[str]) -> str:
    """All rows, or those whose key is wanted."""
    only = ""
    if key:
        only = f" SEMI JOIN {WANTED} w ON {same('t', 'w', key)}"
    return f"SELECT {listed(names, 't.')} FROM {quoted(table)} t{only}"


def applying(table: str, shape: Shape) -> list[str]:
    """What brings the staged rows to their table, in this order."""
    names = shape.schema.names
    if shape.kind is Kind.APPEND:
        return [f"INSERT INTO {quoted(table)} SELECT {listed(names)} FROM {STAGED}"]
    if shape.kind is Kind.UPSERT:
        return _upserting(quoted(table), names, shape.key)
    return _keeping(quoted(table), names, shape.key)


def _upserting(table: str, names: Sequence[str], key: Sequence[str]) -> list[str]:
    # Both in one transaction. ON CONFLICT DO UPDATE changes rows in place, column by column, and takes
    # ten times as long where the keys of a batch are spread over the table.
    return [
        f"DELETE FROM {table} t USING {STAGED} s WHERE {same('t', 's', key)}",
        f"INSERT INTO {table} SELECT {listed(names)} FROM {STAGED} WHERE NOT {DELETED}",
    ]


def _keeping(table: str, names: Sequence[str], key: Sequence[str]) -> list[str]:
    _, until, current = VALIDITY
    return [
        f"CREATE OR REPLACE TEMP TABLE {STEPS} AS {steps(table, STAGED, names, key)}",
        f"UPDATE {table} t SET {until} = s._next, {current} = false FROM {STEPS} s "
        f"WHERE {CLOSES} AND t.{current} AND {same('t', 's', key)}",
        f"INSERT INTO {table} SELECT {listed(names)}, _at, _next, _next IS NULL FROM {STEPS} WHERE {OPENS}",
        f"DROP TABLE {STEPS}",
    ]
