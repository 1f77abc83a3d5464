"""Rows that PostgreSQL took when they were staged, and refuses when they are to count. Called by `target`.

Foreign keys, unique columns and triggers show only then. The batch is tried once more, by halves, in a
transaction that is taken back: this finds the rows. They are then set apart in their staging tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.views.targets.contract import Part, Refusal, Shape
from headwater.views.targets.json_rows import documents
from headwater.views.targets.postgres.book import Book, Connection
from headwater.views.targets.postgres.staging_tables import halving, run_all
from headwater.views.targets.postgres.statements import Place, Tables, gone_of, listed
from headwater.views.targets.postgres.values import from_postgres
from headwater.views.targets.sql.book import quoted


class _Undone(Exception):
    """Ends a transaction that was only to find something out."""


class _Bad(NamedTuple):
    part: Part
    table: str
    number: int
    reason: str


class Search:
    """For the refused rows of one batch."""

    def __init__(self, book: Book, tables: Tables, shape: Shape) -> None:
        self._book, self._tables, self._shape = book, tables, shape

    def refused(self, parts: Sequence[Part]) -> list[Refusal]:
        """These rows no longer count; the transaction that met them must have ended."""
        bad: list[_Bad] = []
        try:
            with self._book.connected() as connection:
                place = self._book.known(connection, lock=True).place
                for part in parts:
                    self._try(connection, place, part, gone=True, bad=bad)
                for part in parts:
                    self._try(connection, place, part, gone=False, bad=bad)
                raise _Undone
        except _Undone:
            pass
        with self._book.connected() as connection:
            return [self._set_apart(connection, each) for each in bad]

    def _try(
        self, connection: Connection, place: str, part: Part, *, gone: bool, bad: list[_Bad]
    ) -> None:
        staged = Place.of(part)
        if not (staged.gone if gone else staged.rows):
            return
        table = gone_of(staged.table) if gone else staged.table
        n = self._tables.number
        end = connection.execute(f"SELECT max({n}) + 1 FROM {quoted(table)}".encode()).fetchone()

        def attempt(first: int, last: int) -> None:
            rows = range(first, last)
            statements = (
                self._tables.delete(place, staged.table, rows)
                if gone
                else self._tables.insert(place, staged, rows)
            )
            run_all(connection, statements)

        def refuse(number: int, reason: str) -> None:
            bad.append(_Bad(part, table, number, reason))

        halving(connection, range((end and end[0]) or 0), attempt, refuse)

    def _set_apart(self, connection: Connection, bad: _Bad) -> Refusal:
        """A negative number keeps a row out of every range, and in the count."""
        names = [
            n for n in self._tables.columns if n in self._book.columns_of(connection, bad.table)
        ]
        n = self._tables.number
        found = connection.execute(
            f"UPDATE {quoted(bad.table)} SET {n} = -1 - {n} WHERE {n} = {bad.number} "
            f"RETURNING {listed(names)}".encode()
        ).fetchall()
        schema = pa.schema([self._shape.schema.field(name) for name in names])
        row = documents(arrow_rows(found, schema))[0]
        return Refusal(row, bad.reason, bad.part.number, bad.number)


def arrow_rows(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """What a query gave, at least one row."""
    columns = zip(*rows, strict=True)
    arrays = [from_postgres(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
