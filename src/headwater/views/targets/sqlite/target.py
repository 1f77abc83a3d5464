"""A view as a table of an SQLite file: `to="sqlite:shop.db"`, in the table of the view's name.

Tasks stage Arrow files beside the database; the commit is one SQLite transaction with the rows and the
position, synced to disk before it returns. Readers see the state before a batch or after it, never
between (WAL). Bookkeeping is the table `headwater_views` of the same file (`book`).

A row that a constraint refuses, of a table that somebody made with more rules than ours, shows at the
commit: it is taken out there and goes to the dead letters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.views.targets import places
from headwater.views.targets.contract import (
    DELETED,
    VALID_FROM,
    Applied,
    Kind,
    Misfit,
    Part,
    Refusal,
    RowsRefused,
    Shape,
)
from headwater.views.targets.sql.book import quoted
from headwater.views.targets.sql.names import OwnNames, must_be_usable
from headwater.views.targets.sql.target import SqlTarget
from headwater.views.targets.sqlite.book import Book
from headwater.views.targets.sqlite.schema import (
    attempt,
    copy_indexes,
    made_by_hand,
    rules_of,
    views,
)
from headwater.views.targets.sqlite.statements import Tables
from headwater.views.targets.sqlite.values import from_sqlite, not_numbers, to_sqlite

if TYPE_CHECKING:
    import pyarrow as pa

READ_ROWS = 10_000
_REFUSED = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, OverflowError)


class SqliteTarget(SqlTarget):
    kinds = frozenset(Kind)
    naming = places.SQLITE
    _book: Book
    _tables: Tables

    def __init__(self, address: str, shape: Shape) -> None:
        from headwater.views.targets.staged_files import StagedFiles

        super().__init__(address, shape)
        self.path = Path(self.rest).resolve()  # tasks may run in another folder
        self._staged = StagedFiles(self.path.with_name(f"{self.path.name}.staging"), shape)
        self._tables = Tables(shape)
        self._book = Book(self.path, address, shape)
        self._number = OwnNames.beside(shape)("number")
        """In parts from which refused rows were taken: which row of the part each one was."""

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        must_be_usable(self.shape, "SQLite", folded=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        super().create()

    def judges_rows(self) -> bool:
        """A table that somebody made may have more rules than ours."""
        with self._book.connected() as connection:
            place = self._book.known(connection).place
            return self._tables.has_rules(connection, place)

    # ---- tasks ------------------------------------------------------------------------------------

    def refused(self, rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        from headwater.views.targets.years import far_times

        yield from not_numbers(rows.select(self._tables.columns))
        since = [VALID_FROM] if self.shape.kind is Kind.HISTORY else []
        yield from far_times(rows, [*self._tables.columns, *since])

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        from headwater.views.targets.staged_files import Admission, staged_schema

        schema = staged_schema(self.shape)
        admission = Admission(self.shape, part, self.refused)
        place = self._staged.write(batch, part, admission.admitted(rows), schema)
        return Part(part, place, admission.taken, tuple(admission.refused))

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
        from headwater.views.targets.json_rows import documents

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
                        yield Refusal(
                            shown, str(error), part.number, self._number_of(one, begin + row)
                        )
            con.execute("RELEASE chunk")
            begin += batch.num_rows

    def _apply_rows(self, con: sqlite3.Connection, place: str, batch: pa.RecordBatch) -> None:
        """In their order, as a key may come several times."""
        insert = self._tables.insert(place)
        rows = _values(batch, self._tables.columns)
        if self.shape.kind is Kind.APPEND:
            con.executemany(insert, rows)
            return
        delete, keys = self._tables.delete(place), _values(batch, self.shape.key)
        marks = batch.column(DELETED).to_pylist()
        for gone, some in groupby(zip(marks, rows, keys, strict=True), key=itemgetter(0)):
            if gone:
                con.executemany(delete, (key for _, _, key in some))
            else:
                con.executemany(insert, (row for _, row, _ in some))

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
        if self._number not in rows.schema.names:
            numbers = pa.array(range(rows.num_rows), pa.int64())
            rows = rows.append_column(self._number, numbers)
        numbered = rows.column(self._number).to_pylist()
        kept = pa.array([n not in bad for n in numbered], pa.bool_())
        self._staged.rewrite(part, rows.filter(kept))

    def _number_of(self, row: pa.RecordBatch, otherwise: int) -> int:
        known = self._number in row.schema.names
        return int(row.column(self._number)[0].as_py()) if known else otherwise

    # ---- readers ----------------------------------------------------------------------------------

    @contextmanager
    def reading(
        self, keys: pa.Table | None = None
    ) -> Iterator[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        with self._book.connected() as connection:
            if keys is not None:
                self._want(connection, keys)
            connection.execute("BEGIN")
            entry = self._book.known(connection)
            cursor = connection.execute(self._tables.select(entry.place, wanted=keys is not None))
            yield entry.applied, self._batches(cursor)

    def _want(self, connection: sqlite3.Connection, keys: pa.Table) -> None:
        make, add = self._tables.want()
        connection.execute(make)
        columns = (to_sqlite(keys.column(name).combine_chunks()) for name in self.shape.key)
        connection.executemany(add, zip(*columns, strict=True))

    def _batches(self, cursor: sqlite3.Cursor) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = self.visible_schema()
        while rows := cursor.fetchmany(READ_ROWS):
            columns = zip(*rows, strict=True)
            arrays = [from_sqlite(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    # ---- versions ---------------------------------------------------------------------------------

    @contextmanager
    def _handing_over(
        self, connection: sqlite3.Connection, place: str, before: int, lost: list[str]
    ) -> Iterator[None]:
        # Else SQLite would let views and foreign keys follow the table that gets another name.
        connection.execute("PRAGMA legacy_alter_table = ON")
        triggers = made_by_hand(connection, "trigger", self.name)
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {quoted(name)}")
        known = views(connection)
        yield
        for name, statement in triggers:
            lost += attempt(connection, statement, f"the trigger {name}")
        old = f"{self.name}__v{before}"
        missing = [w for w in rules_of(connection, old) if w not in rules_of(connection, self.name)]
        if missing:
            lost.append(f"the rules of the table as it was made ({', '.join(missing)})")
        lost += copy_indexes(connection, old, self.name, self.shape.version)
        self._must_read(known - views(connection), place)

    def _copy_rules(self, connection: sqlite3.Connection, place: str) -> None:
        copy_indexes(connection, self.name, place, self.shape.version)

    def _must_read(self, broken: set[str], place: str) -> None:
        if broken:
            raise Misfit(
                f"the view {', '.join(sorted(broken))} of {self.rest} cannot do with {place} in the "
                f"place of {self.name}",
                hint="drop or change it, switch, and create it again; nothing was switched yet",
            )

    def _must_be_free(self, connection: sqlite3.Connection, place: str) -> None:
        connection.execute("PRAGMA legacy_alter_table = ON")
        known = views(connection)
        connection.execute(f"ALTER TABLE {quoted(place)} RENAME TO {quoted(place + '__gone')}")
        broken = known - views(connection)
        connection.execute(f"ALTER TABLE {quoted(place + '__gone')} RENAME TO {quoted(place)}")
        if broken:
            raise Misfit(
                f"{place} in {self.rest} is still needed by the view {', '.join(sorted(broken))}",
                hint="let it read the version that readers see, or drop it, then drop again",
            )

    def drop(self) -> None:
        super().drop()
        self._staged.drop()


def _values(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(to_sqlite(batch.column(name)) for name in names), strict=True)
