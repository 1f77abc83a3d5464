"""A random application: transactions, rollbacks, savepoints, REPLACE, key changes, cascades, big rows,
and now and then DDL. The same seed does the same things, as far as it is let.

Also a program: `python -m tests.capture.sqlite.workload PATH SEED` goes on until it is killed.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from pathlib import Path

TABLES = ("orders", "lines", "notes")
CREATE = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, code TEXT COLLATE NOCASE UNIQUE,"
    " version INTEGER NOT NULL DEFAULT 0, pad)",
    "CREATE TABLE lines (order_id INTEGER REFERENCES orders(id) ON DELETE CASCADE ON UPDATE CASCADE,"
    " line TEXT, note, PRIMARY KEY (line, order_id)) WITHOUT ROWID",
    "CREATE TABLE notes (text, n)",
)
STATEMENTS = (
    "INSERT OR IGNORE INTO orders (id, code, pad) VALUES (:a, :code, :pad)",
    "INSERT OR IGNORE INTO orders (code, pad) VALUES (:code, :pad)",
    "REPLACE INTO orders (id, code, version, pad) VALUES (:a, :code, :n, :pad)",
    "INSERT INTO orders (id, code) VALUES (:a, :code) ON CONFLICT DO UPDATE SET version = version + 1",
    "UPDATE orders SET version = version + 1, pad = :pad WHERE id = :a",
    "UPDATE orders SET version = version + 1 WHERE id BETWEEN :a AND :b",
    "UPDATE OR REPLACE orders SET code = :code, id = :b, version = version + 1 WHERE id = :a",
    "UPDATE OR IGNORE orders SET code = :code WHERE id = :a",
    "DELETE FROM orders WHERE id = :a",
    "DELETE FROM orders WHERE id BETWEEN :a AND :b",
    "INSERT OR IGNORE INTO lines (order_id, line, note)"
    " SELECT id, :line, :pad FROM orders WHERE id IN (:a, :b)",
    "REPLACE INTO lines (order_id, line, note) SELECT id, :line, :pad FROM orders WHERE id = :a",
    "UPDATE OR REPLACE lines SET line = :line WHERE order_id = :a",
    "DELETE FROM lines WHERE line = :line",
    "INSERT INTO notes (text, n) VALUES (:pad, :n)",
    "UPDATE notes SET n = n + 1 WHERE rowid % 5 = :n % 5",
    "DELETE FROM notes WHERE rowid % 7 = :n % 7",
)


class Workload:
    """One application; `ddl` is the chance of a change of the schema per transaction."""

    def __init__(self, connection: sqlite3.Connection, seed: object, ddl: float = 0.0) -> None:
        self._connection = connection
        self._draw = random.Random(str(seed))
        self._ddl = ddl
        self._names = 0

    def transaction(self) -> None:
        draw, execute = self._draw, self._connection.execute
        if draw.random() < self._ddl:
            self._change_schema()
            return
        execute("BEGIN IMMEDIATE")
        for _ in range(draw.choice((1, 1, 2, 5, 20))):
            if draw.random() < 0.2:
                execute("SAVEPOINT s")
                self._statement()
                execute("ROLLBACK TO s" if draw.random() < 0.5 else "RELEASE s")
            else:
                self._statement()
        execute("ROLLBACK" if draw.random() < 0.15 else "COMMIT")

    def _statement(self) -> None:
        draw = self._draw
        a = draw.randrange(1, 60)
        values = {
            "a": a,
            "b": a + draw.randrange(0, 5),
            "code": draw.choice("abcdefghijklmnopqrstuvwxyzABCDEF") * draw.choice((1, 1, 2)),
            "line": draw.choice("uvwxyz"),
            "n": draw.randrange(1000),
            "pad": draw.choice((None, 7, 2.5, b"\0\xff", "text", "x" * draw.choice((10, 3_000)))),
        }
        self._connection.execute(draw.choice(STATEMENTS), values)

    def _change_schema(self) -> None:
        """Another column, another name, another table, or rows numbered anew."""
        draw, execute = self._draw, self._connection.execute
        table = draw.choice(TABLES)
        self._names += 1
        new = f"c{self._names}_{draw.randrange(10**6)}"
        what = draw.randrange(5)
        if what == 0:
            execute(
                f"ALTER TABLE {table} ADD COLUMN {new} DEFAULT {draw.choice(('7', 'NULL', '0.5'))}"
            )
            execute(
                f"UPDATE {table} SET {new} = 1 WHERE rowid % 3 = 0"
                if table != "lines"
                else f"UPDATE lines SET {new} = 1 WHERE order_id % 3 = 0"
            )
        elif what == 1:
            columns = [row[1] for row in execute(f"PRAGMA table_info({table})")]
            added = [name for name in columns if name[0] == "c" and name[1].isdigit()]
            if added:
                execute(f"ALTER TABLE {table} RENAME COLUMN {draw.choice(added)} TO {new}")
        elif what == 2:
            execute("BEGIN")
            execute("CREATE TABLE anew (text, n, more)")
            execute("INSERT INTO anew (text, n) SELECT text, n FROM notes WHERE n % 2")
            execute("DROP TABLE notes")
            execute("ALTER TABLE anew RENAME TO notes")
            execute("COMMIT")
        elif what == 3:
            execute("VACUUM")
        else:
            execute(f"CREATE INDEX {new} ON orders (version)")


def prepare(path: Path, mode: str = "WAL") -> sqlite3.Connection:
    """The application's connection, with its tables."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    for statement in CREATE:
        connection.execute(statement.replace("TABLE", "TABLE IF NOT EXISTS", 1))
    return connection


if __name__ == "__main__":
    running = Workload(prepare(Path(sys.argv[1])), f"{sys.argv[2]} {os.getpid()}", ddl=0.005)
    while True:
        running.transaction()
        time.sleep(0.002)  # about as fast as an application on the same two cores may be
