"""Some rows of a table, in the order of its key, behind the last one that was read.

Called by `drain` inside a look. The order is the rowid's, which is how the rows lie in the file; of a
WITHOUT ROWID table it is the primary key's, compared byte by byte.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from headwater.capture.sqlite.changes import Values
from headwater.capture.sqlite.connection import quoted
from headwater.capture.sqlite.shape import Shape


def read_chunk(
    connection: sqlite3.Connection, shape: Shape, key: Values | None
) -> Iterator[Values]:
    """Rows behind the key, to the table's end; the caller stops when it has enough."""
    order = [f"{quoted(shape.names[place])} COLLATE BINARY" for place in shape.order]
    if len(order) == 1 and _is_number(shape):
        order = [quoted(shape.names[shape.order[0]])]
    names = ", ".join(quoted(name) for name in shape.names)
    where = ""
    if key is not None:
        marks = ", ".join("?" for _ in order)
        where = f" WHERE ({', '.join(order)}) > ({marks})"
    cursor = connection.execute(
        f"SELECT {names} FROM {quoted(shape.table)}{where} ORDER BY {', '.join(order)}", key or ()
    )
    try:
        while rows := cursor.fetchmany(64):
            yield from rows
    finally:
        cursor.close()


def _is_number(shape: Shape) -> bool:
    """Whether the order is that of the rowid, under whatever name."""
    return shape.rowid is not None or not shape.sql.upper().rstrip().endswith("ROWID")
