"""A view as a table of a PostgreSQL database: `to="postgresql://…"`, in the table of the view's name.

Tasks COPY their rows into unlogged tables, side by side; the commit is one transaction of a few statements
that moves them into the view's table and notes the position. Rows that the server refuses (a type, a
length, NOT NULL, a constraint) are found and kept apart; of the table's own rules most show when a row is
staged, as the staging table has its types and checks, foreign and unique keys when it is to count.

A server that is killed in the middle has the batch before or the batch after. Unlogged tables are empty
after a crash: the commit counts what it finds, and a part that is not whole makes the batch come again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from headwater.views.targets.libraries import missing

try:
    import pyarrow as pa
    from psycopg import errors
except ModuleNotFoundError as error:
    raise missing(error, "postgresql", "spark,postgres") from error

from headwater.views.targets import places
from headwater.views.targets.contract import (
    VALID_FROM,
    Applied,
    Kind,
    Misfit,
    Part,
    RowsRefused,
    Shape,
    Unavailable,
)
from headwater.views.targets.postgres.book import REFUSED, Book, Connection
from headwater.views.targets.postgres.properties import oid_of, whole_names
from headwater.views.targets.postgres.refusals import Search, arrow_rows
from headwater.views.targets.postgres.rules import copy_rules
from headwater.views.targets.postgres.staging_tables import StagedTables, run_all
from headwater.views.targets.postgres.statements import Place, Tables, gone_of
from headwater.views.targets.postgres.switch import Handover, must_be_free
from headwater.views.targets.postgres.values import as_csv
from headwater.views.targets.schema_fit import Types, types_of
from headwater.views.targets.sql.book import Entry, quoted
from headwater.views.targets.sql.names import must_be_usable
from headwater.views.targets.sql.target import SqlTarget
from headwater.views.targets.staged_files import Admission
from headwater.views.targets.years import far_times

READ_ROWS = 10_000
SWITCH_S = 30.0
"""How long a switch tries to get in between readers with long queries."""
NAME_MAX = 50
"""PostgreSQL cuts names at 63 bytes; versions and indexes have more at their end."""
COLUMN_MAX = 63
SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})


class PostgresTarget(SqlTarget):
    kinds = frozenset(Kind)
    naming = places.POSTGRES
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
        must_be_usable(self.shape, "PostgreSQL", bytes_max=COLUMN_MAX, reserved=SYSTEM_COLUMNS)
        super().create()

    def judges_rows(self) -> bool:
        """What fits a column or an index, and a table's own rules, only the server knows."""
        return True

    # ---- tasks ------------------------------------------------------------------------------------

    def refused(self, rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        """psycopg could not read such times back."""
        since = [VALID_FROM] if self.shape.kind is Kind.HISTORY else []
        yield from far_times(rows, [*self.shape.schema.names, *since])

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        place, admission = "", Admission(self.shape, part, self.refused)
        given = admission.admitted(rows)
        try:
            with self._book.connected() as connection:
                place = self._book.known(connection).place
                staged = self._staged.write(connection, place, batch, part, given, self._make)
        except Misfit as error:
            if place and self._place() != place:  # a switch has renamed it meanwhile
                raise Unavailable(f"{place} is another version's now") from error
            raise
        return replace(staged, refused=(*admission.refused, *staged.refused))

    def _place(self) -> str:
        with self._book.connected() as connection:
            return self._book.known(connection).place

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
                run_all(connection, self._tables.insert(place, staged, everything))

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
            entry = self._held(connection)
            if keys is not None:
                self._want(connection, entry.place, keys)
            with connection.cursor(name="headwater", binary=True) as cursor:
                cursor.execute(self._tables.select(entry.place, wanted=keys is not None).encode())
                pages = iter(lambda: cursor.fetchmany(READ_ROWS), [])
                schema = self.visible_schema()
                yield entry.applied, (arrow_rows(rows, schema) for rows in pages)

    def _held(self, connection: Connection) -> Entry:
        """The version's entry, of one moment with its table, which no switch then renames."""
        while True:
            place = self._place()
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            # A lock before the first query, which is the moment that the transaction sees.
            connection.execute(f"LOCK TABLE {quoted(place)} IN ACCESS SHARE MODE".encode())
            entry = self._book.known(connection)
            if entry.place == place:
                return entry
            connection.rollback()

    def _want(self, connection: Connection, place: str, keys: pa.Table) -> None:
        connection.execute(self._tables.want(place).encode())
        command = f"COPY {self._tables.wanted} FROM STDIN (FORMAT csv)"
        with connection.cursor().copy(command.encode()) as copy:
            for batch in keys.select(list(self.shape.key)).to_batches():
                copy.write(as_csv(batch))

    # ---- versions ---------------------------------------------------------------------------------

    def switch(self) -> list[str]:
        """Tries for a while to get in between readers; each try keeps later ones waiting, so it is short."""
        deadline = time.monotonic() + SWITCH_S
        while True:
            try:
                return super().switch()
            except Unavailable as error:
                locked = isinstance(error.__cause__, errors.LockNotAvailable)
                if not locked or time.monotonic() > deadline:
                    raise

    @contextmanager
    def _handing_over(
        self, connection: Connection, place: str, before: int, lost: list[str]
    ) -> Iterator[None]:
        handover = Handover.prepared(connection, self.name, place)
        yield
        lost += handover.done(connection, f"__v{before}", f"__v{self.shape.version}")

    def _kept(self, connection: Connection) -> Types:
        current = self._book.current(connection)
        before = None if current is None else self._book.shape_of(connection, current)
        if before is None:
            return {}
        types, ours = types_of(self.shape.schema), self._tables.types()
        found = self._book.types_of(connection, self.name)
        same = [name for name, kind in types.items() if before.get(name) == kind and name in found]
        return {
            name: found[name]
            for name in same
            if self._tables.keeps(name, found[name]) and found[name] != ours[name]
        }

    def _copy_rules(self, connection: Connection, place: str) -> None:
        old, new = oid_of(connection, self.name), oid_of(connection, place)
        with whole_names(connection):
            copy_rules(connection, old, new, f"__v{self.shape.version}")

    def _must_be_free(self, connection: Connection, place: str) -> None:
        must_be_free(connection, place)

    def _drop_staged(self, connection: Connection) -> None:
        self._staged.clear(connection, 1 << 62)
