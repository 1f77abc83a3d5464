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

from headwater.views.postgres_book import REFUSED, Book, Connection, columns_of
from headwater.views.postgres_refused import Search, arrow_rows
from headwater.views.postgres_staged import (
    Place,
    StagedTables,
    run_all,
)
from headwater.views.postgres_tables import Tables, gone_of, listed, quoted
from headwater.views.postgres_values import as_csv
from headwater.views.target import (
    Applied,
    Fenced,
    Kind,
    Misfit,
    Part,
    RowsRefused,
    Shape,
    Target,
    Unavailable,
)

READ_ROWS = 10_000
NAME_MAX = 50
"""PostgreSQL cuts names at 63 bytes; versions and indexes have more at their end."""


class PostgresTarget(Target):
    kinds = frozenset(Kind)

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
        with self._book.connected() as connection:
            self._book.create(connection)
            entry = self._book.find(connection)
            if entry is not None:
                self._must_fit(connection, entry.place)
                return
            label = f"{self.name}__v{self.shape.version}"
            first = self._book.current(connection) is None
            place = self.name if first else label
            if columns_of(connection, place):
                self._adopt(connection, place)
            else:
                run_all(connection, self._tables.create(place, label))
            self._book.add(connection, place, current=first)

    def claim(self) -> int:
        with self._book.connected() as connection:
            return self._book.claim(connection)

    def applied(self) -> Applied | None:
        with self._book.connected() as connection:
            entry = self._book.find(connection)
            return entry.applied if entry else None

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
            entry = self._book.known(connection, lock=True)
            if entry.epoch > applied.epoch:
                raise Fenced(f"the view {self.shape.view!r} in PostgreSQL has another writer now")
            if entry.applied is None or entry.applied.batch < applied.batch:
                self._apply(connection, entry.place, parts)
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

    def versions(self) -> dict[int, Applied | None]:
        with self._book.connected() as connection:
            return self._book.versions(connection)

    def current(self) -> int | None:
        with self._book.connected() as connection:
            return self._book.current(connection)

    def switch(self) -> None:
        with self._book.connected() as connection:
            self._book.lock_all(connection)
            entry, before = self._book.known(connection), self._book.current(connection)
            if entry.current:
                return
            if before is not None:
                self._book.move(connection, before, self.name, f"{self.name}__v{before}")
            self._book.move(connection, self.shape.version, entry.place, self.name, current=True)

    def drop(self) -> None:
        with self._book.connected() as connection:
            self._book.lock_all(connection)
            entry = self._book.find(connection)
            if entry is None:
                return
            if entry.current:
                raise Misfit(
                    f"version {self.shape.version} of the view {self.shape.view!r} is what readers see",
                    hint="switch to another version first",
                )
            self._staged.clear(connection, 1 << 62)
            connection.execute(f"DROP TABLE {quoted(entry.place)}".encode())
            self._book.remove(connection)

    # ---- tables that were there -------------------------------------------------------------------

    def _must_fit(self, connection: Connection, place: str) -> None:
        found, wanted = columns_of(connection, place), self._tables.visible
        if set(found) != set(wanted):
            raise Misfit(
                f"the table {place} in PostgreSQL has the columns {', '.join(found) or 'none'}, and "
                f"the view {self.shape.view!r} has {', '.join(wanted)}: build a new version of it with "
                f"headwater rebuild {self.shape.view}"
            )

    def _adopt(self, connection: Connection, place: str) -> None:
        """A table that somebody made for the view, perhaps with more rules, may be used if empty."""
        self._must_fit(connection, place)
        found = connection.execute(f"SELECT 1 FROM {quoted(place)} LIMIT 1".encode()).fetchone()
        if found:
            raise Misfit(
                f"the table {place} in PostgreSQL has rows that are not of the view "
                f"{self.shape.view!r}: empty it, or name another one with options={{'table': …}}"
            )
