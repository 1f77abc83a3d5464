"""The state of a view over tables: the rows of its tables, and which rows the view holds.

One DuckDB file below the query's checkpoint, owned by the driver. A batch is one transaction, which ends
after the target has the batch; so the state is never ahead of the target.

    t0, t1, …   a table: c0, c1, … its columns; d0, … what joins and groups compare besides; p the
                partition of the log that a row came from (a truncate is told in each)
    held        the view: k0, k1, … its key; h a digest of the row
    state       the last batch, and for which query this is

DuckDB finds rows by looking through a column, some milliseconds for a million of them; an index would
not be used for the many keys of a batch.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from headwater.views.tables.program import TOUCHED, Program
from headwater.views.target import Misfit

FILE = "state.duckdb"
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
                    f"the state in {self.folder} is that of another query; build the view anew, with "
                    "headwater rebuild or another name"
                )
        return int(found[0][0])

    def _create(self) -> None:
        for n, table in enumerate(self.tables):
            columns = table.columns.append(pa.field("p", pa.int32()))
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
        finally:
            for name in tables:
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

    def finish(self, batch: int) -> None:
        """Say, in the transaction at hand, that this batch is in the state."""
        self.run("UPDATE state SET batch = $1", [batch])

    # ---- steps 2 and 3: which keys are touched, which rows decide over them -----------------------

    def touch(self, program: Program, changed: Sequence[int], side: str) -> None:
        """Add the keys that the changed rows of tables touch, as they were or as they are."""
        parts = []
        for n in changed:
            self.run(f"CREATE OR REPLACE TEMP VIEW change{n} AS SELECT * FROM {side}{n}")
            parts += [sql for table, sql in program.upward if table == n]
        found = " UNION ALL ".join(parts)
        names = [f"w{n}" for n in range(len(program.key))]
        if side == "before":
            self.run(f"CREATE OR REPLACE TEMP TABLE {TOUCHED} AS SELECT DISTINCT * FROM ({found})")
        else:
            known = " AND ".join(f"f.{name} IS NOT DISTINCT FROM t.{name}" for name in names)
            self.run(
                f"INSERT INTO {TOUCHED} SELECT DISTINCT f.* FROM ({found}) f "
                f"ANTI JOIN {TOUCHED} t ON {known}"
            )

    def deciding(self, program: Program) -> dict[int, pa.Table]:
        """The rows of every table that decide over the touched keys."""
        for name in program.temporary:
            self.run(f"DROP TABLE IF EXISTS {name}")
        for sql in program.downward:
            self.run(sql)
        return {n: self._own_columns(n, names) for n, names in program.rows.items()}

    def whole(self) -> dict[int, pa.Table]:
        """All rows of every table."""
        return {n: self._own_columns(n, (f"t{n}",)) for n in range(len(self.tables))}

    def _own_columns(self, table: int, places: Sequence[str]) -> pa.Table:
        """Rows without the columns that only the state needs; those found twice, once."""
        shown = ", ".join(self.nothing_of(table).column_names)
        return self.arrow(" UNION ".join(f"SELECT {shown} FROM {place}" for place in places))

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
        values = _hashed(result.schema)
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
        with self.lent(result=numbered):
            self.run(
                f"CREATE OR REPLACE TEMP TABLE fresh AS SELECT {shown}, hash({values}) AS h, n "
                f"FROM result {only}"
            )
        self.run(
            f"CREATE OR REPLACE TEMP TABLE known AS SELECT held.rowid AS place, held.* FROM held {among}"
        )
        listed = ", ".join(keys)
        same = " AND ".join(f"f.{key} IS NOT DISTINCT FROM o.{key}" for key in keys)
        twice = self.rows(f"SELECT {listed} FROM fresh GROUP BY ALL HAVING count(*) > 1 LIMIT 1")
        self.run(
            "CREATE OR REPLACE TEMP TABLE changed AS "
            f"SELECT * FROM fresh f ANTI JOIN known o ON {same} AND f.h = o.h"
        )
        changed = self.arrow("SELECT n FROM changed ORDER BY n")
        gone = self.arrow(f"SELECT {listed} FROM known o ANTI JOIN fresh f ON {same}")
        return Difference(
            result.take(changed.column("n")),
            gone.rename_columns(list(self.view.key)),
            twice[0] if twice else None,
            just_found=True,
        )

    def no_difference(self) -> Difference:
        keys = pa.schema([self.view.schema.field(name) for name in self.view.key])
        return Difference(self.view.schema.empty_table(), keys.empty_table())

    def hold(self, difference: Difference) -> None:
        """Note what the view holds after a difference is written."""
        keys = self.view.keys
        listed = ", ".join(keys)
        if difference.just_found:
            same = " AND ".join(f"f.{key} IS NOT DISTINCT FROM o.{key}" for key in keys)
            kept = f"SELECT o.place FROM known o ANTI JOIN fresh f ON {same} AND f.h = o.h"
            self.run(f"DELETE FROM held WHERE rowid IN ({kept})")
            self.run(f"INSERT INTO held SELECT {listed}, h FROM changed")
            return
        places = [self.view.schema.get_field_index(name) for name in self.view.key]
        rows = difference.rows.rename_columns([f"v{n}" for n in range(len(self.view.schema))])
        shown = ", ".join(f"v{place} AS {key}" for place, key in zip(places, keys, strict=True))
        values = _hashed(rows.schema)
        same = " AND ".join(f"held.{key} IS NOT DISTINCT FROM o.{key}" for key in keys)
        with self.lent(fresh_rows=rows, gone=difference.gone.rename_columns(list(keys))):
            old = f"SELECT {shown} FROM fresh_rows UNION ALL SELECT {listed} FROM gone"
            self.run(f"DELETE FROM held USING ({old}) o WHERE {same}")
            self.run(f"INSERT INTO held SELECT {shown}, hash({values}) FROM fresh_rows")


def _hashed(schema: pa.Schema) -> str:
    """What a row's digest is made of. DuckDB's hash of an empty list, of a struct or list with nothing but
    nulls and of no value is the same: the text of such values tells them apart."""
    names = [f"v{n}" for n in range(len(schema))]
    nested = [
        f"CAST(v{n} AS VARCHAR)" for n, kind in enumerate(schema.types) if pa.types.is_nested(kind)
    ]
    return ", ".join([*names, *nested])


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
