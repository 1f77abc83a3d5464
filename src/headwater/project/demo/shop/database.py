"""The demo's application: a shop that writes to SQLite and knows nothing of the log.

Called by `job` in this folder, which also asks it what the views must hold in the end.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random

CITIES = ("Lisbon", "Oslo", "Quito", "Turin", "Kyoto")
ITEMS = ("kettle", "lamp", "rope", "tent", "stove", "map")
CUSTOMERS = 200

_QUERIES = {
    "order_list": "SELECT o.id, c.name, c.city, o.item, o.cents FROM orders o "
    "JOIN customers c ON c.id = o.customer_id",
    "order_search": "SELECT o.id, c.name, c.city, o.item FROM orders o "
    "JOIN customers c ON c.id = o.customer_id",
    "spent": "SELECT customer_id, count(*), sum(cents) FROM orders GROUP BY customer_id",
}


class Shop:
    """Customers and orders; every write is a transaction of its own, as applications do it."""

    def __init__(self, path: Path, dice: Random) -> None:
        self._dice = dice
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)")
        self._db.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, customer_id INTEGER, "
            "item TEXT, cents INTEGER)"
        )
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT INTO customers VALUES (?, ?, ?)",
            [(n, f"customer {n}", dice.choice(CITIES)) for n in range(1, CUSTOMERS + 1)],
        )
        self._db.execute("COMMIT")

    def fill(self, orders: int) -> None:
        """What was there before anybody thought of a log."""
        self._db.execute("BEGIN")
        for _ in range(orders):
            self.order()
        self._db.execute("COMMIT")

    def order(self) -> int:
        """A new order; its number."""
        dice = self._dice
        row = (dice.randint(1, CUSTOMERS), dice.choice(ITEMS), dice.randint(500, 20_000))
        sql = "INSERT INTO orders (customer_id, item, cents) VALUES (?, ?, ?)"
        return int(self._db.execute(sql, row).lastrowid or 0)

    def change(self) -> None:
        """An order is corrected or cancelled, a customer moves."""
        dice, draw = self._dice, self._dice.random()
        last = self._db.execute("SELECT max(id) FROM orders").fetchone()[0] or 1
        if draw < 0.6:
            sql, row = (
                "UPDATE orders SET cents = cents + 100 WHERE id = ?",
                (dice.randint(1, last),),
            )
        elif draw < 0.8:
            sql, row = "DELETE FROM orders WHERE id = ?", (dice.randint(1, last),)
        else:
            city = dice.choice(CITIES)
            sql, row = (
                f"UPDATE customers SET city = '{city}' WHERE id = ?",
                (dice.randint(1, CUSTOMERS),),
            )
        self._db.execute(sql, row)

    def expected(self, view: str) -> set[tuple[object, ...]]:
        """The rows that a view must hold now."""
        return set(self._db.execute(_QUERIES[view]).fetchall())

    def close(self) -> None:
        self._db.close()
