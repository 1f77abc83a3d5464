"""How staged rows reach a Delta table: one merge, which is one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from headwater.views.duckdb_history import CLOSES, OPENS, listed, numbered, same, steps
from headwater.views.sql_book import quoted
from headwater.views.target import DELETED, VALIDITY, Shape

BATCH_ROWS = 65_536
KEY = "_key_"
"""Begins the names of the columns that a history's merge compares: null where a row is new."""


def merge_rows(table: Any, rows: pa.Table, shape: Shape, properties: Any) -> None:
    """One row per key: the staged one stands."""
    merge = table.merge(
        rows,
        same("t", "s", shape.key),
        source_alias="s",
        target_alias="t",
        streamed_exec=False,  # so that files which hold none of the keys are left alone
        commit_properties=properties,
    ).when_matched_delete(predicate=f"s.{DELETED}")
    if set(shape.schema.names) - set(shape.key):
        merge = merge.when_matched_update_all(except_cols=[DELETED])
    merge.when_not_matched_insert_all(predicate=f"NOT s.{DELETED}", except_cols=[DELETED]).execute()


def merge_history(table: Any, rows: pa.Table, shape: Shape, properties: Any) -> None:
    """Ends the rows that hold no longer and adds those that begin."""
    since, until, current = VALIDITY
    held = table.to_pyarrow_dataset()
    changes = _changes(held, rows, shape)
    merge = table.merge(
        changes,
        " AND ".join(f"t.{quoted(name)} = s.{quoted(KEY + name)}" for name in shape.key)
        + f" AND t.{current}",
        source_alias="s",
        target_alias="t",
        streamed_exec=False,
        commit_properties=properties,
    )
    values = {name: f"s.{quoted(name)}" for name in [*shape.schema.names, since, until, current]}
    merge.when_matched_update({until: f"s.{until}", current: "false"}).when_not_matched_insert(
        values
    ).execute()


def _changes(held: Any, rows: pa.Table, shape: Shape) -> pa.Table:
    """One row for each version that ends (with its key) and for each that begins (without)."""
    names = shape.schema.names
    keys = ", ".join(
        f"CASE WHEN {CLOSES} THEN {quoted(name)} END AS {quoted(KEY + name)}" for name in shape.key
    )
    since, until, current = VALIDITY
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("held", held)
        connection.register("staged", numbered(rows))
        return connection.sql(
            f"SELECT {listed(names)}, _at AS {since}, _next AS {until}, _next IS NULL AS {current}, "
            f"{keys} FROM ({steps('held', 'staged', names, shape.key)}) "
            f"WHERE ({CLOSES}) OR ({OPENS})"
        ).to_arrow_table()


def wanted(held: Any, names: Sequence[str], keys: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of these keys."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("held", held)
        connection.register("wanted", keys)
        query = f"SELECT {listed(names, 't.')} FROM held t SEMI JOIN wanted w ON "
        yield from connection.sql(query + same("t", "w", keys.schema.names)).to_arrow_reader(
            BATCH_ROWS
        )
