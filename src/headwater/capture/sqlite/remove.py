"""Takes everything out of a database that capture has put in; called by `SqliteSource.forget`."""

from __future__ import annotations

import sqlite3

from headwater.capture.sqlite.connection import quoted, writing
from headwater.capture.sqlite.reconcile import TRIGGER
from headwater.capture.sqlite.triggers import CHANGES, SCHEMAS, STATE


def remove(connection: sqlite3.Connection) -> None:
    """Drop our triggers and tables, in one transaction."""
    with writing(connection):
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        for (name,) in found.fetchall():
            if TRIGGER.fullmatch(name):
                connection.execute(f"DROP TRIGGER {quoted(name)}")
        for table in (CHANGES, SCHEMAS, STATE):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
