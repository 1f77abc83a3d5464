"""How staged rows reach a Delta table: one merge, which is one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from headwater.views.targets.contract import DELETED, VALIDITY, Shape
from headwater.views.targets.duckdb.history import Steps, listed, same
from headwater.views.targets.sql.book import quoted
from headwater.views.targets.sql.names import OwnNames

BATCH_ROWS = 65_536


def merge_rows(table: Any, rows: pa.Table, shape: Shape, properties: Any) -> None:
    """One row per key: the staged one stands."""
    own = OwnNames.beside(shape)
    held, new = own("held"), own("new")
    merge = table.merge(
        rows,
        same(held, new, shape.key),
        source_alias=new,
        target_alias=held,
        streamed_exec=False,  # so that files which hold none of the keys are left alone
        commit_properties=properties,
    ).when_matched_delete(predicate=f"{new}.{DELETED}")
    # Named one by one: delta-rs's own "all" does not know every name.
    values = {quoted(name): f"{new}.{quoted(name)}" for name in shape.schema.names}
    rest = {name: value for name, value in values.items() if name not in map(quoted, shape.key)}
    if rest:
        merge = merge.when_matched_update(rest)
    merge.when_not_matched_insert(values, predicate=f"NOT {new}.{DELETED}").execute()


def merge_history(table: Any, rows: pa.Table, shape: Shape, properties: Any) -> None:
    """Ends the rows that hold no longer and adds those that begin."""
    since, until, current = VALIDITY
    own = OwnNames.beside(shape)
    held, new = own("held"), own("new")
    changes = _changes(table.to_pyarrow_dataset(), rows, shape)
    compared = [
        f"{held}.{quoted(name)} = {new}.{_key(own, place)}" for place, name in enumerate(shape.key)
    ]
    merge = table.merge(
        changes,
        " AND ".join([*compared, f"{held}.{current}"]),
        source_alias=new,
        target_alias=held,
        streamed_exec=False,
        commit_properties=properties,
    )
    names = [*shape.schema.names, since, until, current]
    values = {quoted(name): f"{new}.{quoted(name)}" for name in names}
    merge.when_matched_update({until: f"{new}.{until}", current: "false"}).when_not_matched_insert(
        values
    ).execute()


def _key(own: OwnNames, place: int) -> str:
    """The column with which a history's merge compares a key's column: null where a row is new."""
    return own(f"key{place}")


def _changes(held: Any, rows: pa.Table, shape: Shape) -> pa.Table:
    """One row for each version that ends (with its key) and for each that begins (without)."""
    own, steps = OwnNames.beside(shape), Steps(shape)
    keys = ", ".join(
        f"CASE WHEN {steps.closes} THEN {quoted(name)} END AS {_key(own, place)}"
        for place, name in enumerate(shape.key)
    )
    since, until, current = VALIDITY
    there, staged = own("there"), own("staged")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(there, held)
        connection.register(staged, steps.numbered(rows))
        return connection.sql(
            f"SELECT {listed(shape.schema.names)}, {steps.at} AS {since}, {steps.next} AS {until}, "
            f"{steps.next} IS NULL AS {current}, {keys} FROM ({steps.query(there, staged)}) "
            f"WHERE ({steps.closes}) OR ({steps.opens})"
        ).to_arrow_table()


def wanted(held: Any, names: Sequence[str], keys: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of these keys."""
    own = OwnNames(names)
    row, key, there, asked = map(own, ("row", "key", "there", "asked"))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(there, held)
        connection.register(asked, keys)
        query = f"SELECT {listed(names, f'{row}.')} FROM {there} {row} SEMI JOIN {asked} {key} ON "
        yield from connection.sql(query + same(row, key, keys.schema.names)).to_arrow_reader(
            BATCH_ROWS
        )
