"""A small application to try it with: customers and orders in SQLite, written to now and then.

    python shop.py            makes shop.db, then writes until Ctrl-C
    python shop.py --orders 100   writes so many, then ends

It knows nothing of headwater: the capture finds every change by itself.
"""

import argparse
import random
import sqlite3
import time

CITIES = ("Lisbon", "Oslo", "Quito", "Turin")
ITEMS = ("kettle", "lamp", "rope", "tent")


def make(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(
        "CREATE TABLE IF NOT EXISTS customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)"
    )
    db.execute(
        "CREATE TABLE IF NOT EXISTS orders "
        "(id INTEGER PRIMARY KEY, customer_id INTEGER, item TEXT, total REAL)"
    )
    if not db.execute("SELECT 1 FROM customers").fetchone():
        rows = [(n, f"customer {n}", random.choice(CITIES)) for n in range(1, 21)]
        db.executemany("INSERT INTO customers VALUES (?, ?, ?)", rows)
    db.commit()


def write(db: sqlite3.Connection) -> None:
    """One order comes in; now and then one is changed, one is cancelled, a customer moves."""
    dice = random.random()
    if dice < 0.7:
        row = (random.randint(1, 20), random.choice(ITEMS), round(random.uniform(5, 200), 2))
        db.execute("INSERT INTO orders (customer_id, item, total) VALUES (?, ?, ?)", row)
    elif dice < 0.85:
        db.execute("UPDATE orders SET total = total + 1 WHERE id % 7 = ?", (random.randint(0, 6),))
    elif dice < 0.95:
        city = random.choice(CITIES)
        db.execute("UPDATE customers SET city = ? WHERE id = ?", (city, random.randint(1, 20)))
    else:
        db.execute("DELETE FROM orders WHERE id = (SELECT min(id) FROM orders)")
    db.commit()


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("--orders", type=int, help="end after so many writes")
    words.add_argument("--make", action="store_true", help="only make the database")
    given = words.parse_args()
    connection = sqlite3.connect("shop.db")
    make(connection)
    written = 0
    while not given.make and (given.orders is None or written < given.orders):
        write(connection)
        written += 1
        if given.orders is None:
            time.sleep(0.1)
