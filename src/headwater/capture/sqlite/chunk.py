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
    connection: sqlite3.Connection, shape: Shape, key: Values | None, condition: str | None = None
) -> Iterator[Values]:
    """Rows behind the key, to the table's end; the caller stops when it has enough.

    `condition`: only these."""
    order = [quoted(shape.names[place]) for place in shape.order]
    if "COLLATE" in shape.sql.upper():
        # Slower, for then no index may fit; but other collations call different keys equal.
        order = [f"{name} COLLATE BINARY" for name in order]
    names = ", ".join(quoted(name) for name in shape.names)
    conditions = [] if condition is None else [f"({condition})"]
    if key is not None:
        marks = ", ".join("?" for _ in order)
        conditions.append(f"({', '.join(order)}) > ({marks})")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    cursor = connection.execute(
        f"SELECT {names} FROM {quoted(shape.table)}{where} ORDER BY {', '.join(order)}", key or ()
    )
    try:
        while rows := cursor.fetchmany(64):
            yield from rows
    finally:
        cursor.close()
