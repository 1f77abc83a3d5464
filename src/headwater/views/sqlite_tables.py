"""The statements that a view in SQLite needs, from its shape; text only, no connection.

A staged row is given as its columns, and in a history `_valid_from` after them; parameters are numbered,
as several statements take the same row.
"""

from __future__ import annotations

from headwater.views.sql_book import quoted
from headwater.views.sqlite_values import column_type
from headwater.views.target import VALIDITY, Kind, Shape

BOOK = """CREATE TABLE IF NOT EXISTS headwater_views (
    view TEXT NOT NULL, version INTEGER NOT NULL, place TEXT NOT NULL, epoch INTEGER NOT NULL,
    batch INTEGER, position TEXT, current INTEGER NOT NULL,
    PRIMARY KEY (view, version)) STRICT"""


class Tables:
    """Statements for the rows of one view; `place` is the table of the moment."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.columns = list(shape.schema.names)
        history = shape.kind is Kind.HISTORY
        self.visible = [*self.columns, *VALIDITY] if history else self.columns

    def create(self, place: str, label: str) -> list[str]:
        """`label` names the index, which keeps its name when the table gets another."""
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

    def _rule(self, name: str) -> str:
        return " NOT NULL" if name in self._shape.key else ""

    def insert(self, place: str) -> str:
        """Adds a row, or lets it take the place of the one with its key."""
        names = ", ".join(map(quoted, self.columns))
        values = ", ".join(f"?{n + 1}" for n in range(len(self.columns)))
        insert = f"INSERT INTO {quoted(place)} ({names}) VALUES ({values})"
        if self._shape.kind is Kind.APPEND:
            return insert
        rest = [name for name in self.columns if name not in self._shape.key]
        change = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in rest)
        key = ", ".join(map(quoted, self._shape.key))
        return f"{insert} ON CONFLICT ({key}) DO {f'UPDATE SET {change}' if rest else 'NOTHING'}"

    def delete(self, place: str) -> str:
        """Takes the key's columns alone."""
        same = " AND ".join(f"{quoted(name)} = ?" for name in self._shape.key)
        return f"DELETE FROM {quoted(place)} WHERE {same}"

    def close_changed(self, place: str) -> str:
        """Ends the key's row of the moment, unless the new one is the same."""
        same = " AND ".join(f"{quoted(name)} IS ?{n + 1}" for n, name in enumerate(self.columns))
        return f"{self.close(place)} AND NOT ({same})"

    def close(self, place: str) -> str:
        since = f"?{len(self.columns) + 1}"
        return (
            f"UPDATE {quoted(place)} SET valid_to = max({since}, valid_from), current = 0 "
            f"WHERE current AND {self._is_key()}"
        )

    def open(self, place: str) -> str:
        """Adds a row that holds from now on, unless the key has one; never before the one it follows."""
        count = len(self.columns)
        names = ", ".join(map(quoted, self.visible))
        values = ", ".join(f"?{n + 1}" for n in range(count))
        table, key = quoted(place), self._is_key()
        last = f"(SELECT max(valid_to) FROM {table} WHERE {key})"
        since = f"max(?{count + 1}, coalesce({last}, ?{count + 1}))"
        return (
            f"INSERT INTO {table} ({names}) SELECT {values}, {since}, NULL, 1 "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE current AND {key})"
        )

    def select(self, place: str, keys: str | None = None) -> str:
        """All rows, or those whose keys are in the table `keys`."""
        names = ", ".join(f"t.{quoted(name)}" for name in self.visible)
        if keys is None:
            return f"SELECT {names} FROM {quoted(place)} AS t"
        same = " AND ".join(f"t.{quoted(name)} = k.{quoted(name)}" for name in self._shape.key)
        return f"SELECT {names} FROM {keys} AS k JOIN {quoted(place)} AS t ON {same}"

    def _is_key(self) -> str:
        places = ((name, self.columns.index(name) + 1) for name in self._shape.key)
        return " AND ".join(f"{quoted(name)} = ?{place}" for name, place in places)
