"""A view as a table of an SQLite file: `to="sqlite:shop.db"`, in the table of the view's name.

Tasks stage Arrow files beside the database; the commit is one SQLite transaction with the rows and the
position, synced to disk before it returns. Readers see the state before a batch or after it, never
between (WAL). Bookkeeping is the table `headwater_views` of the same file (`sqlite_book`).

A row that a constraint refuses, of a table that somebody made with more rules than ours, shows at the
commit: it is taken out there and goes to the dead letters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.views.sql_book import quoted
from headwater.views.sql_target import SqlTarget
from headwater.views.sqlite_book import Book
from headwater.views.sqlite_tables import Tables
from headwater.views.sqlite_values import from_sqlite, not_numbers, to_sqlite
from headwater.views.target import (
    DELETED,
    VALID_FROM,
    Applied,
    Kind,
    Part,
    Refusal,
    RowsRefused,
    Shape,
)

if TYPE_CHECKING:
    import pyarrow as pa

READ_ROWS = 10_000
NUMBER = "_number"
"""In parts from which refused rows were taken: which row of the part each one was."""
_REFUSED = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, OverflowError)


class SqliteTarget(SqlTarget):
    kinds = frozenset(Kind)
    _book: Book
    _tables: Tables

    def __init__(self, address: str, shape: Shape) -> None:
        from headwater.views.staged_files import StagedFiles

        super().__init__(address, shape)
        self.path = Path(self.rest).resolve()  # tasks may run in another folder
        self._staged = StagedFiles(self.path.with_name(f"{self.path.name}.staging"), shape)
        self._tables = Tables(shape)
        self._book = Book(self.path, address, shape)

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        super().create()

    # ---- tasks ------------------------------------------------------------------------------------

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        from headwater.views.staged_files import Admission, staged_schema

        schema = staged_schema(self.shape)
        door = Admission(schema, part, not_numbers)
        place = self._staged.write(batch, part, door.admitted(rows), schema)
        return Part(part, place, door.taken, tuple(door.refused))

    # ---- the driver, at the end of a batch --------------------------------------------------------

    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        with self._taking_out(parts), self._book.writing() as connection:
            place = self._is_new(connection, applied)
            if place is not None:
                self._apply_all(connection, place, parts)
                self._book.note(connection, applied)
        self._staged.clear(applied.batch)

    def correct(self, applied: Applied, parts: Sequence[Part]) -> bool:
        with self._taking_out(parts), self._book.writing() as connection:
            entry = self._book.known(connection)
            fits = entry.applied == applied
            if fits:
                self._apply_all(connection, entry.place, parts)
        self._staged.remove(parts)
        return fits

    @contextmanager
    def _taking_out(self, parts: Sequence[Part]) -> Iterator[None]:
        """What is refused inside is then no longer staged."""
        try:
            yield
        except RowsRefused as error:
            for part in parts:
                bad = {each.number for each in error.refusals if each.part == part.number}
                if bad:
                    self._take_out(part, bad)
            raise

    def _apply_all(self, con: sqlite3.Connection, place: str, parts: Sequence[Part]) -> None:
        refusals = [each for part in parts for each in self._apply(con, place, part)]
        if refusals:
            raise RowsRefused(refusals)

    def _apply(self, con: sqlite3.Connection, place: str, part: Part) -> Iterator[Refusal]:
        from headwater.views.json_rows import documents

        apply = self._apply_history if self.shape.kind is Kind.HISTORY else self._apply_rows
        begin = 0
        for batch in self._staged.read([part]):
            con.execute("SAVEPOINT chunk")
            try:
                apply(con, place, batch)
            except _REFUSED:
                con.execute("ROLLBACK TO chunk")
                for row in range(batch.num_rows):
                    one = batch.slice(row, 1)
                    try:
                        apply(con, place, one)
                    except _REFUSED as error:
                        shown = documents(one.select(self._tables.columns))[0]
                        yield Refusal(shown, str(error), part.number, _number(one, begin + row))
            con.execute("RELEASE chunk")
            begin += batch.num_rows

    def _apply_rows(self, con: sqlite3.Connection, place: str, batch: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        if self.shape.kind is Kind.UPSERT:
            gone = batch.column(DELETED)
            deleted = _values(batch.filter(gone), self.shape.key)
            con.executemany(self._tables.delete(place), deleted)
            batch = batch.filter(pc.invert(gone))
        con.executemany(self._tables.insert(place), _values(batch, self._tables.columns))

    def _apply_history(self, con: sqlite3.Connection, place: str, batch: pa.RecordBatch) -> None:
        close, change = self._tables.close(place), self._tables.close_changed(place)
        begin = self._tables.open(place)
        rows = _values(batch, [*self._tables.columns, VALID_FROM])
        for row, gone in zip(rows, batch.column(DELETED).to_pylist(), strict=True):
            con.execute(close if gone else change, row)
            if not gone:
                con.execute(begin, row)

    def _take_out(self, part: Part, bad: set[int]) -> None:
        import pyarrow as pa

        rows = self._staged.table([part])
        if NUMBER not in rows.schema.names:
            rows = rows.append_column(NUMBER, pa.array(range(rows.num_rows), pa.int64()))
        kept = rows.filter(pa.array([n not in bad for n in rows.column(NUMBER).to_pylist()]))
        self._staged.rewrite(part, kept)

    # ---- readers ----------------------------------------------------------------------------------

    @contextmanager
    def reading(
        self, keys: pa.Table | None = None
    ) -> Iterator[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        with self._book.connected() as connection:
            chosen = None if keys is None else self._wanted(connection, keys)
            connection.execute("BEGIN")
            entry = self._book.known(connection)
            cursor = connection.execute(self._tables.select(entry.place, chosen))
            yield entry.applied, self._batches(cursor)

    def _wanted(self, connection: sqlite3.Connection, keys: pa.Table) -> str:
        names = ", ".join(map(quoted, self.shape.key))
        marks = ", ".join("?" for _ in self.shape.key)
        connection.execute(f"CREATE TEMP TABLE wanted ({names})")
        columns = (to_sqlite(keys.column(name).combine_chunks()) for name in self.shape.key)
        connection.executemany(f"INSERT INTO wanted VALUES ({marks})", zip(*columns, strict=True))
        return "(SELECT DISTINCT * FROM wanted)"

    def _batches(self, cursor: sqlite3.Cursor) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = self.visible_schema()
        while rows := cursor.fetchmany(READ_ROWS):
            columns = zip(*rows, strict=True)
            arrays = [from_sqlite(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    # ---- versions ---------------------------------------------------------------------------------

    def drop(self) -> None:
        super().drop()
        self._staged.drop()


def _values(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(to_sqlite(batch.column(name)) for name in names), strict=True)


def _number(row: pa.RecordBatch, otherwise: int) -> int:
    return int(row.column(NUMBER)[0].as_py()) if NUMBER in row.schema.names else otherwise
