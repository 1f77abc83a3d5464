"""Views in a DuckDB file: `duckdb:PATH`, a table of the view's name.

Made by the registry; called by the runner and by every command that opens a view. Rows and position
change in one transaction of DuckDB, so a view is exact whatever is killed. A DuckDB file has one process
at a time: it is opened for each call and closed again, so that others get their turn, and a call that
finds it taken waits a little, then is `Unavailable`.

    headwater_views     view, version, place, epoch, batch, position, current
    NAME                the version that readers see
    NAME__v2            another one
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.views.targets.libraries import missing

try:
    import duckdb
    import pyarrow as pa
except ModuleNotFoundError as error:
    raise missing(error, "duckdb", "warehouse") from error

from headwater.views.order import last_of_each_key, order_of
from headwater.views.targets.contract import (
    VALIDITY,
    Applied,
    Fenced,
    Kind,
    Misfit,
    Part,
    RowsRefused,
    Shape,
    Target,
)
from headwater.views.targets.duckdb import statements as sql
from headwater.views.targets.duckdb.errors import passes, trouble
from headwater.views.targets.duckdb.history import Steps
from headwater.views.targets.duckdb.refusals import has_rules, may_update, take_out
from headwater.views.targets.file_stamp import LastSeen
from headwater.views.targets.places import DUCKDB, must_be_alone, must_be_free
from headwater.views.targets.schema_fit import must_fit
from headwater.views.targets.sql.book import quoted
from headwater.views.targets.sql.names import must_be_usable
from headwater.views.targets.staged_files import (
    Admission,
    StagedFiles,
    staged_schema,
    visible_schema,
)

PATIENCE_S = 5.0
"""How long a call waits for another process to close the file."""
BATCH_ROWS = 65_536
_CONNECTING = threading.Lock()
"""Two threads that open a file at the same time: DuckDB 2.0 gives the second one half a database."""

_CURRENT: LastSeen[int | None] = LastSeen()

Connection = duckdb.DuckDBPyConnection


class DuckdbTarget(Target):
    """A view as a table of a DuckDB file."""

    kinds = frozenset(Kind)

    def __init__(self, address: str, shape: Shape) -> None:
        super().__init__(address, shape)
        self.path = Path(self.rest)

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        must_be_usable(self.shape, "DuckDB", folded=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._transaction(make=True) as connection:
            connection.execute(sql.BOOKKEEPING)
            columns = sql.described(connection, visible_schema(self.shape))
            place = sql.place(connection, self._id)
            taken = connection.execute(sql.OTHERS, [self.shape.view]).fetchall()
            if place is not None:
                must_be_alone(place, str(self.path), taken, DUCKDB)
            else:
                must_be_free(self.name, str(self.path), taken, DUCKDB)
                connection.execute(sql.REGISTER, [*self._id, self.name, *self._id])
                place = sql.place(connection, self._id)
                assert place is not None
                if not sql.columns_of(connection, place):
                    connection.execute(sql.create(place, columns, self._unique))
                elif not sql.may_adopt(connection, place, self._unique):
                    raise Misfit(
                        f"{self.path} has a table {place} already, and it is not empty or lacks the key",
                        hint="name another one with the option table",
                    )
            found = dict(sql.columns_of(connection, place))
            must_fit(self.shape, f"the table {place} in {self.path}", found, dict(columns))

    def can_widen(self) -> bool:
        return True

    def widen(self) -> None:
        if self.path.exists():
            with self._transaction() as connection:
                sql.widen(connection, self._id, self.shape.schema)

    def claim(self) -> int:
        with self._transaction() as connection:
            self._require(connection)
            found = connection.execute(sql.CLAIM, self._id).fetchall()
            return int(found[0][0])

    def applied(self) -> Applied | None:
        return self.versions().get(self.shape.version)

    def judges_rows(self) -> bool:
        """A table that somebody made may have more rules than ours."""
        with self._transaction() as connection:
            return has_rules(connection, self._require(connection)[0], self.shape.key)

    # ---- tasks ------------------------------------------------------------------------------------

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        schema = staged_schema(self.shape)
        admission = Admission(self.shape, part)
        place = self._staged.write(batch, part, admission.admitted(rows), schema)
        return Part(part, place, admission.taken)

    # ---- the driver, at the end of a batch --------------------------------------------------------

    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        with self._transaction() as connection:
            place, epoch, before = self._require(connection)
            if applied.epoch < epoch:
                raise Fenced(f"another writer has taken over {self.name} in {self.path}")
            if before is None or applied.batch > before.batch:
                self._apply(connection, place, parts)
                values = [applied.batch, applied.position.to_json(), applied.epoch]
                connection.execute(sql.APPLIED, [*values, *self._id])
        self._staged.clear(applied.batch)

    def correct(self, applied: Applied, parts: Sequence[Part]) -> bool:
        """Change rows without moving the position, if the version is still where it was."""
        with self._transaction() as connection:
            place, _, before = self._require(connection)
            stands = before == applied
            if stands:
                self._apply(connection, place, parts)
        self._staged.remove(parts)
        return stands

    def _apply(self, connection: Connection, place: str, parts: Sequence[Part]) -> None:
        if not parts:
            return
        if self.shape.kind is Kind.UPSERT and has_rules(connection, place, self.shape.key):
            if refusals := take_out(connection, place, self._staged, parts, self.shape):
                raise RowsRefused(refusals)
        staged, kind = self._staged.table(parts), self.shape.kind
        if kind is Kind.HISTORY:
            staged = Steps(self.shape).numbered(staged)
        elif kind is Kind.UPSERT:
            numbers, order = pa.array(range(staged.num_rows), pa.int64()), order_of(self.shape)
            staged = last_of_each_key(staged.append_column(order, numbers), self.shape.key, order)
        rows = sql.Rows(self.shape)
        connection.register(rows.staged, staged)
        try:
            in_place = may_update(connection, place, self.shape, staged)
            for statement in rows.applying(place, in_place):
                connection.execute(statement)
        except duckdb.ConstraintException as error:
            connection.rollback()
            connection.begin()
            refusals = take_out(connection, place, self._staged, parts, self.shape)
            raise (RowsRefused(refusals) if refusals else error) from error
        connection.unregister(rows.staged)

    # ---- readers ----------------------------------------------------------------------------------

    @contextmanager
    def reading(
        self, keys: pa.Table | None = None
    ) -> Iterator[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        with self._transaction() as connection:
            place, _, applied = self._require(connection)
            rows = sql.Rows(self.shape)
            if keys is not None:
                connection.register(rows.wanted, keys.select(list(self.shape.key)))
            names = [*self.shape.schema.names]
            if self.shape.kind is Kind.HISTORY:
                names += VALIDITY
            query = rows.reading(place, names, wanted=keys is not None)
            yield applied, iter(connection.sql(query).to_arrow_reader(BATCH_ROWS))

    # ---- versions ---------------------------------------------------------------------------------

    def versions(self) -> dict[int, Applied | None]:
        rows = self._look(sql.VERSIONS)
        return {version: sql.applied(epoch, batch, text) for version, epoch, batch, text, _ in rows}

    def current(self) -> int | None:
        files = [self.path, self.path.with_name(f"{self.path.name}.wal")]
        return _CURRENT.get((self.address, self.shape.view), files, self._ask_current)

    def _ask_current(self) -> int | None:
        return next((row[0] for row in self._look(sql.VERSIONS) if row[4]), None)

    def switch(self) -> list[str]:
        """Indexes made by hand go over; views of DuckDB read whatever has the table's name."""
        with self._transaction() as connection:
            place, _, _ = self._require(connection)
            shown = connection.execute(sql.SHOWN, [self.shape.view]).fetchall()
            if shown and shown[0][0] == self.shape.version:
                return []
            there = sql.rules_of(connection, place)
            lost = [each for each in sql.rules_of(connection, self.name) if each not in there]
            indexes = sql.indexes_of(connection, self.name)
            for name, _ in indexes:  # a table that has one cannot be renamed
                connection.execute(f"DROP INDEX {quoted(name)}")
            for version, seen in shown:
                self._rename(connection, version, seen, f"{self.name}__v{version}")
            self._rename(connection, self.shape.version, place, self.name)
            connection.execute(sql.SHOW, [self.shape.version, self.shape.view])
            for _, statement in indexes:
                connection.execute(statement)
        return [f"the rule {each}" for each in lost]

    def _rename(self, connection: Connection, version: int, place: str, name: str) -> None:
        connection.execute(sql.renaming(place, name))
        connection.execute(sql.PLACED, [name, self.shape.view, version])

    def drop(self) -> None:
        with self._transaction() as connection:
            place = sql.place(connection, self._id)
            if place is None:
                return
            shown = connection.execute(sql.SHOWN, [self.shape.view]).fetchall()
            if self.shape.version in [version for version, _ in shown]:
                raise Misfit(f"readers see version {self.shape.version} of {self.name}")
            connection.execute(sql.drop(place))
            connection.execute(sql.FORGET, self._id)
        self._staged.drop()

    # ---- the file ---------------------------------------------------------------------------------

    @property
    def _unique(self) -> tuple[str, ...]:
        return self.shape.key if self.shape.kind is Kind.UPSERT else ()

    @property
    def _id(self) -> list[Any]:
        return [self.shape.view, self.shape.version]

    @property
    def _staged(self) -> StagedFiles:
        return StagedFiles(self.path.with_name(f"{self.path.name}.staging"), self.shape)

    def _require(self, connection: Connection) -> tuple[str, int, Applied | None]:
        """Where this version is, its writer's epoch, how far it is."""
        row = sql.row(connection, self._id)
        if row is None:
            raise self._absent()
        place, epoch, batch, position = row
        return place, epoch, sql.applied(epoch, batch, position)

    def _absent(self) -> Misfit:
        named = f"version {self.shape.version} of the view {self.shape.view!r}"
        return Misfit(f"{self.path} has no {named}")

    def _look(self, query: str) -> list[Any]:
        if not self.path.exists():
            return []
        with self._transaction() as connection:
            if not sql.columns_of(connection, sql.VIEWS):
                return []
            return connection.execute(query, [self.shape.view]).fetchall()

    @contextmanager
    def _transaction(self, *, make: bool = False) -> Iterator[Connection]:
        if not make and not self.path.exists():
            raise self._absent()
        connection = self._open()
        try:
            connection.begin()
            yield connection
            connection.commit()
        except duckdb.Error as error:
            raise trouble(error, str(self.path), self.shape.view) from error
        finally:
            with _CONNECTING:
                connection.close()  # what was not committed is undone

    def _open(self) -> Connection:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with _CONNECTING:
                    return duckdb.connect(str(self.path))
            except duckdb.Error as error:
                if not passes(error) or time.monotonic() > deadline:
                    raise trouble(error, str(self.path), self.shape.view) from error
            time.sleep(0.02)  # between two tries: DuckDB does not wait for a lock
