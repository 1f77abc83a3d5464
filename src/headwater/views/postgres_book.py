"""What a PostgreSQL database knows of the views in it: the table `headwater_views`, and connections to it.

Columns as in `sqlite_book`. A commit locks its view's entry first, so two writers come one after the
other, and the second sees that it was fenced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import errors

from headwater.views.position import Position
from headwater.views.postgres_tables import BOOK, quoted
from headwater.views.target import Applied, Misfit, Shape, Unavailable

Connection = psycopg.Connection[tuple[Any, ...]]
CONNECT_S = 10
_MINE = "WHERE view = %s AND version = %s"
_FIELDS = "place, epoch, batch, position, current"
# The server goes away, or asks for the same once more.
_AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
REFUSED = (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded)
"""What PostgreSQL says of a row: of a wrong type, too long, against a rule, too large for an index."""


class Entry(NamedTuple):
    place: str
    epoch: int
    applied: Applied | None
    current: bool


class Book:
    """The entries of one view in one database."""

    def __init__(self, address: str, shape: Shape) -> None:
        self._address = address
        self._view, self._version = shape.view, shape.version

    @contextmanager
    def connected(self, *, autocommit: bool = False) -> Iterator[Connection]:
        """One transaction, or each statement one."""
        try:
            with psycopg.connect(
                self._address,
                autocommit=autocommit,
                connect_timeout=CONNECT_S,
                application_name=f"headwater view {self._view}",
                client_encoding="UTF8",
            ) as connection:
                # Not by `options`: the address may have its own there, a search_path for example.
                connection.execute("SET TIME ZONE 'UTC'")
                yield connection
        except REFUSED:
            raise
        except _AWAY as error:
            said = " ".join(str(error).split())
            raise Unavailable(f"PostgreSQL cannot be used now: {said}") from error

    def create(self, connection: Connection) -> None:
        # Two views may be created at once, and IF NOT EXISTS looks before it waits.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('headwater_views'))")
        connection.execute(BOOK)

    def exists(self, connection: Connection) -> bool:
        return bool(columns_of(connection, "headwater_views"))

    def find(self, connection: Connection, *, lock: bool = False) -> Entry | None:
        if not self.exists(connection):
            return None
        held = " FOR UPDATE" if lock else ""
        found = connection.execute(
            f"SELECT {_FIELDS} FROM headwater_views {_MINE}{held}", (self._view, self._version)
        ).fetchone()
        return None if found is None else _entry(*found)

    def known(self, connection: Connection, *, lock: bool = False) -> Entry:
        entry = self.find(connection, lock=lock)
        if entry is None:
            raise Misfit(
                f"version {self._version} of the view {self._view!r} is not in this database",
                hint="headwater run and headwater rebuild make versions",
            )
        return entry

    def versions(self, connection: Connection) -> dict[int, Applied | None]:
        if not self.exists(connection):
            return {}
        found = connection.execute(
            f"SELECT version, {_FIELDS} FROM headwater_views WHERE view = %s ORDER BY version",
            (self._view,),
        )
        return {version: _entry(*rest).applied for version, *rest in found}

    def current(self, connection: Connection) -> int | None:
        if not self.exists(connection):
            return None
        found = connection.execute(
            "SELECT version FROM headwater_views WHERE view = %s AND current", (self._view,)
        ).fetchone()
        return found[0] if found else None

    # ---- changes ------------------------------------------------------------------------------------

    def add(self, connection: Connection, place: str, *, current: bool) -> None:
        connection.execute(
            "INSERT INTO headwater_views (view, version, place, epoch, current) "
            "VALUES (%s, %s, %s, 0, %s)",
            (self._view, self._version, place, current),
        )

    def claim(self, connection: Connection) -> int:
        epoch = self.known(connection, lock=True).epoch + 1
        connection.execute(
            f"UPDATE headwater_views SET epoch = %s {_MINE}", (epoch, self._view, self._version)
        )
        return epoch

    def note(self, connection: Connection, applied: Applied) -> None:
        connection.execute(
            f"UPDATE headwater_views SET batch = %s, position = %s {_MINE}",
            (applied.batch, applied.position.to_json(), self._view, self._version),
        )

    def lock_all(self, connection: Connection) -> None:
        """Keep writers of all versions out until the end of the transaction."""
        if self.exists(connection):
            connection.execute(
                "SELECT 1 FROM headwater_views WHERE view = %s ORDER BY version FOR UPDATE",
                (self._view,),
            )

    def move(
        self, connection: Connection, version: int, place: str, to: str, *, current: bool = False
    ) -> None:
        connection.execute(f"ALTER TABLE {quoted(place)} RENAME TO {quoted(to)}".encode())
        connection.execute(
            f"UPDATE headwater_views SET place = %s, current = %s {_MINE}",
            (to, current, self._view, version),
        )

    def remove(self, connection: Connection) -> None:
        connection.execute(f"DELETE FROM headwater_views {_MINE}", (self._view, self._version))


def columns_of(connection: Connection, table: str) -> list[str]:
    """Of the table that this name means here; none where there is no such table."""
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 "
        "AND NOT attisdropped ORDER BY attnum",
        (quoted(table),),
    )
    return [name for (name,) in found]


def _entry(place: str, epoch: int, batch: int | None, position: str | None, current: bool) -> Entry:
    applied = None
    if batch is not None and position is not None:
        applied = Applied(batch, epoch, Position.from_json(position))
    return Entry(place, epoch, applied, current)
