"""The book of views in an SQLite file (`sql_book`), and connections to the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from headwater.views.sql_book import SqlBook
from headwater.views.sqlite_tables import BOOK
from headwater.views.target import Shape, Unavailable

BUSY_S = 30.0


class Book(SqlBook):
    mark = "?"

    def __init__(self, path: Path, address: str, shape: Shape) -> None:
        super().__init__(address, shape)
        self._path = path

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, of the only writer."""
        with self._opened(str(self._path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """To look, which makes no file."""
        with self._opened(str(self._path) if self._path.exists() else ":memory:") as connection:
            yield connection

    @contextmanager
    def _opened(self, place: str) -> Iterator[sqlite3.Connection]:
        try:
            # Autocommit: transactions begin and end where it says so.
            connection = sqlite3.connect(place, timeout=BUSY_S, isolation_level=None)
            with closing(connection):
                yield connection
        except sqlite3.OperationalError as error:
            raise Unavailable(f"{self.where} cannot be used now: {error}") from error

    def create(self, connection: sqlite3.Connection) -> None:
        connection.execute(BOOK)

    def run(
        self, connection: sqlite3.Connection, statement: str, values: Sequence[object] = ()
    ) -> sqlite3.Cursor:
        return connection.execute(statement, values)

    def columns_of(self, connection: sqlite3.Connection, table: str) -> list[str]:
        found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return [name for (name,) in found]

    def lock_all(self, connection: sqlite3.Connection) -> None:
        """There is one writer at a time."""
