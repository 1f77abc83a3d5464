"""What capture keeps in the database beside the changes: whose it is, and the shapes that wrote rows.

Read and written by `reconcile`, `drain` and `source`, always inside a transaction of theirs.

    _headwater_state   capture        the capture's name; one file has one
                       identity       drawn when capture was installed: a file from elsewhere has another
                       format         of these tables
                       schema_version SQLite's own, after the last reconcile
"""

from __future__ import annotations

import sqlite3
import uuid
from typing import Any

from headwater.capture.errors import SourceRefused
from headwater.capture.sqlite.shape import Shape
from headwater.capture.sqlite.triggers import CHANGES, SCHEMAS, STATE, TABLES

FORMAT = 1


def is_installed(connection: sqlite3.Connection) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN (?, ?, ?)",
        (CHANGES, SCHEMAS, STATE),
    ).fetchone()
    return bool(found[0] == 3)


def install(connection: sqlite3.Connection, capture: str) -> None:
    """Create the three tables, for this capture."""
    for sql in TABLES:
        connection.execute(sql)
    put(connection, "capture", capture)
    put(connection, "identity", uuid.uuid4().hex)
    put(connection, "format", FORMAT)


def get(connection: sqlite3.Connection, name: str) -> Any:
    row = connection.execute(f"SELECT value FROM {STATE} WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def put(connection: sqlite3.Connection, name: str, value: Any) -> None:
    connection.execute(f"INSERT OR REPLACE INTO {STATE} VALUES (?, ?)", (name, value))


def require_owner(connection: sqlite3.Connection, capture: str) -> None:
    """Raise where the file belongs to another capture, or to a later headwater."""
    owner = get(connection, "capture")
    if owner != capture:
        raise SourceRefused(
            f"this database is captured as {owner!r} already",
            hint="use that name; or take that one out first (docs/capture-sqlite.md, Safety)",
        )
    written = get(connection, "format")
    if written != FORMAT:
        raise SourceRefused(
            f"the capture tables have format {written}, this headwater knows {FORMAT}",
            hint="use the headwater that made them, or remove them with it first",
        )


def schema_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA schema_version").fetchone()[0])


def last_seq(connection: sqlite3.Connection) -> int:
    return int(connection.execute(f"SELECT coalesce(max(seq), 0) FROM {CHANGES}").fetchone()[0])


def active_shapes(connection: sqlite3.Connection) -> dict[int, Shape]:
    rows = connection.execute(f"SELECT id, shape FROM {SCHEMAS} WHERE active ORDER BY id")
    return {sid: Shape.from_json(text) for sid, text in rows}


def shape_of(connection: sqlite3.Connection, sid: int) -> Shape:
    """The shape that wrote a row, however long ago."""
    row = connection.execute(f"SELECT shape FROM {SCHEMAS} WHERE id = ?", (sid,)).fetchone()
    if row is None:
        raise SourceRefused(
            f"{CHANGES} names a shape {sid} that {SCHEMAS} does not have",
            hint="somebody changed them; start over: headwater capture run NAME --resnapshot",
        )
    return Shape.from_json(row[0])
