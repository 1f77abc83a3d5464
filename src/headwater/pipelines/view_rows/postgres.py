"""Rows of views in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from headwater.pipelines.view_rows.sql import SqlRows
from headwater.views.targets.postgres.book import trouble
from headwater.views.targets.sql.book import quoted

CONNECT_S = 5
STATEMENT_MS = 30_000
_COLUMNS = """SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
    WHERE a.attrelid = to_regclass(quote_ident(%s)) AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum"""


class PostgresRows(SqlRows):
    mark = "%s"
    text_order = ' COLLATE "C"'

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(
                self.address,
                connect_timeout=CONNECT_S,
                options=f"-c statement_timeout={STATEMENT_MS} -c default_transaction_read_only=on",
            ) as connection:
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                yield connection
        except psycopg.Error as error:
            raise trouble(error, self.view.name) from error

    def run(
        self, connection: psycopg.Connection[Any], statement: str, values: Sequence[Any] = ()
    ) -> Any:
        return connection.execute(statement.encode(), list(values))

    def columns(self, connection: psycopg.Connection[Any], table: str) -> Mapping[str, str]:
        return dict(connection.execute(_COLUMNS, [table]).fetchall())

    def name(self, name: str) -> str:
        return quoted(name).replace("%", "%%")  # else psycopg takes it for a parameter

    def is_bad_key(self, error: Exception) -> bool:
        return isinstance(error, errors.DataError)
