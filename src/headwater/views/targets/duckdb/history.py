"""What staged changes make of the histories of their keys, computed by DuckDB (for Delta too).

A key's row that holds now and its staged versions, in the order of the log, are steps; each ends where the
next one begins. A step that changes nothing is left out, and time does not go backwards: a version never
begins before the one that it follows.

    number  -1 for the row that holds now, then 0, 1, … for the staged ones
    at      when the step begins
    next    when it ends, null if it holds on

These columns, and all else that the query names, have names that no column of the view has (`sql.names`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.views.targets.contract import DELETED, VALID_FROM, VALIDITY, Shape
from headwater.views.targets.sql.book import quoted
from headwater.views.targets.sql.names import OwnNames


class Steps:
    """The steps of one view's histories."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._own = OwnNames.beside(shape)
        self.number, self.at, self.next = map(self._own, ("number", "at", "next"))
        self.closes = f"{self.number} = -1 AND {self.next} IS NOT NULL"
        """Steps that end a row which the table has."""
        self.opens = f"{self.number} >= 0 AND NOT {DELETED}"
        """Steps that are new rows."""

    def numbered(self, staged: pa.Table) -> pa.Table:
        """Staged rows with their number, which keeps the order of the log."""
        return staged.append_column(self.number, pa.array(range(staged.num_rows), pa.int64()))

    def query(self, table: str, staged: str) -> str:
        """For all keys in `staged`: the view's columns, _deleted, number, at, next."""
        names, key, own = self._shape.schema.names, self._shape.key, self._own
        number, at = self.number, self.at
        since, until, current = VALIDITY
        held, lasts, events, beside, changes, timed = map(
            own, ("held", "lasts", "events", "beside", "changes", "timed")
        )
        mine, before, before_deleted, last = map(own, ("mine", "before", "before_deleted", "last"))
        r, s, w = map(own, ("r", "s", "w"))
        columns, keys = listed(names, f"{r}."), listed(key, f"{r}.")
        by = f"PARTITION BY {keys} ORDER BY {r}.{number}"
        return f"""
        WITH {held} AS (FROM {table} {r} SEMI JOIN {staged} {s} ON {same(r, s, key)}),
        {lasts} AS (SELECT {keys}, max({r}.{until}) AS {last} FROM {held} {r}
            WHERE NOT {r}.{current} GROUP BY {keys}),
        {events} AS (
            SELECT {columns}, false AS {DELETED}, {r}.{since} AS {at}, -1 AS {number}
            FROM {held} {r} WHERE {r}.{current}
            UNION ALL SELECT {columns}, {r}.{DELETED}, {r}.{VALID_FROM}, {r}.{number}
            FROM {staged} {r}),
        {beside} AS (
            SELECT {r}.*, row({columns}) AS {mine}, lag(row({columns})) OVER {w} AS {before},
                coalesce(lag({r}.{DELETED}) OVER {w}, true) AS {before_deleted}
            FROM {events} {r} WINDOW {w} AS ({by})),
        {changes} AS (
            SELECT * FROM {beside} {r} WHERE {r}.{number} = -1
                OR {r}.{DELETED} <> {r}.{before_deleted}
                OR (NOT {r}.{DELETED} AND {r}.{mine} IS DISTINCT FROM {r}.{before})),
        {timed} AS (
            SELECT {columns}, {r}.{DELETED}, {r}.{number},
                greatest(max({r}.{at}) OVER ({by}), {s}.{last}) AS {at}
            FROM {changes} {r} LEFT JOIN {lasts} {s} ON {same(r, s, key)})
        SELECT {r}.*, lead({r}.{at}) OVER ({by}) AS {self.next} FROM {timed} {r}"""


def listed(names: Sequence[str], prefix: str = "") -> str:
    return ", ".join(prefix + quoted(name) for name in names)


def same(one: str, other: str, key: Sequence[str]) -> str:
    """That two rows have the same key."""
    return " AND ".join(f"{one}.{quoted(name)} = {other}.{quoted(name)}" for name in key)
