"""The book of views in an SQLite file (`sql.book`), and connections to the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.views.targets.contract import Misfit, Shape, Unavailable
from headwater.views.targets.sql.book import TABLE, SqlBook
from headwater.views.targets.sqlite.statements import BOOK

BUSY_S = 30.0
_PASSING = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_SCHEMA,
)  # fmt: skip
"""Codes after which the same may succeed later; a column that is missing does not come back by itself."""


def trouble(error: sqlite3.Error, path: Path, where: str, view: str) -> HeadwaterError:
    """What an error means for a view: `Unavailable` if it passes, otherwise `Misfit`."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _PASSING and not path.is_dir():
        return Unavailable(f"{where} cannot be used now: {error}")
    return Misfit(
        f"{where} does not take the view {view!r}: {error}",
        hint="put back what was changed by hand (a table, a column, the file's rights), or rebuild "
        f"the view with headwater rebuild {view}",
    )


class Book(SqlBook):
    mark = "?"
    coarse = """SELECT x.name FROM pragma_index_list(?) i, pragma_index_xinfo(i.name) x
        WHERE x.key AND x.coll <> 'BINARY'"""

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
        except sqlite3.Error as error:
            raise trouble(error, self._path, self.where, self._view) from error

    def create(self, connection: sqlite3.Connection) -> None:
        connection.execute(BOOK)
        if "shape" not in self.columns_of(connection, TABLE):
            connection.execute(f"ALTER TABLE {TABLE} ADD COLUMN shape TEXT")

    def run(
        self, connection: sqlite3.Connection, statement: str, values: Sequence[object] = ()
    ) -> sqlite3.Cursor:
        return connection.execute(statement, values)

    def types_of(self, connection: sqlite3.Connection, table: str) -> dict[str, str]:
        # Only a strict table has columns of any type: elsewhere SQLite takes the word for NUMERIC.
        statement = """SELECT c.name, CASE WHEN t.strict OR upper(c.type) <> 'ANY' THEN c.type
            ELSE 'NUMERIC' END FROM pragma_table_info(?1) c, pragma_table_list(?1) t"""
        return dict(connection.execute(statement, (table,)))

    def lock_all(self, connection: sqlite3.Connection) -> None:
        """There is one writer at a time."""
