"""The demo's application: a shop that writes to its database and knows nothing of the log.

`load` says what happens in the shop, `verification` asks the same database what the views must hold. The
statements are those that SQLite and PostgreSQL share; every write is a transaction of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

DATABASE_VARIABLE = "HEADWATER_DEMO_DATABASE"
"""Holds the address of a PostgreSQL behind its scheme: a password does not belong into a file."""
CITIES = ("Lisbon", "Oslo", "Quito", "Turin", "Kyoto")
ITEMS = ("kettle", "lamp", "rope", "tent", "stove", "map")
PAGES = ("home", "search", "item", "basket")
TABLES = ("customers", "orders", "payments", "visits")

_SCHEMA = (
    "CREATE TABLE customers (id {key} PRIMARY KEY, name TEXT, city TEXT)",
    "CREATE TABLE orders (id {key} PRIMARY KEY, customer_id BIGINT, item TEXT, cents BIGINT)",
    "CREATE TABLE payments (id {key} PRIMARY KEY, order_id BIGINT, cents BIGINT, at BIGINT)",
    "CREATE TABLE visits (id {key} PRIMARY KEY, customer_id BIGINT, page TEXT, at BIGINT)",
)
"""`at` is milliseconds since 1970. Orders change and go; payments and visits are facts that stay."""

Row = tuple[Any, ...]


class Database(Protocol):
    """What the shop needs of a database; the shop, and whoever takes the tour, are its only writers."""

    key_type: str
    begin_alone: str
    """Begins a transaction beside which nobody else writes visits."""

    def execute(self, sql: str, row: Sequence[object] = ()) -> None: ...

    def rows(self, sql: str) -> list[Row]: ...

    def close(self) -> None: ...


class SQLite:
    """A file."""

    key_type = "INTEGER"
    begin_alone = "BEGIN IMMEDIATE"

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=60)
        self._db.execute("PRAGMA journal_mode=WAL")

    def execute(self, sql: str, row: Sequence[object] = ()) -> None:
        self._db.execute(sql, tuple(row))

    def rows(self, sql: str) -> list[Row]:
        return self._db.execute(sql).fetchall()

    def close(self) -> None:
        self._db.close()


class PostgreSQL:
    """A database of a server, made for the demo."""

    key_type = "BIGINT"
    begin_alone = "BEGIN; LOCK TABLE visits IN EXCLUSIVE MODE"

    def __init__(self, url: str) -> None:
        import psycopg

        self._db = psycopg.connect(url, autocommit=True)

    def execute(self, sql: str, row: Sequence[object] = ()) -> None:
        self._db.execute(sql.replace("?", "%s").encode(), tuple(row))

    def rows(self, sql: str) -> list[Row]:
        return self._db.execute(sql.encode()).fetchall()

    def close(self) -> None:
        self._db.close()


class Shop:
    """Customers, orders, payments and visits; numbers are given here, in the order of writing."""

    def __init__(self, database: Database, customers: int) -> None:
        self.customers = customers
        self._db = database
        self._last = dict.fromkeys(TABLES, 0)

    def make(self) -> None:
        """The tables."""
        for statement in _SCHEMA:
            self._db.execute(statement.format(key=self._db.key_type))

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Iterator[None]:
        self._db.execute(begin)
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def count(self, table: str) -> int:
        """How many rows were ever written to a table: the number of the last."""
        return self._last[table]

    def register(self, city: str) -> int:
        number = self._next("customers")
        self._db.execute(
            "INSERT INTO customers VALUES (?, ?, ?)", (number, f"customer {number}", city)
        )
        return number

    def move(self, customer: int, city: str) -> None:
        self._db.execute("UPDATE customers SET city = ? WHERE id = ?", (city, customer))

    def visit(self, customer: int, page: str, at: int) -> None:
        row = (self._next("visits"), customer, page, at)
        self._db.execute("INSERT INTO visits VALUES (?, ?, ?, ?)", row)

    def order(self, customer: int, item: str, cents: int) -> int:
        number = self._next("orders")
        row = (number, customer, item, cents)
        self._db.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", row)
        return number

    def reprice(self, order: int, cents: int) -> None:
        self._db.execute("UPDATE orders SET cents = cents + ? WHERE id = ?", (cents, order))

    def cancel(self, order: int) -> None:
        self._db.execute("DELETE FROM orders WHERE id = ?", (order,))

    def pay(self, order: int, cents: int, at: int) -> None:
        """Money comes, or with a minus goes back."""
        row = (self._next("payments"), order, cents, at)
        self._db.execute("INSERT INTO payments VALUES (?, ?, ?, ?)", row)

    def _next(self, table: str) -> int:
        self._last[table] += 1
        return self._last[table]
