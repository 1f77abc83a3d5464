"""The rows of one table in memory, found by their key and by whatever else is asked for.

Owned by `memory`. Indexes by other columns are made when they are first asked for. A batch changes the rows
at hand, and can be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from headwater.views.tables.plain_values import Values, rows_of, table_of
from headwater.views.tables.store import TableShape


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    values: Values
    partition: int
    time: int | None


class TableRows:
    """One table, by key and by whatever else is asked for."""

    def __init__(self, shape: TableShape) -> None:
        self.shape = shape
        self.by_key: dict[Values, Row] = {}
        self.dirty: set[Values] = set()
        """Keys that differ from the state's file."""
        self._places = {name: n for n, name in enumerate(shape.columns.names)}
        self._indexes: dict[tuple[int, ...], dict[Values, dict[Values, None]]] = {}
        self._undo: list[tuple[Values, Row | None, bool]] = []

    def places(self, columns: Iterable[str]) -> tuple[int, ...]:
        return tuple(self._places[name] for name in columns)

    def key_of(self, values: Values) -> Values:
        return tuple(values[n] for n in self.shape.key)

    def read(self, rows: pa.Table) -> None:
        """Begin with these rows: the columns, p, ts."""
        for row in self._rows(rows):
            self.by_key[self.key_of(row.values)] = row

    def change(self, kept: pa.Table) -> None:
        """Bring the table up to date with what `Net.kept` was."""
        for row, gone in zip(self._rows(kept), kept["gone"].to_pylist(), strict=True):
            self.put(self.key_of(row.values), None if gone else row)

    def _rows(self, rows: pa.Table) -> Iterator[Row]:
        own = rows_of(rows.select(self.shape.columns.names))
        places = (rows["p"].to_pylist(), rows["ts"].to_pylist())
        return (Row(*each) for each in zip(own, *places, strict=True))

    def put(self, key: Values, row: Row | None) -> None:
        """Let the key have this row, or none."""
        before = self.by_key.get(key)
        self._undo.append((key, before, key in self.dirty))
        self.dirty.add(key)
        self._exchange(key, before, row)

    def _exchange(self, key: Values, before: Row | None, row: Row | None) -> None:
        for places, index in self._indexes.items():
            if before is not None:
                value = tuple(before.values[n] for n in places)
                keys = index[value]
                del keys[key]
                if not keys:
                    del index[value]
            if row is not None:
                index.setdefault(tuple(row.values[n] for n in places), {})[key] = None
        if row is not None:
            self.by_key[key] = row
        elif before is not None:
            del self.by_key[key]

    def found(self, places: tuple[int, ...], values: Iterable[Values]) -> Iterator[Values]:
        """The rows that have one of these values, which are all different, in these columns."""
        if places == self.shape.key:
            rows = (self.by_key.get(value) for value in values)
            yield from (row.values for row in rows if row is not None)
            return
        index = self._index(places)
        for value in values:
            for key in index.get(value, ()):
                yield self.by_key[key].values

    def _index(self, places: tuple[int, ...]) -> dict[Values, dict[Values, None]]:
        if places not in self._indexes:
            made: dict[Values, dict[Values, None]] = {}
            for key, row in self.by_key.items():
                made.setdefault(tuple(row.values[n] for n in places), {})[key] = None
            self._indexes[places] = made
        return self._indexes[places]

    def settle(self) -> None:
        self._undo.clear()

    def undo(self) -> None:
        while self._undo:
            key, before, was_dirty = self._undo.pop()
            self._exchange(key, self.by_key.get(key), before)
            if not was_dirty:
                self.dirty.discard(key)


def kept_table(shape: TableShape, rows: Iterable[tuple[Values, Row | None, int, int]]) -> pa.Table:
    """What changes in a table, for the journal and for the state's file: key, row or none, and for a key
    that has none where and when that was said."""
    width = len(shape.columns)
    made: list[Values] = []
    for key, row, partition, time in rows:
        if row is not None:
            made.append((*row.values, False, row.partition, row.time))
            continue
        named = dict(zip(shape.key, key, strict=True))
        made.append((*(named.get(n) for n in range(width)), True, partition, time))
    fields = [*(f.with_nullable(True) for f in shape.columns), ("gone", pa.bool_())]
    return table_of(made, pa.schema([*fields, ("p", pa.int32()), ("ts", pa.int64())]))
