"""The state of a view over tables: the rows of its tables, and which rows the view holds.

One DuckDB file below the query's checkpoint, owned by the driver. A batch is one transaction, which ends
after the target has the batch; so the state is never ahead of the target.

    t0, t1, …   a table: c0, c1, … its columns; d0, … what joins and groups compare besides; p the
                partition of the log that a row came from (a truncate is told in each), ts its time
    held        the view: k0, k1, … its key; h a digest of the row
    state       the last batch, and for which query this is

DuckDB finds rows by looking through a column, some ms for a million; it would not use an index for many keys.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.tables.digest import hashed
from headwater.views.tables.program import TOUCHED, Program
from headwater.views.targets.contract import Misfit

FILE = "state.duckdb"
SMALL_ROWS = 20_000
SETTINGS = {
    "TimeZone": "'UTC'",
    "preserve_insertion_order": "false",
    # Written on every commit is the log of changes; the file itself only when so much has come together.
    "checkpoint_threshold": "'256MB'",
    "memory_limit": "'2GB'",
}


@dataclass(frozen=True)
class TableShape:
    """A table in the state."""

    columns: pa.Schema
    """c0, c1, …, then d0, …."""
    key: tuple[int, ...]
    """Which of the columns are its key."""
    name: str
    """For people."""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"c{n}" for n in self.key)


@dataclass(frozen=True)
class ViewShape:
    """The view's result."""

    schema: pa.Schema
    key: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"k{n}" for n in range(len(self.key)))


# Two threads that open files at the same moment can get a connection that does not see Arrow tables.
_CONNECTING = threading.Lock()
_OPEN: weakref.WeakSet[Store] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Spark keeps what it calls for a batch until the process ends, and tells nobody when it is done."""
    for store in list(_OPEN):
        store.close()


class Store:
    """The file, open. One thread at a time."""

    def __init__(
        self, folder: Path, tables: Sequence[TableShape], view: ViewShape, query: str
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.tables = tables
        self.view = view
        with _CONNECTING:
            self.connection = duckdb.connect(str(folder / FILE))
        for name, value in SETTINGS.items():
            self.connection.execute(f"SET {name} = {value}")
        self._threads = 0
        self.batch = self._open(query)
        _OPEN.add(self)

    def close(self) -> None:
        self.connection.close()
        del self.connection
        _OPEN.discard(self)

    def _open(self, query: str) -> int:
        """Make the tables where they are missing; the last batch that is in them."""
        with self.transaction():
            self.run("CREATE TABLE IF NOT EXISTS state (batch BIGINT, query VARCHAR)")
            if not (found := self.rows("SELECT batch, query FROM state")):
                self._create()
                self.run("INSERT INTO state VALUES (-1, $1)", [query])
                return -1
            if found[0][1] != query:
                raise Misfit(
                    f"the state in {self.folder} is that of another query; rebuild the view, with "
                    "headwater rebuild or another name"
                )
            for n in range(len(self.tables)):  # versions before kept no time
                self.run(f"ALTER TABLE t{n} ADD COLUMN IF NOT EXISTS ts BIGINT")
        return int(found[0][0])

    def _create(self) -> None:
        for n, table in enumerate(self.tables):
            columns = pa.schema([*table.columns, ("p", pa.int32()), ("ts", pa.int64())])
            self._create_as(f"t{n}", columns.empty_table())
        keys = [self.view.schema.field(name).type for name in self.view.key]
        fields = [pa.field(f"k{n}", kind) for n, kind in enumerate(keys)]
        self._create_as("held", pa.schema([*fields, pa.field("h", pa.uint64())]).empty_table())

    def _create_as(self, name: str, empty: pa.Table) -> None:
        with self.lent(given=empty):
            self.run(f"CREATE TABLE {name} AS SELECT * FROM given")

    # ---- the parts that a batch is made of --------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is done inside, or nothing of it."""
        self.run("BEGIN")
        try:
            yield
        except BaseException:
            with suppress(duckdb.Error):  # perhaps it is done; what went wrong before is to be told
                self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    @contextmanager
    def lent(self, **tables: pa.Table) -> Iterator[None]:
        """Let SQL see Arrow tables under these names."""
        for name, table in tables.items():
            self.connection.register(name, table)
        try:
            yield
        except BaseException:
            with suppress(duckdb.Error):  # refused in a transaction that has failed
                self._take_back(tables)
            raise
        self._take_back(tables)

    def _take_back(self, names: Iterable[str]) -> None:
        for name in names:
            self.connection.unregister(name)

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.connection.execute(sql, list(values)) if values else self.connection.execute(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def arrow(self, sql: str) -> pa.Table:
        found: pa.Table = self.connection.sql(sql).to_arrow_table()
        return found

    def count(self, name: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {name}")[0][0])

    def expect(self, rows: int) -> None:
        """Let DuckDB take one thread for few rows: to wake others costs more than they would do."""
        threads = 1 if rows <= SMALL_ROWS else os.cpu_count() or 1
        if threads != self._threads:
            self.run(f"SET threads = {threads}")
            self._threads = threads

    def finish(self, batch: int) -> None:
        """Say, in the transaction at hand, that this batch is in the state."""
        self.run("UPDATE state SET batch = $1", [batch])

    # ---- steps 2 and 3: which keys are touched, which rows decide over them -----------------------

    def touch(self, program: Program, changed: Mapping[int, str], *, more: bool = False) -> None:
        """Note the keys that changed rows of tables touch, given as SQL; `more`: besides those known."""
        rows = ", ".join(f"change{n} AS ({sql})" for n, sql in changed.items())
        parts = [each.sql for table, each in program.upward if table in changed]
        found = f"WITH {rows} SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)})"
        if not more:
            self.run(f"CREATE OR REPLACE TEMP TABLE {TOUCHED} AS {found}")
            return
        names = [f"w{n}" for n in range(len(program.key))]
        known = " AND ".join(f"f.{name} IS NOT DISTINCT FROM t.{name}" for name in names)
        self.run(
            f"INSERT INTO {TOUCHED} SELECT f.* FROM ({found}) f ANTI JOIN {TOUCHED} t ON {known}"
        )

    def deciding(self, program: Program) -> dict[int, pa.Table]:
        """The rows of every table that decide over the touched keys."""
        found = {}
        for n, names in program.rows.items():
            parts = (f"{name} AS MATERIALIZED ({sql})" for name, sql in program.needed_for(names))
            found[n] = self._own_columns(n, names, f"WITH {', '.join(parts)} ")
        return found

    def whole(self) -> dict[int, pa.Table]:
        """All rows of every table."""
        return {n: self._own_columns(n, (f"t{n}",)) for n in range(len(self.tables))}

    def _own_columns(self, table: int, places: Sequence[str], named: str = "") -> pa.Table:
        """Rows without the columns that only the state needs; those found twice, once."""
        shown = ", ".join(self.nothing_of(table).column_names)
        rows = " UNION ".join(f"SELECT {shown} FROM {place}" for place in places)
        return self.arrow(named + rows)

    def nothing_of(self, table: int) -> pa.Table:
        """A table's own columns, without rows."""
        fields = (field for field in self.tables[table].columns if field.name.startswith("c"))
        return pa.schema(fields).empty_table()

    # ---- step 4: what differs from what the view holds --------------------------------------------

    def differing(self, result: pa.Table, followed: Mapping[int, int] | None) -> Difference:
        """Compare a result with what the view holds of the touched keys; `followed`: w → k.

        With None, the result is the whole view.
        """
        keys = self.view.keys
        places = [self.view.schema.get_field_index(name) for name in self.view.key]
        numbered = result.rename_columns([f"v{n}" for n in range(result.num_columns)])
        numbered = numbered.append_column("n", pa.array(range(result.num_rows), pa.int64()))
        values = hashed(result.schema)
        shown = ", ".join(f"v{place} AS {key}" for place, key in zip(places, keys, strict=True))
        only = among = ""
        if followed is not None:
            pairs = followed.items()
            only = f"SEMI JOIN {TOUCHED} t ON " + " AND ".join(
                f"v{places[k]} IS NOT DISTINCT FROM t.w{w}" for w, k in pairs
            )
            among = f"SEMI JOIN {TOUCHED} t ON " + " AND ".join(
                f"held.k{k} IS NOT DISTINCT FROM t.w{w}" for w, k in pairs
            )
        listed = ", ".join(keys)
        same = " AND ".join(f"f.{key} IS NOT DISTINCT FROM o.{key}" for key in keys)
        theirs = ", ".join(f"o.{key} AS o{key}" for key in keys)
        fresh = f"SELECT {shown}, hash({values}) AS h, n FROM result {only}"
        known = f"SELECT held.rowid AS place, held.* FROM held {among}"
        with self.lent(result=numbered):
            self.run(
                f"""CREATE OR REPLACE TEMP TABLE compared AS
                SELECT f.*, o.place, {theirs} FROM ({fresh}) f FULL JOIN ({known}) o ON {same}
                WHERE f.h IS DISTINCT FROM o.h"""
            )
            twice = (
                []
                if self._are_distinct(result)
                else self.rows(
                    f"SELECT {listed} FROM ({fresh}) GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
                )
            )
        shown = ", ".join(f"o{key} AS {key}" for key in keys)
        found = self.arrow(f"SELECT n, {shown} FROM compared ORDER BY n")
        is_gone = found["n"].is_null()
        gone = found.filter(is_gone).drop_columns(["n"])
        return Difference(
            result.take(found["n"].drop_null()),
            gone.rename_columns(list(self.view.key)),
            twice[0] if twice else None,
            just_found=True,
        )

    def _are_distinct(self, result: pa.Table) -> bool:
        """Whether no two rows have one key, as far as that is easily seen."""
        return len(self.view.key) == 1 and are_distinct(result[self.view.key[0]])

    def no_difference(self) -> Difference:
        keys = pa.schema([self.view.schema.field(name) for name in self.view.key])
        return Difference(self.view.schema.empty_table(), keys.empty_table())

    def hold(self, difference: Difference) -> None:
        """Note what the view holds after a difference is written."""
        keys = self.view.keys
        listed = ", ".join(keys)
        if difference.just_found:
            self.run("DELETE FROM held WHERE rowid IN (SELECT place FROM compared)")
            self.run(f"INSERT INTO held SELECT {listed}, h FROM compared WHERE n IS NOT NULL")
            return
        places = [self.view.schema.get_field_index(name) for name in self.view.key]
        rows = difference.rows.rename_columns([f"v{n}" for n in range(len(self.view.schema))])
        shown = ", ".join(f"v{place} AS {key}" for place, key in zip(places, keys, strict=True))
        values = hashed(rows.schema)
        same = " AND ".join(f"held.{key} IS NOT DISTINCT FROM o.{key}" for key in keys)
        with self.lent(fresh_rows=rows, gone=difference.gone.rename_columns(list(keys))):
            old = f"SELECT {shown} FROM fresh_rows UNION ALL SELECT {listed} FROM gone"
            self.run(f"DELETE FROM held USING ({old}) o WHERE {same}")
            self.run(f"INSERT INTO held SELECT {shown}, hash({values}) FROM fresh_rows")


def are_distinct(column: pa.ChunkedArray) -> bool:
    """Whether no value is there twice; False as well where Arrow cannot tell, or tells two zeros apart."""
    if pa.types.is_floating(column.type):
        return False
    try:
        return bool(pc.count_distinct(column, mode="all").as_py() == len(column))
    except pa.ArrowNotImplementedError:
        return False


@dataclass(frozen=True)
class Difference:
    """What a batch changes in the view."""

    rows: pa.Table
    """New ones, and those that are otherwise now."""
    gone: pa.Table
    """Keys that have no row any more."""
    twice: tuple[Any, ...] | None = None
    """A key that two rows have."""
    just_found: bool = False
    """Whether the store has just found it, and so has it still before its eyes."""
    aside: pa.Table | None = None  # keys for which the function fails, and why: `set_aside`
