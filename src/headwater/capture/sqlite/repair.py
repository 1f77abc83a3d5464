"""Mends what triggers wrote that did not fit their table any more; called by `reconcile`, inside its
transaction, for the changes after `verified`: up to that one the triggers were known to fit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.capture.sqlite.changes import Values
from headwater.capture.sqlite.connection import quoted
from headwater.capture.sqlite.order import Noted, end_rows, true_order
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
