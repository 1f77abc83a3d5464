"""The statements of the DuckDB target: bookkeeping, tables, and how staged rows reach them."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from headwater.client.position import Position
from headwater.views.targets.contract import DELETED, VALIDITY, Applied, Kind, Shape
from headwater.views.targets.duckdb.history import Steps, listed, same
from headwater.views.targets.sql.book import quoted
from headwater.views.targets.sql.names import OwnNames

VIEWS = "headwater_views"
_DESCRIBED = "headwater_described"

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
OTHERS = f"SELECT view, place FROM {VIEWS} WHERE view <> ?"
SHOWN = f"SELECT version, place FROM {VIEWS} WHERE view = ? AND current"
SHOW = f"UPDATE {VIEWS} SET current = (version = ?) WHERE view = ?"
PLACED = f"UPDATE {VIEWS} SET place = ? WHERE view = ? AND version = ?"
FORGET = f"DELETE FROM {VIEWS} WHERE view = ? AND version = ?"

_FROM, _TO = f"'{string.ascii_uppercase}'", f"'{string.ascii_lowercase}'"
IS_TABLE = f"translate(table_name, {_FROM}, {_TO}) = translate(?, {_FROM}, {_TO})"
"""As DuckDB compares names; `lower` would take Ä for ä."""
UNIQUE = f"""SELECT constraint_column_names FROM duckdb_constraints() WHERE {IS_TABLE}
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
    connection.register(_DESCRIBED, schema.empty_table())
    found = connection.execute(f"DESCRIBE SELECT * FROM {_DESCRIBED}").fetchall()
    connection.unregister(_DESCRIBED)
    return [(name, kind) for name, kind, *_ in found]


def columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> Columns:
    """Of a table; none where it is missing."""
    return connection.execute(
        f"SELECT column_name, data_type FROM duckdb_columns() WHERE {IS_TABLE} "
        "AND database_name = current_database() AND schema_name = current_schema() "
        "ORDER BY column_index",
        [table],
    ).fetchall()


def indexes_of(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    """Name and statement of the indexes that somebody has made."""
    return connection.execute(
        "SELECT index_name, sql FROM duckdb_indexes() WHERE table_name = ? AND sql IS NOT NULL "
        "AND database_name = current_database() AND schema_name = current_schema() "
        "ORDER BY index_oid",
        [table],
    ).fetchall()


def rules_of(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """CHECK, NOT NULL and UNIQUE of a table, which cannot be added to another one that has rows."""
    return [
        str(text)
        for (text,) in connection.execute(
            "SELECT constraint_text FROM duckdb_constraints() WHERE table_name = ? "
            "AND schema_name = current_schema() AND constraint_type <> 'PRIMARY KEY'",
            [table],
        ).fetchall()
    ]


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


def widen(connection: duckdb.DuckDBPyConnection, view: Sequence[object], schema: pa.Schema) -> None:
    """Give a version, if it is there, the columns that it has not."""
    table = place(connection, view)
    if table is None:
        return
    known = dict(columns_of(connection, table))
    new = [(name, kind) for name, kind in described(connection, schema) if name not in known]
    indexes = indexes_of(connection, table) if new else []
    for name, _ in indexes:  # a table that has one cannot be changed
        connection.execute(f"DROP INDEX {quoted(name)}")
    for name, kind in new:
        connection.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN {quoted(name)} {kind}")
    for _, statement in indexes:
        connection.execute(statement)


def applied(epoch: int, batch: int | None, position: str | None) -> Applied | None:
    if batch is None or position is None:
        return None
    return Applied(batch, epoch, Position.from_json(position))


def drop(table: str) -> str:
    return f"DROP TABLE IF EXISTS {quoted(table)}"


def renaming(table: str, name: str) -> str:
    return f"ALTER TABLE {quoted(table)} RENAME TO {quoted(name)}"


class Rows:
    """Statements for the rows of one view; `table` is the one of the moment."""

    def __init__(self, shape: Shape) -> None:
        self._shape, self._own = shape, OwnNames.beside(shape)
        self.staged, self.wanted = self._own("staged"), self._own("wanted")
        """Under which names the rows of a batch, and the keys that are asked for, are registered."""

    def reading(self, table: str, names: Sequence[str], *, wanted: bool = False) -> str:
        """All rows, or those whose key is wanted."""
        row, key = self._own("row"), self._own("key")
        only = f" SEMI JOIN {self.wanted} {key} ON {same(row, key, self._shape.key)}"
        chosen = f"SELECT {listed(names, f'{row}.')} FROM {quoted(table)} {row}"
        return chosen + only if wanted else chosen

    def applying(self, table: str, in_place: bool = False) -> list[str]:
        """What brings the staged rows to their table, in this order. `in_place`: rows that are there stay
        where they are and get other values, in a table that has the view's columns and no others."""
        names = listed(self._shape.schema.names)
        if self._shape.kind is Kind.APPEND:
            return [f"INSERT INTO {quoted(table)} ({names}) SELECT {names} FROM {self.staged}"]
        if self._shape.kind is Kind.UPSERT:
            done = self._updating if in_place else self._upserting
            return done(quoted(table), names)
        return self._keeping(quoted(table), names)

    def _updating(self, table: str, names: str) -> list[str]:
        row, new, key = self._own("row"), self._own("new"), self._shape.key
        others = [quoted(name) for name in self._shape.schema.names if name not in key]
        changed = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        return [
            f"DELETE FROM {table} {row} USING {self.staged} {new} "
            f"WHERE {same(row, new, key)} AND {new}.{DELETED}",
            f"INSERT INTO {table} ({names}) SELECT {names} FROM {self.staged} WHERE NOT {DELETED} "
            f"ON CONFLICT ({listed(key)}) DO UPDATE SET {changed}",
        ]

    def _upserting(self, table: str, names: str) -> list[str]:
        # Both in one transaction. For few rows that is less than to change them in place.
        row, new = self._own("row"), self._own("new")
        same_key = same(row, new, self._shape.key)
        return [
            f"DELETE FROM {table} {row} USING {self.staged} {new} WHERE {same_key}",
            f"INSERT INTO {table} ({names}) SELECT {names} FROM {self.staged} WHERE NOT {DELETED}",
        ]

    def _keeping(self, table: str, names: str) -> list[str]:
        _, until, current = VALIDITY
        steps, step, row = Steps(self._shape), self._own("step"), self._own("row")
        kept = self._own("steps")
        return [
            f"CREATE OR REPLACE TEMP TABLE {kept} AS {steps.query(table, self.staged)}",
            f"UPDATE {table} {row} SET {until} = {step}.{steps.next}, {current} = false "
            f"FROM {kept} {step} WHERE {steps.closes} AND {row}.{current} "
            f"AND {same(row, step, self._shape.key)}",
            f"INSERT INTO {table} ({names}, {', '.join(VALIDITY)}) "
            f"SELECT {names}, {steps.at}, {steps.next}, {steps.next} IS NULL "
            f"FROM {kept} WHERE {steps.opens}",
            f"DROP TABLE {kept}",
        ]
