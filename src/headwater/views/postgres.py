"""A view as a table of a PostgreSQL database: `to="postgresql://…"`, in the table of the view's name.

Tasks COPY their rows into unlogged tables, side by side; the commit is one transaction of a few statements
that moves them into the view's table and notes the position. Rows that the server refuses (a type, a
length, NOT NULL, a constraint) are found and kept apart; of the table's own rules most show when a row is
staged, as the staging table has its types and checks, foreign and unique keys when it is to count.

A server that is killed in the middle has the batch before or the batch after. Unlogged tables are empty
after a crash: the commit counts what it finds, and a part that is not whole makes the batch come again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from psycopg import errors

from headwater.views.postgres_book import REFUSED, Book, Connection
from headwater.views.postgres_refused import Search, arrow_rows
from headwater.views.postgres_staged import (
    Place,
    StagedTables,
    run_all,
)
from headwater.views.postgres_tables import Tables, gone_of, listed
from headwater.views.postgres_values import as_csv
from headwater.views.sql_book import quoted
from headwater.views.sql_target import SqlTarget
from headwater.views.target import (
    Applied,
    Kind,
    Misfit,
    Part,
    RowsRefused,
    Shape,
    Unavailable,
)

READ_ROWS = 10_000
NAME_MAX = 50
"""PostgreSQL cuts names at 63 bytes; versions and indexes have more at their end."""


class PostgresTarget(SqlTarget):
    kinds = frozenset(Kind)
    _book: Book
    _tables: Tables

    def __init__(self, address: str, shape: Shape) -> None:
        super().__init__(address, shape)
        self._tables = Tables(shape)
        self._staged = StagedTables(shape, self._tables)
        self._book = Book(address, shape)

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        if len(self.name.encode()) > NAME_MAX:
            raise Misfit(
                f"{self.name!r} is too long for a table of PostgreSQL: use {NAME_MAX} bytes"
            )
        super().create()

    # ---- tasks ------------------------------------------------------------------------------------

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        with self._book.connected() as connection:
            place = self._book.known(connection).place
            return self._staged.write(connection, place, batch, part, rows, self._make)

    def _make(self, statements: Sequence[str]) -> None:
        with self._book.connected(autocommit=True) as connection:
            run_all(connection, statements)

    # ---- the driver, at the end of a batch --------------------------------------------------------

    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        with self._refusing(parts), self._book.connected() as connection:
            place = self._is_new(connection, applied)
            if place is not None:
                self._apply(connection, place, parts)
                self._book.note(connection, applied)
            self._staged.clear(connection, applied.batch)

    def correct(self, applied: Applied, parts: Sequence[Part]) -> bool:
        with self._refusing(parts), self._book.connected() as connection:
            entry = self._book.known(connection, lock=True)
            fits = entry.applied == applied
            if fits:
                self._apply(connection, entry.place, parts)
            self._staged.remove(connection, parts)
        return fits

    def _apply(self, connection: Connection, place: str, parts: Sequence[Part]) -> None:
        everything = range(1 << 62)
        for part in parts:
            staged = Place.of(part)
            if staged.gone:
                self._must_be_whole(connection, gone_of(staged.table), staged.gone)
                run_all(connection, self._tables.delete(place, staged.table, everything))
        for part in parts:
            staged = Place.of(part)
            if staged.rows:
                self._must_be_whole(connection, staged.table, staged.rows)
                run_all(connection, self._tables.insert(place, staged.table, everything))

    def _must_be_whole(self, connection: Connection, table: str, rows: int) -> None:
        try:
            found = connection.execute(f"SELECT count(*) FROM {quoted(table)}".encode()).fetchone()
        except errors.UndefinedTable:
            found = None
        if found is None or found[0] != rows:
            raise Unavailable("staged rows are gone, as after a crash of PostgreSQL")

    @contextmanager
    def _refusing(self, parts: Sequence[Part]) -> Iterator[None]:
        """Where the transaction inside meets rows that are refused only now, they are found and told."""
        try:
            yield
        except REFUSED as error:
            refusals = Search(self._book, self._tables, self.shape).refused(parts)
            if not refusals:
                raise Unavailable(
                    f"PostgreSQL refused a batch, and then no row of it: {error}"
                ) from error
            raise RowsRefused(refusals) from error

    # ---- readers ----------------------------------------------------------------------------------

    @contextmanager
    def reading(
        self, keys: pa.Table | None = None
    ) -> Iterator[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        with self._book.connected() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            entry = self._book.known(connection)
            chosen = None if keys is None else self._wanted(connection, entry.place, keys)
            with connection.cursor(name="headwater", binary=True) as cursor:
                cursor.execute(self._tables.select(entry.place, chosen).encode())
                pages = iter(lambda: cursor.fetchmany(READ_ROWS), [])
                schema = self.visible_schema()
                yield entry.applied, (arrow_rows(rows, schema) for rows in pages)

    def _wanted(self, connection: Connection, place: str, keys: pa.Table) -> str:
        names = listed(self.shape.key)
        connection.execute(
            f"CREATE TEMP TABLE _wanted ON COMMIT DROP AS SELECT {names} FROM {quoted(place)} "
            "WITH NO DATA".encode()
        )
        with connection.cursor().copy(b"COPY _wanted FROM STDIN (FORMAT csv)") as copy:
            for batch in keys.select(list(self.shape.key)).to_batches():
                copy.write(as_csv(batch))
        return "(SELECT DISTINCT * FROM _wanted)"

    # ---- versions ---------------------------------------------------------------------------------

    def _drop_staged(self, connection: Connection) -> None:
        self._staged.clear(connection, 1 << 62)
