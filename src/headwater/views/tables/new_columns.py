"""A state gets the columns that its tables have got: those of new schemas of their topics.

Called by `pipelines.state_evolution`, while the view's query does not run. One transaction, which may come
again. Rows that are there have the column's default; so have those of batches that the journal has and the
file has not, which name no such column. The table `widened` says that the next batch computes the view as a
whole: what the view's function makes of the rows is another now, and with it every digest in `held`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from headwater.views.tables.store import FILE

if TYPE_CHECKING:
    from headwater.views.tables.store import Store

Default = bool | int | float | str | None
WIDENED = "widened"
_BESIDES = ("p", "ts")


def rows(folder: Path, tables: int) -> int:
    """How many all tables of a state have; 0 where there is none."""
    if not (folder / FILE).exists():
        return 0
    with duckdb.connect(str(folder / FILE)) as connection:
        known = _tables(connection)
        names = [f"t{n}" for n in range(tables) if f"t{n}" in known]
        return sum(_count(connection, name) for name in names)


def widen(
    folder: Path,
    columns: Sequence[pa.Schema],
    defaults: Sequence[Mapping[str, Default]],
    query: str,
) -> None:
    """Bring a state, where there is one, to these columns of its tables and this query."""
    if not (folder / FILE).exists():
        return
    with duckdb.connect(str(folder / FILE)) as connection:
        if not {"state", *(f"t{n}" for n in range(len(columns)))} <= _tables(connection):
            return
        connection.execute("BEGIN")
        for n, (wanted, given) in enumerate(zip(columns, defaults, strict=True)):
            _widen_table(connection, f"t{n}", wanted, given)
        connection.execute("UPDATE state SET query = $1", [query])
        connection.execute(f"CREATE TABLE IF NOT EXISTS {WIDENED} (since BIGINT)")
        connection.execute("COMMIT")


def _widen_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    wanted: pa.Schema,
    defaults: Mapping[str, Default],
) -> None:
    known = {str(row[0]) for row in connection.execute(f"DESCRIBE {name}").fetchall()}
    if not (missing := [each for each in wanted.names if each not in known]):
        return
    connection.register("given", wanted.empty_table())
    described = connection.execute("DESCRIBE SELECT * FROM given").fetchall()
    connection.unregister("given")
    kinds = {str(row[0]): str(row[1]) for row in described}
    values = {each: _literal(defaults.get(each), kinds[each]) for each in missing}
    shown = [f"{values[each]} AS {each}" if each in values else each for each in wanted.names]
    # In the order of the schema: who adds rows relies on it.
    listed = ", ".join([*shown, *(each for each in _BESIDES if each in known)])
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {listed} FROM {name}")
    for each, value in values.items():
        connection.execute(f"ALTER TABLE {name} ALTER COLUMN {each} SET DEFAULT {value}")


def _literal(value: Default, kind: str) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "CAST('" + text.replace("'", "''") + f"' AS {kind})"


def is_due(store: Store) -> bool:
    """Whether the next batch has to compute the view as a whole."""
    found = store.rows(f"SELECT 1 FROM duckdb_tables() WHERE table_name = '{WIDENED}'")
    return bool(found)


def finish(store: Store) -> None:
    """In a batch's transaction: it has computed the view as a whole."""
    store.run(f"DROP TABLE {WIDENED}")


def _tables(connection: duckdb.DuckDBPyConnection) -> set[str]:
    found = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    return {str(name) for (name,) in found}


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    (found,) = connection.execute(f"SELECT count(*) FROM {name}").fetchall()
    return int(found[0])
