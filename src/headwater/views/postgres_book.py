"""The book of views in a PostgreSQL database (`sql_book`), and connections to the database.

A commit locks its view's entry first, so two writers come one after the other, and the second sees that it
was fenced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
from psycopg import errors

from headwater.views.postgres_tables import BOOK
from headwater.views.sql_book import TABLE, SqlBook, quoted
from headwater.views.target import Shape, Unavailable

Connection = psycopg.Connection[tuple[Any, ...]]
CONNECT_S = 10
# The server goes away, or asks for the same once more.
_AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
REFUSED = (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded)
"""What PostgreSQL says of a row: of a wrong type, too long, against a rule, too large for an index."""


class Book(SqlBook):
    mark = "%s"
    for_update = " FOR UPDATE"

    def __init__(self, address: str, shape: Shape) -> None:
        super().__init__("PostgreSQL", shape)
        self._address = address

    def writing(self) -> AbstractContextManager[Connection]:
        return self.connected()

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

    def run(self, connection: Connection, statement: str, values: Sequence[object] = ()) -> Any:
        # Bytes, as psycopg takes text only where it stands in the program; without values, % is %.
        return connection.execute(statement.encode(), values or None)

    def columns_of(self, connection: Connection, table: str) -> list[str]:
        """Of the table that this name means here."""
        found = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 "
            "AND NOT attisdropped ORDER BY attnum",
            (quoted(table),),
        )
        return [name for (name,) in found]

    def lock_all(self, connection: Connection) -> None:
        if self.columns_of(connection, TABLE):
            connection.execute(
                "SELECT 1 FROM headwater_views WHERE view = %s ORDER BY version FOR UPDATE",
                (self._view,),
            )
