"""The statements that a view in SQLite needs, from its shape; text only, no connection.

A staged row is given as its columns, and in a history `_valid_from` after them; parameters are numbered,
as several statements take the same row. Every column is named with its table: SQLite takes a quoted name that
it does not know for a text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from headwater.views.targets.contract import VALIDITY, Kind, Shape
from headwater.views.targets.sql.book import quoted
from headwater.views.targets.sql.names import OwnNames
from headwater.views.targets.sqlite.values import column_type

BOOK = """CREATE TABLE IF NOT EXISTS headwater_views (
    view TEXT NOT NULL, version INTEGER NOT NULL, place TEXT NOT NULL, epoch INTEGER NOT NULL,
    batch INTEGER, position TEXT, current INTEGER NOT NULL, shape TEXT,
    PRIMARY KEY (view, version)) STRICT"""


def affinity(kind: str) -> str:
    """What SQLite makes of a column's declared type (its documentation, datatype3, 3.1)."""
    said = kind.upper()
    rules = (("INT", "INTEGER"), ("CHAR", "TEXT"), ("CLOB", "TEXT"), ("TEXT", "TEXT"),
             ("BLOB", "BLOB"), ("REAL", "REAL"), ("FLOA", "REAL"), ("DOUB", "REAL"))  # fmt: skip
    if not said or said == "ANY":
        return "ANY"
    return next((found for part, found in rules if part in said), "NUMERIC")


class Tables:
    """Statements for the rows of one view; `place` is the table of the moment."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.columns = list(shape.schema.names)
        history = shape.kind is Kind.HISTORY
        self.visible = [*self.columns, *VALIDITY] if history else self.columns
        own = OwnNames.beside(shape)
        self._row, self._key = own("row"), own("key")
        self.wanted = own("wanted")
        """A temporary table for keys that somebody asks for."""

    def types(self) -> dict[str, str]:
        found = {field.name: column_type(field.type) for field in self._shape.schema}
        if self._shape.kind is Kind.HISTORY:
            found |= zip(VALIDITY, ("TEXT", "TEXT", "INTEGER"), strict=True)
        return found

    def keeps(self, name: str, found: str) -> bool:
        ours, theirs = self.types()[name], affinity(found)
        return theirs in (ours, "ANY") or (theirs == "NUMERIC" and ours in ("INTEGER", "REAL"))

    def create(self, place: str, label: str, kept: Mapping[str, str]) -> list[str]:
        """`label` names the index, which keeps its name when the table gets another."""
        assert not kept, "a table that we make has our types"
        shape = self._shape
        parts = [
            f"{quoted(f.name)} {column_type(f.type)}{self._rule(f.name)}" for f in shape.schema
        ]
        key = ", ".join(map(quoted, shape.key))
        if shape.kind is Kind.UPSERT:
            parts.append(f"PRIMARY KEY ({key})")
        if shape.kind is not Kind.HISTORY:
            return [f"CREATE TABLE {quoted(place)} ({', '.join(parts)}) STRICT"]
        parts += ["valid_from TEXT NOT NULL", "valid_to TEXT", "current INTEGER NOT NULL"]
        index = quoted(f"{label}_current")
        return [
            f"CREATE TABLE {quoted(place)} ({', '.join(parts)}) STRICT",
            f"CREATE UNIQUE INDEX {index} ON {quoted(place)} ({key}) WHERE current",
        ]

    def has_rules(self, connection: sqlite3.Connection, place: str) -> bool:
        """Whether a table is not as `create` makes it, or has triggers or indexes of its own."""
        found = connection.execute(
            "SELECT type, sql FROM sqlite_master WHERE tbl_name = ? COLLATE NOCASE AND sql IS NOT NULL",
            (place,),
        ).fetchall()
        ours = [each.partition(quoted(place))[2].strip() for each in self.create(place, "", {})]
        tables = [sql for kind, sql in found if kind == "table"]
        extra = len(found) - len(ours)
        return extra > 0 or not all(sql.endswith(ours[0]) for sql in tables)

    def _rule(self, name: str) -> str:
        return " NOT NULL" if name in self._shape.key else ""

    def insert(self, place: str) -> str:
        """Adds a row, or lets it take the place of the one with its key."""
        names = ", ".join(map(quoted, self.columns))
        values = ", ".join(f"?{n + 1}" for n in range(len(self.columns)))
        # The alias for a view that is called `excluded`.
        insert = f"INSERT INTO {quoted(place)} AS {self._row} ({names}) VALUES ({values})"
        if self._shape.kind is Kind.APPEND:
            return insert
        rest = [name for name in self.columns if name not in self._shape.key]
        change = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in rest)
        key = ", ".join(map(quoted, self._shape.key))
        return f"{insert} ON CONFLICT ({key}) DO {f'UPDATE SET {change}' if rest else 'NOTHING'}"

    def delete(self, place: str) -> str:
        """Takes the key's columns alone."""
        same = " AND ".join(f"{self._of(name)} = ?" for name in self._shape.key)
        return f"DELETE FROM {quoted(place)} AS {self._row} WHERE {same}"

    def close_changed(self, place: str) -> str:
        """Ends the key's row of the moment, unless the new one is the same."""
        same = " AND ".join(f"{self._of(name)} IS ?{n + 1}" for n, name in enumerate(self.columns))
        return f"{self.close(place)} AND NOT ({same})"

    def close(self, place: str) -> str:
        since, row = f"?{len(self.columns) + 1}", self._row
        return (
            f"UPDATE {quoted(place)} AS {row} SET valid_to = max({since}, {row}.valid_from), "
            f"current = 0 WHERE {row}.current AND {self._is_key()}"
        )

    def open(self, place: str) -> str:
        """Adds a row that holds from now on, unless the key has one; never before the one it follows."""
        count, row = len(self.columns), self._row
        names = ", ".join(map(quoted, self.visible))
        values = ", ".join(f"?{n + 1}" for n in range(count))
        table, key = f"{quoted(place)} AS {row}", self._is_key()
        last = f"(SELECT max({row}.valid_to) FROM {table} WHERE {key})"
        since = f"max(?{count + 1}, coalesce({last}, ?{count + 1}))"
        return (
            f"INSERT INTO {quoted(place)} ({names}) SELECT {values}, {since}, NULL, 1 "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {row}.current AND {key})"
        )

    def select(self, place: str, *, wanted: bool = False) -> str:
        """All rows, or those whose keys are in the temporary table `wanted`."""
        chosen = f"SELECT {', '.join(map(self._of, self.visible))} FROM "
        table = f"{quoted(place)} AS {self._row}"
        if not wanted:
            return chosen + table
        keys = f"(SELECT DISTINCT * FROM {self.wanted}) AS {self._key}"
        same = (f"{self._of(name)} = {self._key}.{quoted(name)}" for name in self._shape.key)
        return f"{chosen}{keys} JOIN {table} ON {' AND '.join(same)}"

    def want(self) -> tuple[str, str]:
        """Makes the temporary table; adds a key to it."""
        names = ", ".join(map(quoted, self._shape.key))
        marks = ", ".join("?" for _ in self._shape.key)
        return (
            f"CREATE TEMP TABLE {self.wanted} ({names})",
            f"INSERT INTO {self.wanted} VALUES ({marks})",
        )

    def _of(self, name: str) -> str:
        return f"{self._row}.{quoted(name)}"

    def _is_key(self) -> str:
        places = ((name, self.columns.index(name) + 1) for name in self._shape.key)
        return " AND ".join(f"{self._of(name)} = ?{place}" for name, place in places)
