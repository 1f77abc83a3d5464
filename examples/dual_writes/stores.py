"""Two real systems that ought to hold the same prices: a database (SQLite) and a warehouse (DuckDB).

Each takes single writes, as an application would do them, and batches of changes together with a
position, as a follower of the log does. `changes` counts what was done to a row: once too often shows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

Change = tuple[str, int | None]
"""Key and price; None deletes."""
Rows = dict[str, int]

_TABLES = (
    "CREATE TABLE IF NOT EXISTS prices (item TEXT PRIMARY KEY, price INTEGER, changes INTEGER)",
    "CREATE TABLE IF NOT EXISTS position (one INTEGER PRIMARY KEY, next_offset BIGINT)",
)
_PUT = """INSERT INTO prices VALUES (?, ?, 1) ON CONFLICT (item)
          DO UPDATE SET price = excluded.price, changes = prices.changes + 1"""
_MOVE = """INSERT INTO position VALUES (1, ?) ON CONFLICT (one)
           DO UPDATE SET next_offset = excluded.next_offset"""


class Store:
    """What both have in common: they speak SQL and have transactions."""

    name: str
    connection: Any

    def put(self, item: str, price: int | None) -> None:
        """One write of an application, in a transaction of its own."""
        with self.transaction():
            self.apply([(item, price)])

    def follow(self, changes: Iterable[Change], next_offset: int) -> None:
        """A piece of the log: the changes and how far they go, both or neither."""
        with self.transaction():
            self.apply(changes)
            self.connection.execute(_MOVE, [next_offset])

    def position(self) -> int:
        found = self.connection.execute("SELECT next_offset FROM position").fetchall()
        return found[0][0] if found else 0

    def rows(self) -> Rows:
        return dict(self.connection.execute("SELECT item, price FROM prices").fetchall())

    def changes(self) -> int:
        """How many writes the rows that are there have seen."""
        return int(self.connection.execute("SELECT sum(changes) FROM prices").fetchall()[0][0] or 0)

    def apply(self, changes: Iterable[Change]) -> None:
        """Inside a transaction."""
        for item, price in changes:
            if price is None:
                self.connection.execute("DELETE FROM prices WHERE item = ?", [item])
            else:
                self.connection.execute(_PUT, [item, price])

    @contextmanager
    def transaction(self) -> Any:
        self.connection.execute("BEGIN")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise


class Database(Store):
    name = "database"

    def __init__(self, path: Path) -> None:
        # No patience: who meets a lock hears of it at once.
        self.connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False
        )
        for table in _TABLES:
            self.connection.execute(table)


class Warehouse(Store):
    name = "warehouse"

    def __init__(self, path: Path) -> None:
        self.connection = duckdb.connect(str(path))
        for table in _TABLES:
            self.connection.execute(table)


@contextmanager
def locked(path: Path) -> Any:
    """What every database meets one day: somebody's maintenance locks it for a while."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def differences(one: Store, other: Store) -> list[str]:
    """The items of which the two do not say the same."""
    here, there = one.rows(), other.rows()
    return sorted(item for item in here.keys() | there.keys() if here.get(item) != there.get(item))


def told(one: Store, other: Store) -> str:
    found = differences(one, other)
    if not found:
        return f"{one.name} and {other.name} are equal: {len(one.rows())} items"
    item = found[0]
    return (
        f"{one.name} and {other.name} differ in {len(found)} of {len(one.rows())} items, permanently: "
        f"{item} costs {one.rows().get(item)} here and {other.rows().get(item)} there"
    )
