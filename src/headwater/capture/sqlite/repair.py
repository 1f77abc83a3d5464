"""Mends what triggers wrote that did not fit their table any more; called by `reconcile`, inside its
transaction, for the changes after `verified`: up to that one the triggers were known to fit.

The true order of changes that an application's newer trigger has put the wrong way round.

Called by `reconcile` when it finds such a trigger: SQLite runs the newest trigger first, so until ours
are made again, what that trigger does to a row is noted before the change that set it off:

    UPDATE … (A → B), whose trigger does B → C     noted as B → C, A → B     true: A → B, B → C

The changes of one row form a chain: each begins as the one before ended. Where a change does not fit the
end of its row's chain, but ends as one noted shortly before begins, it belongs before that one. Where
values repeat, that can be wrong; so the caller compares the end with the table. Pure.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headwater.capture.sqlite.changes import Values
from headwater.capture.sqlite.connection import quoted
from headwater.capture.sqlite.shape import ColumnShape, Shape
from headwater.capture.sqlite.triggers import CHANGES, insert_into


def heal(
    connection: sqlite3.Connection,
    verified: int,
    sid: int,
    known: Shape,
    new_sid: int,
    now: Shape,
    added: Sequence[ColumnShape],
) -> None:
    """Rows that were written after ADD COLUMN by triggers that did not know the column."""
    defaults = {column.name: column.default or "NULL" for column in added}
    table, width = quoted(now.table), len(known.names)
    row = [f"t.{quoted(name)}" for name in now.names]
    before = [
        f"({defaults[name]})" if name in defaults else f"t.{quoted(name)}" for name in now.names
    ]
    differs = " OR ".join(f"t.{quoted(name)} IS NOT ({text})" for name, text in defaults.items())
    same = " AND ".join(
        f"t.{quoted(now.names[place])} = iif(c.op = 'u', c.v{place + width}, c.v{place})"
        for place in now.order
    )
    connection.execute(
        f"{insert_into(2 * len(row))} SELECT DISTINCT julianday('now'), {new_sid}, 'h', "
        f"{', '.join(before + row)} FROM {CHANGES} c CROSS JOIN {table} t "
        f"WHERE c.seq > ? AND c.sid = ? AND c.op IN ('c', 'u') AND {same} AND ({differs})",
        (verified, sid),
    )


def put_in_order(
    connection: sqlite3.Connection, verified: int, sid: int, shape: Shape, names: Sequence[str] = ()
) -> bool:
    """A newer trigger of the application ran before ours: its changes were noted too early.
    Whether the order that was found ends with the rows as they are. `names`: of the columns now."""
    width = len(shape.names)
    columns = ", ".join(f"v{place}" for place in range(2 * width))
    rows = connection.execute(
        f"SELECT seq, op, {columns} FROM {CHANGES} WHERE sid = ? AND seq > ?"
        " AND op IN ('c', 'u', 'd') ORDER BY seq",
        (sid, verified),
    ).fetchall()
    noted = [
        Noted(
            row[0],
            None if row[1] == "c" else row[2 : 2 + width],
            {"c": row[2 : 2 + width], "u": row[2 + width :], "d": None}[row[1]],
        )
        for row in rows
    ]
    found = true_order(noted, shape.order)
    moved = [(old.seq, seq) for old, seq in zip(noted, found, strict=True) if old.seq != seq]
    for _place, seq in moved:
        connection.execute(f"UPDATE {CHANGES} SET seq = -seq WHERE seq = ?", (seq,))
    for place, seq in moved:
        connection.execute(f"UPDATE {CHANGES} SET seq = ? WHERE seq = ?", (place, -seq))
    by_seq = {one.seq: one for one in noted}
    ends = end_rows([by_seq[seq] for seq in found], shape.order)
    return _are_so(connection, shape, names or shape.names, ends)


def _are_so(
    connection: sqlite3.Connection,
    shape: Shape,
    names: Sequence[str],
    rows: Mapping[tuple[Any, ...], Values | None],
) -> bool:
    """Whether the table has these rows, and has those no more that are None."""
    same = " AND ".join(f"{quoted(names[place])} IS ?" for place in shape.order)
    query = f"SELECT {', '.join(map(quoted, names))} FROM {quoted(shape.table)} WHERE {same}"
    return all(connection.execute(query, key).fetchone() == row for key, row in rows.items())


WINDOW = 256
"""So far back is looked; what one statement's triggers do lies close together."""


class Noted(NamedTuple):
    """One change; before and after as in the change table."""

    seq: int
    before: Values | None
    after: Values | None


def true_order(changes: Sequence[Noted], key: Sequence[int]) -> list[int]:
    """The numbers of the changes, as they happened. `key`: places that make a row the same row."""
    rows: dict[tuple[Any, ...], Values | None] = {}
    placed: list[Noted] = []
    for change in changes:
        where = None if _fits(change, rows, key) else _place_before(change, placed, key)
        if where is not None:
            placed.insert(where, change)
            continue
        placed.append(change)
        if change.before is not None:
            rows[_part(change.before, key)] = None
        if change.after is not None:
            rows[_part(change.after, key)] = change.after
    return [change.seq for change in placed]


def end_rows(changes: Sequence[Noted], key: Sequence[int]) -> dict[tuple[Any, ...], Values | None]:
    """How the touched rows are in the end (None: gone), if the changes happened in this order."""
    rows: dict[tuple[Any, ...], Values | None] = {}
    for change in changes:
        if change.before is not None:
            rows[_part(change.before, key)] = None
        if change.after is not None:
            rows[_part(change.after, key)] = change.after
    return rows


def _fits(change: Noted, rows: dict[tuple[Any, ...], Values | None], key: Sequence[int]) -> bool:
    """Whether the rows, as far as they are known, are as the change begins."""
    before = None if change.before is None else _part(change.before, key)
    if before is not None and rows.get(before, change.before) != change.before:
        return False
    after = None if change.after is None else _part(change.after, key)
    return after is None or after == before or rows.get(after) is None


def _place_before(change: Noted, placed: Sequence[Noted], key: Sequence[int]) -> int | None:
    for place in range(len(placed) - 1, max(-1, len(placed) - 1 - WINDOW), -1):
        other = placed[place]
        if change.after is not None:
            if other.before == change.after:
                return place
        elif other.before is None and other.after is not None and change.before is not None:
            if _part(other.after, key) == _part(change.before, key):
                return place
    return None


def _part(row: Values, key: Sequence[int]) -> tuple[Any, ...]:
    return tuple(row[place] for place in key)
