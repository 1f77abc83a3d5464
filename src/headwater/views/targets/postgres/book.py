"""The book of views in a PostgreSQL database (`sql.book`), and connections to the database.

A commit locks its view's entry first, so two writers come one after the other, and the second sees that it
was fenced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
from psycopg import errors

from headwater.errors import HeadwaterError
from headwater.views.targets.contract import Misfit, Shape, Unavailable
from headwater.views.targets.postgres.statements import BOOK
from headwater.views.targets.sql.book import TABLE, SqlBook, quoted

Connection = psycopg.Connection[tuple[Any, ...]]
CONNECT_S = 10
REFUSED = (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded)
"""What PostgreSQL says of a row: of a wrong type, too long, against a rule, too large for an index."""


_PASSING = ("08", "53", "40", "57014", "57P01", "57P02", "57P03", "57P05", "55P03", "55006",
            "58000", "58030", "25006", "25P03")  # fmt: skip
"""SQLSTATEs, or their classes, after which the same may succeed later: no connection, no resources, a
deadlock, a server that stops or starts or is a standby, a lock, a disk. Of what is no more there, and of
what is not allowed, none passes."""
_REFUSED_AT_THE_DOOR = re.compile(
    r"authentication failed|no pg_hba\.conf entry|no password supplied"
    r'|(?:database|role) ".*" (?:does not exist|is not permitted)',
    re.S,
)
"""What libpq says of a connection that will not be; it gives no SQLSTATE."""
_SHORT = {
    "timestamp with time zone": "timestamptz",
    "timestamp without time zone": "timestamp",
    "time without time zone": "time",
}


def trouble(error: psycopg.Error, view: str) -> HeadwaterError:
    """What an error means for a view: `Unavailable` if it passes, otherwise `Misfit`."""
    said, state = " ".join(str(error).split()), error.sqlstate
    if state is None:
        passes = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        passes = passes and not _REFUSED_AT_THE_DOOR.search(said)
    else:
        passes = state.startswith(_PASSING) or "concurrently updated" in said
    if passes:
        return Unavailable(f"PostgreSQL cannot be used now: {said}")
    hint = f"put back what was changed by hand, or rebuild the view: headwater rebuild {view}"
    if state is None or state.startswith("28") or isinstance(error, errors.InsufficientPrivilege):
        hint = "grant the role of the view's address what it lacks, or name another role there"
    return Misfit(f"PostgreSQL does not take the view {view!r}: {said}", hint=hint)


class Book(SqlBook):
    mark = "%s"
    for_update = " FOR UPDATE"
    coarse = """SELECT attname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_collation c ON c.oid = a.attcollation
        WHERE attrelid = to_regclass(quote_ident(%s)) AND attnum > 0
        AND (typname = 'citext' OR NOT collisdeterministic)"""

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
        except psycopg.Error as error:
            raise trouble(error, self._view) from error

    def create(self, connection: Connection) -> None:
        # Two views may be created at once, and IF NOT EXISTS looks before it waits.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('headwater_views'))")
        connection.execute(BOOK)
        if "shape" not in self.columns_of(connection, TABLE):
            connection.execute(f"ALTER TABLE {TABLE} ADD COLUMN shape text".encode())

    def run(self, connection: Connection, statement: str, values: Sequence[object] = ()) -> Any:
        # Bytes, as psycopg takes text only where it stands in the program; without values, % is %.
        return connection.execute(statement.encode(), values or None)

    def types_of(self, connection: Connection, table: str) -> dict[str, str]:
        """Of the table that this name means here."""
        found = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attnum > 0 "
            "AND attrelid = to_regclass(%s) AND NOT attisdropped ORDER BY attnum",
            (quoted(table),),
        )
        return {name: _SHORT.get(str(kind), str(kind)) for name, kind in found}

    def others(self, connection: Connection) -> list[tuple[str, str]]:
        """Also of books further down the search path: a name without a schema may mean their tables."""
        found = super().others(connection)
        schemas = connection.execute(
            "SELECT nspname FROM pg_namespace AS n JOIN pg_class AS c ON c.relnamespace = n.oid "
            "WHERE relname = %s AND nspname = ANY (current_schemas(false)) "
            "AND nspname <> current_schema()",
            (TABLE,),
        ).fetchall()
        for (schema,) in schemas:
            book = f"{quoted(schema)}.{TABLE}"
            found += connection.execute(f"SELECT view, place FROM {book}".encode()).fetchall()
        return found

    def lock_all(self, connection: Connection) -> None:
        if self.columns_of(connection, TABLE):
            connection.execute(
                "SELECT 1 FROM headwater_views WHERE view = %s ORDER BY version FOR UPDATE",
                (self._view,),
            )
