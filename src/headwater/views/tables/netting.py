"""Step 1: the changes of a batch to the rows that really change, each as it was and as it is.

Of several changes of a key the last one counts; a change that changes nothing, or deletes what is not there,
is none. Gives the temporary tables `beforeN` and `afterN` for table N, and brings the table up to date.

A batch of changes has the columns of the table (c0, …, d0, …), and

    gone        the key has no row any more
    emptied     all rows of this partition are gone (a truncate)
    m0, …       the key before, where a change moved the row to another key
    p, o        partition and offset of the record
"""

from __future__ import annotations

import pyarrow as pa

from headwater.views.tables.store import Store, TableShape
from headwater.views.target import Misfit


def net(store: Store, number: int, changes: pa.Table) -> int:
    """Find what changes in a table; how many rows."""
    table = store.tables[number]
    with store.lent(changes=changes):
        _latest(store, table, changes)
        _check_keys(store, table)
    _images(store, number, table)
    return store.count(f"net{number}")


def _latest(store: Store, table: TableShape, changes: pa.Table) -> None:
    """The last change of each key, without those before a truncate."""
    columns, keys = ", ".join(table.columns.names), ", ".join(table.keys)
    store.run(
        "CREATE OR REPLACE TEMP TABLE emptied AS "
        "SELECT p, max(o) AS o FROM changes WHERE emptied GROUP BY p"
    )
    own = f"SELECT {columns}, gone, p, o, 1 AS step FROM changes WHERE NOT emptied"
    if not store.count("emptied") and changes["m0"].null_count == changes.num_rows:
        distinct = store.rows(f"SELECT count(*) FROM (SELECT DISTINCT {keys} FROM changes)")[0][0]
        if distinct == changes.num_rows:  # the usual case, and the quick one
            store.run(
                f"CREATE OR REPLACE TEMP TABLE latest AS SELECT * EXCLUDE (o, step) FROM ({own})"
            )
            return
    moved = ", ".join(
        f"m{table.keys.index(name)}" if name in table.keys else f"CAST(NULL AS {kind})"
        for name, kind in zip(table.columns.names, _kinds(store, table), strict=True)
    )
    # Where a row moves, its old key goes first: the same record may bring another row there.
    store.run(
        f"""CREATE OR REPLACE TEMP TABLE latest AS
        SELECT * EXCLUDE (o, step) FROM (
            {own} UNION ALL
            SELECT {moved}, true, p, o, 0 FROM changes WHERE m0 IS NOT NULL
        ) c
        WHERE NOT EXISTS (SELECT 1 FROM emptied e WHERE e.p = c.p AND e.o > c.o)
        QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY o DESC, step DESC) = 1
        """
    )


def _kinds(store: Store, table: TableShape) -> list[str]:
    number = store.tables.index(table)
    return [str(row[1]) for row in store.rows(f"DESCRIBE t{number}")][:-1]


def _check_keys(store: Store, table: TableShape) -> None:
    missing = " OR ".join(f"{name} IS NULL" for name in table.keys)
    if found := store.rows(f"SELECT p FROM latest WHERE {missing} LIMIT 1"):
        raise Misfit(
            f"a change of the table {table.name} in partition {found[0][0]} does not say its key; its "
            "value, or the record's key, must have the columns that hw.table names as key"
        )


def _images(store: Store, number: int, table: TableShape) -> None:
    keys = _same(table, "s", "l")
    gone = "SELECT s.rowid AS place, s.* FROM"
    store.run(
        f"CREATE OR REPLACE TEMP TABLE old{number} AS {gone} t{number} s SEMI JOIN latest l ON {keys}"
    )
    if store.count("emptied"):
        store.run(
            f"""INSERT INTO old{number} {gone} t{number} s SEMI JOIN emptied e ON s.p = e.p
            ANTI JOIN latest l ON {keys}"""
        )
        shown = ", ".join(table.columns.names)
        store.run(
            f"""INSERT INTO latest SELECT {shown}, true, p FROM old{number} s
            ANTI JOIN latest l ON {keys}"""
        )
    columns = table.columns.names
    now, then = (f"({', '.join(f'{side}.{name}' for name in columns)})" for side in "lo")
    store.run(
        f"""CREATE OR REPLACE TEMP TABLE net{number} AS
        SELECT l.*, o.place FROM latest l LEFT JOIN old{number} o ON {_same(table, "o", "l")}
        WHERE CASE WHEN l.gone THEN o.place IS NOT NULL
              ELSE o.place IS NULL OR {now} IS DISTINCT FROM {then} END"""
    )
    store.run(
        f"""CREATE OR REPLACE TEMP TABLE before{number} AS
        SELECT o.* EXCLUDE (place) FROM old{number} o SEMI JOIN net{number} n ON o.place = n.place"""
    )
    store.run(
        f"""CREATE OR REPLACE TEMP VIEW after{number} AS
        SELECT * EXCLUDE (gone, place) FROM net{number} WHERE NOT gone"""
    )


def apply(store: Store, number: int) -> None:
    """Bring the table up to date with what `net` found."""
    store.run(f"DELETE FROM t{number} WHERE rowid IN (SELECT place FROM net{number})")
    store.run(f"INSERT INTO t{number} SELECT * FROM after{number}")


def kept(store: Store, number: int) -> pa.Table:
    """What `apply` does to the table, to be done again after a crash."""
    return store.arrow(f"SELECT * EXCLUDE (place) FROM net{number}")


def reapply(store: Store, number: int, changes: pa.Table) -> None:
    """Bring the table up to date with what `kept` gave."""
    with store.lent(kept=changes):
        same = _same(store.tables[number], f"t{number}", "l")
        store.run(f"DELETE FROM t{number} USING kept l WHERE {same}")
        store.run(f"INSERT INTO t{number} SELECT * EXCLUDE (gone) FROM kept WHERE NOT gone")


def _same(table: TableShape, left: str, right: str) -> str:
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in table.keys)
