"""What staged changes make of the histories of their keys, computed by DuckDB (for Delta too).

A key's row that holds now and its staged versions, in the order of the log, are steps; each ends where the
next one begins. A step that changes nothing is left out, and time does not go backwards: a version never
begins before the one that it follows.

    _number  -1 for the row that holds now, then 0, 1, … for the staged ones
    _at      when the step begins
    _next    when it ends, null if it holds on
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.views.sql_book import quoted
from headwater.views.target import DELETED, VALID_FROM, VALIDITY

NUMBER = "_number"
CLOSES = "_number = -1 AND _next IS NOT NULL"
"""Steps that end a row which the table has."""
OPENS = f"_number >= 0 AND NOT {DELETED}"
"""Steps that are new rows."""


def numbered(staged: pa.Table) -> pa.Table:
    """Staged rows with their number, which keeps the order of the log."""
    return staged.append_column(NUMBER, pa.array(range(staged.num_rows), pa.int64()))


def steps(table: str, staged: str, names: Sequence[str], key: Sequence[str]) -> str:
    """A query for the steps of all keys in `staged`: columns `names`, _deleted, _number, _at, _next."""
    since, until, current = VALIDITY
    columns, keys = listed(names), listed(key)
    return f"""
    WITH held AS (FROM {table} t SEMI JOIN {staged} s ON {same("t", "s", key)}),
    lasts AS (SELECT {keys}, max({until}) AS _last FROM held WHERE NOT {current} GROUP BY {keys}),
    events AS (
        SELECT {columns}, false AS {DELETED}, {since} AS _at, -1 AS {NUMBER} FROM held WHERE {current}
        UNION ALL SELECT {columns}, {DELETED}, {VALID_FROM}, {NUMBER} FROM {staged}),
    beside AS (
        SELECT *, row({columns}) AS _mine, lag(row({columns})) OVER w AS _before,
            coalesce(lag({DELETED}) OVER w, true) AS _before_deleted
        FROM events WINDOW w AS (PARTITION BY {keys} ORDER BY {NUMBER})),
    changes AS (
        SELECT * FROM beside WHERE {NUMBER} = -1 OR {DELETED} <> _before_deleted
            OR (NOT {DELETED} AND _mine IS DISTINCT FROM _before)),
    timed AS (
        SELECT {listed(names, "c.")}, {DELETED}, {NUMBER},
            greatest(max(_at) OVER (PARTITION BY {listed(key, "c.")} ORDER BY {NUMBER}), l._last) AS _at
        FROM changes c LEFT JOIN lasts l ON {same("c", "l", key)})
    SELECT *, lead(_at) OVER (PARTITION BY {keys} ORDER BY {NUMBER}) AS _next FROM timed"""


def listed(names: Sequence[str], prefix: str = "") -> str:
    return ", ".join(prefix + quoted(name) for name in names)


def same(one: str, other: str, key: Sequence[str]) -> str:
    """That two rows have the same key."""
    return " AND ".join(f"{one}.{quoted(name)} = {other}.{quoted(name)}" for name in key)
