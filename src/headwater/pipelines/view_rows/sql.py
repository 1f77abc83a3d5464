"""Rows of views in SQL stores, one query each, within one read transaction with the position. SQLite here.

What differs between stores is how to connect, to mark a parameter and to ask for columns. A key's texts are
cast by the store to the types of its columns, so that its index finds them.
"""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from headwater.client.position import Position
from headwater.pipelines.view_rows.contract import Row, Rows
from headwater.pipelines.view_rows.values import key_of, parts_of, plain
from headwater.views.targets.sql.book import TABLE, quoted
from headwater.views.targets.sqlite.book import trouble

FETCH = 1000
BUSY_S = 5.0


class Place(NamedTuple):
    """The table of the version that readers see, and how far it is."""

    table: str
    position: Position | None
    columns: Mapping[str, str]
    """Name → type, as the store writes it."""


class SqlRows(Rows):
    """Asks SQL."""

    mark: ClassVar[str]
    text_order: ClassVar[str] = ""
    """What makes texts sort by their characters, whatever the language of the database."""

    # ---- each store's own -------------------------------------------------------------------------

    @abstractmethod
    def connected(self) -> AbstractContextManager[Any]:
        """A connection that sees one moment."""

    @abstractmethod
    def run(self, connection: Any, statement: str, values: Sequence[Any] = ()) -> Any:
        """A cursor with `fetchmany`; raises the store's own errors."""

    @abstractmethod
    def columns(self, connection: Any, table: str) -> Mapping[str, str]:
        """Empty where there is no such table."""

    def is_bad_key(self, error: Exception) -> bool:
        """Whether the store says by this error that a text cannot be cast to a key's type."""
        return False

    def name(self, name: str) -> str:
        """Of a column or table, in a statement."""
        return quoted(name)

    # ---- the questions ----------------------------------------------------------------------------

    def get(self, key: str) -> tuple[Position | None, Row | None]:
        parts = parts_of(key, len(self.view.key))
        with self.connected() as connection:
            place = self._place(connection)
            if parts is None:
                return place.position, None
            same = " AND ".join(
                f"{self.name(name)} = {self._cast(place, name)}" for name in self.view.key
            )
            found = self._rows(connection, place, f"WHERE {same}{self._now(' AND ')}", parts)
            # A text that the store has bent into a number, such as '17abc', is no key.
            rows = [row for row in found if row.key == key]
        return place.position, rows[0] if rows else None

    def page(self, after: str | None, limit: int) -> tuple[Position | None, list[Row]]:
        with self.connected() as connection:
            place = self._place(connection)
            ordered = [f"{self.name(n)}{self._order(place, n)}" for n in self.view.key]
            where, values = self._now("WHERE "), list[Any]()
            if after is not None:
                parts = parts_of(after, len(ordered))
                if parts is None:
                    raise self.no_key(after)
                marks = ", ".join(self._cast(place, name) for name in self.view.key)
                where = f"WHERE ({', '.join(ordered)}) > ({marks}){self._now(' AND ')}"
                values += parts
            rest = f"{where} ORDER BY {', '.join(ordered)} LIMIT {int(limit)}"
            return place.position, list(self._rows(connection, place, rest, values))

    @contextmanager
    def all(self) -> Iterator[tuple[Position | None, Iterator[Row]]]:
        with self.connected() as connection:
            place = self._place(connection)
            yield place.position, self._rows(connection, place, self._now("WHERE "), ())

    # ---- statements -------------------------------------------------------------------------------

    def _place(self, connection: Any) -> Place:
        if not self.columns(connection, TABLE):
            raise self.not_yet()
        asked = f"SELECT place, position FROM {TABLE} WHERE view = {self.mark} AND current"
        found = self.run(connection, asked, (self.view.name,)).fetchall()
        if not found:
            raise self.not_yet()
        table, position = found[0]
        at = None if position is None else Position.from_json(position)
        return Place(table, at, self.columns(connection, table))

    def _rows(
        self, connection: Any, place: Place, rest: str, values: Sequence[Any]
    ) -> Iterator[Row]:
        names = list(place.columns)
        listed = ", ".join(map(self.name, names))
        asked = f"SELECT {listed} FROM {self.name(place.table)} {rest}"
        try:
            cursor = self.run(connection, asked, values)
        except Exception as error:
            if self.is_bad_key(error):
                return  # then no row has it, and none is behind it
            raise
        while some := cursor.fetchmany(FETCH):
            for each in some:
                fields = {name: plain(value) for name, value in zip(names, each, strict=True)}
                yield Row(key_of(fields, self.view.key), fields)

    def _cast(self, place: Place, name: str) -> str:
        return f"CAST({self.mark} AS {place.columns.get(name, 'TEXT')})"

    def _order(self, place: Place, name: str) -> str:
        kind = place.columns.get(name, "").lower()
        return self.text_order if "text" in kind or "char" in kind else ""

    def _now(self, begin: str) -> str:
        return f"{begin}current" if self.is_history else ""


class SqliteRows(SqlRows):
    """In an SQLite file; its booleans are 0 and 1, lists and objects are texts."""

    mark = "?"

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        path = Path(self.address.partition(":")[2]).resolve()
        if not path.exists():
            raise self.not_yet()
        try:
            connection = sqlite3.connect(str(path), timeout=BUSY_S, isolation_level=None)
            with closing(connection):
                connection.execute("PRAGMA query_only = ON")
                connection.execute("BEGIN")
                yield connection
        except sqlite3.DatabaseError as error:
            raise trouble(error, path, path.name, self.view.name) from error

    def run(
        self, connection: sqlite3.Connection, statement: str, values: Sequence[Any] = ()
    ) -> sqlite3.Cursor:
        return connection.execute(statement, values)

    def columns(self, connection: sqlite3.Connection, table: str) -> Mapping[str, str]:
        found = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
        return {name: kind or "TEXT" for name, kind in found}
