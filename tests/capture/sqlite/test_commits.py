"""Transactions are told apart by the write-ahead log, however many came between two looks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.capture.sqlite.commits import Commits
from tests.capture.sqlite.drained import Log, database, ordered, table

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, pad)"


def test_each_transaction_between_two_looks_has_its_own_begin_and_end(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    app.execute("PRAGMA cache_size=10")  # so that a transaction writes to the log before its commit
    log, draw = Log(tmp_path / "a.db").drain(), random.Random(7)
    source = log.open()
    assert log.position is not None
    stream = source.stream(log.position)
    expected: list[int] = []
    for _look in range(15):
        for _ in range(draw.randrange(1, 30)):
            app.execute("BEGIN")
            rows = draw.choice((0, 1, 1, 2, 7, 60))
            for _ in range(rows):
                app.execute("INSERT INTO orders (pad) VALUES (?)", ("x" * draw.choice((1, 900)),))
            undone = draw.random() < 0.2
            app.execute("ROLLBACK" if undone else "COMMIT")
            if rows and not undone:
                expected.append(rows)
        batch = next(stream)
        while batch.records:
            log.take(source, batch)
            batch = next(stream)
        source._pruner.prune(now=True)
    source.close()
    told = [v["event_count"] for v in log.values("shop.transaction") if v["status"] == "END"]
    assert sum(told) == sum(expected)
    # The log is begun anew now and then, when nobody reads: what came before is told as one.
    assert len(told) > 0.9 * len(expected), (len(told), len(expected))
    assert ordered(log.fold().values()) == table(app)
    ends, count = set(), 0
    for rows in expected:
        count += rows
        ends.add(count)
    count = 0
    for rows in told:
        count += rows
        assert count in ends, "no transaction is cut in two"


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_without_the_log_what_one_look_finds_is_told_as_one(tmp_path: Path, mode: str) -> None:
    app = database(tmp_path / "a.db", ORDERS, mode=mode)
    log = Log(tmp_path / "a.db").drain()
    for number in range(5):
        app.execute("INSERT INTO orders (id) VALUES (?)", (number,))
    if mode == "wal":
        app.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    log.drain()
    assert [v["event_count"] for v in log.values("shop.transaction")] == [None, 5]


def test_a_transaction_that_a_killed_writer_left_in_the_log_is_no_boundary(tmp_path: Path) -> None:
    """Its frames are in the file, but not in the index, and the next writer overwrites them."""
    path = tmp_path / "a.db"
    app = database(path, ORDERS)
    log = Log(path).drain()
    app.execute("INSERT INTO orders (id) VALUES (1)")
    commits, wal = Commits(path), tmp_path / "a.db-wal"
    root = app.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = '_headwater_changes'"
    ).fetchone()[0]
    assert log.position is not None
    seq = log.position["seq"]
    before = wal.read_bytes()
    app.execute("INSERT INTO orders (id) VALUES (2), (3), (4)")  # frames that count for nothing yet
    assert commits.first_after(seq, seq + 1, root) == seq + 1
    assert commits._ends == [seq + 1]
    assert len(wal.read_bytes()) > len(before)
    app.execute("INSERT INTO orders (id) VALUES (5)")
    assert commits.first_after(seq + 1, seq + 5, root) == seq + 4
    assert commits.first_after(seq + 4, seq + 5, root) == seq + 5
    commits.close()
