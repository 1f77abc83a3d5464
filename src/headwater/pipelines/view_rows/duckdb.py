"""Rows of views in a DuckDB file, which one process has open at a time: it is opened, asked, and closed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from headwater.pipelines.view_rows.sql import SqlRows
from headwater.views.targets.duckdb.errors import passes, trouble

PATIENCE_S = 5.0
_COLUMNS = (
    "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? "
    "AND database_name = current_database() AND schema_name = current_schema() ORDER BY column_index"
)


class DuckdbRows(SqlRows):
    mark = "?"

    @contextmanager
    def connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        path = Path(self.address.partition(":")[2])
        if not path.exists():
            raise self.not_yet()
        connection = _opened(path, self.view.name)
        try:
            connection.begin()
            yield connection
        except duckdb.Error as error:
            raise trouble(error, path.name, self.view.name) from error
        finally:
            connection.close()

    def run(
        self, connection: duckdb.DuckDBPyConnection, statement: str, values: Sequence[Any] = ()
    ) -> Any:
        return connection.execute(statement, list(values))

    def columns(self, connection: duckdb.DuckDBPyConnection, table: str) -> Mapping[str, str]:
        return dict(connection.execute(_COLUMNS, [table]).fetchall())

    def is_bad_key(self, error: Exception) -> bool:
        return isinstance(error, duckdb.ConversionException)


def _opened(path: Path, view: str) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return duckdb.connect(str(path), read_only=True)
        except duckdb.Error as error:
            if not passes(error) or time.monotonic() > deadline:
                raise trouble(error, path.name, view) from error
        time.sleep(0.02)  # between two tries: DuckDB does not wait for a lock
