"""The state of a view in memory, where it is small: rows are found by key in microseconds.

Owned by `upkeep`, which brings it to the state's file (`store`) now and then, and keeps what has happened
since in the journal. A batch changes the rows at hand, and is taken back as a whole if it fails.

    tables[n]   key → the row: its columns, its partition, its time (`row_index`)
    held        the view's key → the row that the view holds; a digest (`Digest`) where only that is known, as
                of all rows that were held when the state was read
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.views.tables.plain_values import Values, rows_of, table_of
from headwater.views.tables.row_index import TableRows, kept_table
from headwater.views.tables.store import Difference, Store, ViewShape

Digests = Callable[[pa.Table], Sequence[int]]
"""Of the rows of a result, as the state's engine makes them."""
ROWS_MAX = 100_000
BYTES_MAX = 16 << 20
"""Of a view's tables in Arrow; in memory it is several times as much."""


@dataclass(frozen=True)
class Digest:
    """All that is known of a row that the view holds."""

    h: int


@dataclass
class Memory:
    """The state of a view."""

    tables: list[TableRows]
    view: ViewShape
    held: dict[Values, Values | Digest] = field(default_factory=dict)
    dirty_held: set[Values] = field(default_factory=set)
    _held_by: tuple[tuple[int, ...], dict[Values, set[Values]]] | None = None
    """Keys that the view holds, by some of their columns."""

    @classmethod
    def of(cls, store: Store) -> Memory | None:
        """What is in the state's file; None where that is too much."""
        counts = [store.count(f"t{n}") for n in range(len(store.tables))]
        if sum(counts) > ROWS_MAX or store.count("held") > ROWS_MAX:
            return None
        made = cls([TableRows(shape) for shape in store.tables], store.view)
        for n, table in enumerate(made.tables):
            names = ", ".join((*table.shape.columns.names, "p", "ts"))
            rows = store.arrow(f"SELECT {names} FROM t{n}")
            if rows.nbytes > BYTES_MAX:
                return None
            schema = pa.schema([*table.shape.columns, ("p", pa.int32()), ("ts", pa.int64())])
            table.read(rows.cast(schema))
        keys = [store.view.schema.field(name).type for name in store.view.key]
        schema = pa.schema([*zip(store.view.keys, keys, strict=True), ("h", pa.uint64())])
        held = store.arrow(f"SELECT {', '.join(schema.names)} FROM held").cast(schema)
        digests = held["h"].to_pylist()
        held_keys = rows_of(held.drop_columns(["h"]))
        made.held = {key: Digest(h) for key, h in zip(held_keys, digests, strict=True)}
        return made

    @property
    def is_too_large(self) -> bool:
        count = sum(len(table.by_key) for table in self.tables)
        return max(count, len(self.held)) > 2 * ROWS_MAX

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All changes of tables inside, or none of them."""
        try:
            yield
            for table in self.tables:
                table.settle()
        finally:
            for table in self.tables:
                table.undo()  # nothing, where it is settled

    def change(self, number: int, kept: pa.Table) -> None:
        """Bring a table up to date with what `Net.kept` was."""
        self.tables[number].change(kept)

    def hold(self, difference: Difference) -> None:
        """Note what the view holds after a difference is written."""
        places = [self.view.schema.get_field_index(name) for name in self.view.key]
        for values in rows_of(difference.rows):
            key = tuple(values[n] for n in places)
            self.held[key] = values
            self.dirty_held.add(key)
            if self._held_by is not None:
                chosen, by = self._held_by
                by.setdefault(tuple(key[k] for k in chosen), set()).add(key)
        for key in rows_of(difference.gone.select(list(self.view.key))):
            self.held.pop(key, None)
            self.dirty_held.add(key)
            if self._held_by is not None:
                chosen, by = self._held_by
                by.get(tuple(key[k] for k in chosen), set()).discard(key)

    def held_among(self, keys: Iterable[Values], chosen: Sequence[int]) -> list[Values]:
        """The keys that the view holds which have one of these values in the chosen columns."""
        if list(chosen) == list(range(len(self.view.key))):
            return [key for key in keys if key in self.held]
        if self._held_by is None or self._held_by[0] != tuple(chosen):
            by: dict[Values, set[Values]] = {}
            for key in self.held:
                by.setdefault(tuple(key[k] for k in chosen), set()).add(key)
            self._held_by = tuple(chosen), by
        found = self._held_by[1]
        return [key for value in keys for key in found.get(value, ())]

    def differing(
        self,
        result: pa.Table,
        keys: Collection[Values],
        followed: Mapping[int, int],
        digests: Digests,
    ) -> Difference:
        """Compare a result with what the view holds of the touched keys; `followed`: w → k."""
        view = self.view
        places = [view.schema.get_field_index(name) for name in view.key]
        chosen = [followed[w] for w in range(len(followed))]
        rows = rows_of(result)
        fresh: dict[Values, int] = {}
        for number, values in enumerate(rows):
            key = tuple(values[n] for n in places)
            if tuple(key[k] for k in chosen) not in keys:
                continue
            if key in fresh:
                return Difference(result, result, key)
            fresh[key] = number
        unknown = [key for key in fresh if isinstance(self.held.get(key), Digest)]
        known = digests(result) if unknown else ()
        for key in unknown:
            if self.held[key] == Digest(known[fresh[key]]):
                self.held[key] = rows[fresh[key]]
        new = [number for key, number in fresh.items() if self.held.get(key) != rows[number]]
        gone = [key for key in self.held_among(keys, chosen) if key not in fresh]
        shape = pa.schema([view.schema.field(name) for name in view.key])
        return Difference(result.take(pa.array(new, pa.int64())), table_of(gone, shape))

    # ---- to the state's file --------------------------------------------------------------------

    def changed_rows(self) -> dict[int, pa.Table]:
        """What has changed in each table since it was last settled, as `Net.kept` would have it."""
        found = {}
        for n, table in enumerate(self.tables):
            if table.dirty:
                rows = [(key, table.by_key.get(key), 0, 0) for key in table.dirty]
                found[n] = kept_table(table.shape, rows)
        return found

    def changed_held(self) -> Difference:
        rows = [(key, self.held.get(key)) for key in self.dirty_held]
        there = [row for _, row in rows if row is not None and not isinstance(row, Digest)]
        keys = pa.schema([self.view.schema.field(name) for name in self.view.key])
        gone = table_of([key for key, row in rows if row is None], keys)
        return Difference(table_of(there, self.view.schema), gone)

    def settle(self) -> None:
        """The state's file has it all."""
        self.dirty_held.clear()
        for table in self.tables:
            table.dirty.clear()
