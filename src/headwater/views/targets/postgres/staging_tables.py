"""Parts on the server: unlogged tables that tasks fill by COPY, side by side. Called by `target`.

    headwater_stage_VIEW_BATCH_ATTEMPT      VIEW: eight digits that stand for view and version

A part's `place` says what must be in its tables, as a crash of the server empties unlogged ones:
`TABLE:ROWS:GONE:once`, or `repeats`
where a key comes several times. Rows that the server does not take are found by halving what it refused.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import errors

from headwater.views.targets.contract import DELETED, Kind, Part, Refusal, Shape, Unavailable
from headwater.views.targets.json_rows import documents
from headwater.views.targets.postgres.book import REFUSED, Connection
from headwater.views.targets.postgres.statements import Place, Tables, gone_of, listed
from headwater.views.targets.postgres.values import as_csv
from headwater.views.targets.sql.book import quoted

ROWS_AT_ONCE = 50_000
_STAGE = re.compile(r'relation "headwater_stage_\w+"')


class StagedTables:
    """The staged parts of one version of a view."""

    def __init__(self, shape: Shape, tables: Tables) -> None:
        self._shape, self._tables = shape, tables
        digest = hashlib.sha256(f"{shape.view}@{shape.version}".encode()).hexdigest()[:8]
        self._prefix = f"headwater_stage_{digest}"

    def write(
        self,
        con: Connection,
        view: str,
        batch: int,
        part: int,
        rows: Iterator[pa.RecordBatch],
        make: Callable[[Sequence[str]], None],
    ) -> Part:
        """Put a part's rows into tables of its own, made like the view's table.

        `make` must make them in transactions of their own, which cannot end with the task: an
        unlogged table whose creation is taken back, and then a crash before the next checkpoint, and
        PostgreSQL does not start again ("could not create file …: File exists").
        """
        table = f"{self._prefix}_{batch}_{uuid.uuid4().hex[:12]}"
        make(self._tables.stage(view, table))
        number = self._tables.number
        loading = _Loading(con, self._shape, number, part)
        seen = kept = gone = 0
        keys: list[pa.RecordBatch] = []
        for given in rows:
            keys.append(given.select(list(self._shape.key)))
            for start in range(0, given.num_rows, ROWS_AT_ONCE):
                some = given.slice(start, ROWS_AT_ONCE)
                numbers = pa.array(range(seen, seen + some.num_rows), pa.int64())
                seen += some.num_rows
                there, deleted = self._split(some.append_column(number, numbers))
                if deleted.num_rows and not gone:
                    make(self._tables.stage_gone(view, table))
                if deleted.num_rows:
                    names = [*self._shape.key, number]
                    gone += loading.load(gone_of(table), deleted.select(names))
                if there.num_rows:
                    kept += loading.load(table, there.select([*self._tables.staged, number]))
        place = Place(table, kept, gone, self._repeats(keys))
        return Part(part, str(place), kept + gone, tuple(loading.refused))

    def _repeats(self, keys: Sequence[pa.RecordBatch]) -> bool:
        if self._shape.kind is not Kind.UPSERT or not keys:
            return False
        given = pa.Table.from_batches(keys)
        distinct = given.group_by(list(self._shape.key), use_threads=False).aggregate([])
        return bool(distinct.num_rows < given.num_rows)

    def _split(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        if self._shape.kind is not Kind.UPSERT:
            return rows, rows.slice(0, 0)
        gone = rows.column(DELETED)
        return rows.filter(pc.invert(gone)), rows.filter(gone)

    def clear(self, connection: Connection, through: int) -> None:
        """Drop what was staged for batches up to this one, by whomever; corrections (-1) stay."""
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE %s "
            "AND pg_table_is_visible(oid)",
            (self._prefix.replace("_", r"\_") + "%",),
        ).fetchall()
        old = [n for (n,) in found if 0 <= _batch_of(n.removeprefix(self._prefix)) <= through]
        self.drop(connection, old)

    def drop(self, connection: Connection, tables: Sequence[str]) -> None:
        if tables:
            connection.execute(f"DROP TABLE IF EXISTS {listed(tables)}".encode())

    def remove(self, connection: Connection, parts: Sequence[Part]) -> None:
        named = [Place.of(part).table for part in parts]
        self.drop(connection, [name for each in named for name in (each, gone_of(each))])


class _Loading:
    """COPY into the tables of one part; what the server refuses is noted."""

    def __init__(self, connection: Connection, shape: Shape, number: str, part: int) -> None:
        self._connection, self._shape = connection, shape
        self._number, self._part = number, part
        self.refused: list[Refusal] = []

    def load(self, table: str, rows: pa.RecordBatch) -> int:
        """How many rows were taken."""
        command = f"COPY {quoted(table)} ({listed(rows.schema.names)}) FROM STDIN (FORMAT csv)"
        before = len(self.refused)

        def attempt(begin: int, end: int) -> None:
            with self._connection.cursor().copy(command.encode()) as copy:
                copy.write(as_csv(rows.slice(begin, end - begin)))

        def refuse(place: int, reason: str) -> None:
            row = rows.slice(place, 1)
            shown = [name for name in row.schema.names if name in self._shape.schema.names]
            number = row.column(self._number)[0].as_py()
            self.refused.append(
                Refusal(documents(row.select(shown))[0], reason, self._part, number)
            )

        try:
            halving(self._connection, range(rows.num_rows), attempt, refuse)
        except errors.UndefinedTable as error:
            raise Unavailable(f"the staging table {table} was removed by a later writer") from error
        return rows.num_rows - (len(self.refused) - before)


def halving(
    connection: Connection,
    rows: range,
    attempt: Callable[[int, int], None],
    refuse: Callable[[int, str], None],
) -> None:
    """Do all of `rows` but those that are refused one by one; in order, as later ones may need earlier."""
    if not rows:
        return
    try:
        with connection.transaction():  # a savepoint
            attempt(rows.start, rows.stop)
        return
    except REFUSED as error:
        if len(rows) == 1:
            refuse(rows.start, reason_of(error))
            return
    middle = rows.start + len(rows) // 2
    halving(connection, range(rows.start, middle), attempt, refuse)
    halving(connection, range(middle, rows.stop), attempt, refuse)


def reason_of(error: psycopg.Error) -> str:
    """The same at every attempt: without the names of staging tables, and the row, which the letter has."""
    said = [error.diag.message_primary or str(error), error.diag.message_detail]
    plain = (" ".join(_STAGE.sub("the view's table", each).split()) for each in said if each)
    return "; ".join(each for each in plain if not each.startswith("Failing row contains"))


def run_all(connection: Connection, statements: Sequence[str]) -> int:
    """How many rows the last one concerned."""
    cursor: Any = None
    for statement in statements:
        cursor = connection.execute(statement.encode())
    return int(cursor.rowcount) if cursor is not None else 0


def _batch_of(rest: str) -> int:
    found = re.match(r"_(\d+)_", rest)
    return int(found[1]) if found else -1
