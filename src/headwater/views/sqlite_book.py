"""What an SQLite file knows of the views in it: the table `headwater_views`, and connections to it.

view, version   which
place           the table of this version at the moment: a switch renames
epoch           of the writer; an older one is refused
batch, position how far it is; null before the first batch
current         whether readers see it under the view's name
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from headwater.views.position import Position
from headwater.views.sqlite_tables import BOOK, quoted
from headwater.views.target import Applied, Misfit, Shape, Unavailable

BUSY_S = 30.0
_MINE = "WHERE view = ? AND version = ?"


class Entry(NamedTuple):
    place: str
    epoch: int
    applied: Applied | None
    current: bool


class Book:
    """The entries of one view in one file."""

    def __init__(self, path: Path, address: str, shape: Shape) -> None:
        self._path, self._address = path, address
        self._view, self._version = shape.view, shape.version

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, of the only writer."""
        with self.connected(make=True) as connection:
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
    def connected(self, *, make: bool = False) -> Iterator[sqlite3.Connection]:
        place = str(self._path) if make or self._path.exists() else ":memory:"
        try:
            # Autocommit: transactions begin and end where it says so.
            connection = sqlite3.connect(place, timeout=BUSY_S, isolation_level=None)
            with closing(connection):
                yield connection
        except sqlite3.OperationalError as error:
            raise Unavailable(f"{self._address} cannot be used now: {error}") from error

    def create(self, connection: sqlite3.Connection) -> None:
        connection.execute(BOOK)

    def find(self, connection: sqlite3.Connection) -> Entry | None:
        if not columns_of(connection, "headwater_views"):
            return None
        found = connection.execute(
            f"SELECT place, epoch, batch, position, current FROM headwater_views {_MINE}",
            (self._view, self._version),
        ).fetchone()
        return None if found is None else _entry(*found)

    def known(self, connection: sqlite3.Connection) -> Entry:
        entry = self.find(connection)
        if entry is None:
            raise Misfit(
                f"version {self._version} of the view {self._view!r} is not in {self._address}",
                hint="headwater run and headwater rebuild make versions",
            )
        return entry

    def versions(self, connection: sqlite3.Connection) -> dict[int, Applied | None]:
        if not columns_of(connection, "headwater_views"):
            return {}
        found = connection.execute(
            "SELECT version, place, epoch, batch, position, current FROM headwater_views "
            "WHERE view = ? ORDER BY version",
            (self._view,),
        )
        return {version: _entry(*rest).applied for version, *rest in found}

    def current(self, connection: sqlite3.Connection) -> int | None:
        if not columns_of(connection, "headwater_views"):
            return None
        found = connection.execute(
            "SELECT version FROM headwater_views WHERE view = ? AND current", (self._view,)
        ).fetchone()
        return found[0] if found else None

    # ---- inside a transaction ---------------------------------------------------------------------

    def add(self, connection: sqlite3.Connection, place: str, *, current: bool) -> None:
        connection.execute(
            "INSERT INTO headwater_views (view, version, place, epoch, current) "
            "VALUES (?, ?, ?, 0, ?)",
            (self._view, self._version, place, current),
        )

    def claim(self, connection: sqlite3.Connection) -> int:
        self.known(connection)
        connection.execute(
            f"UPDATE headwater_views SET epoch = epoch + 1 {_MINE}", (self._view, self._version)
        )
        return self.known(connection).epoch

    def note(self, connection: sqlite3.Connection, applied: Applied) -> None:
        connection.execute(
            f"UPDATE headwater_views SET batch = ?, position = ? {_MINE}",
            (applied.batch, applied.position.to_json(), self._view, self._version),
        )

    def move(
        self, con: sqlite3.Connection, version: int, place: str, to: str, *, current: bool = False
    ) -> None:
        con.execute(f"ALTER TABLE {quoted(place)} RENAME TO {quoted(to)}")
        con.execute(
            f"UPDATE headwater_views SET place = ?, current = ? {_MINE}",
            (to, current, self._view, version),
        )

    def remove(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"DELETE FROM headwater_views {_MINE}", (self._view, self._version))


def columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    """None where there is no such table."""
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return [name for (name,) in found]


def _entry(place: str, epoch: int, batch: int | None, position: str | None, current: int) -> Entry:
    applied = None
    if batch is not None and position is not None:
        applied = Applied(batch, epoch, Position.from_json(position))
    return Entry(place, epoch, applied, bool(current))
