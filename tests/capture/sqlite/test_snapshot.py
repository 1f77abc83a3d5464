"""The first snapshot in chunks between changes: complete, without overlap, resumed where it stopped."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from headwater.capture.change import in_snapshot
from headwater.capture.errors import Misconfigured, SourceRefused
from headwater.capture.source import Range
from headwater.capture.sqlite.place import Pending
from tests.capture.sqlite.drained import Log, database, ordered, table

KINDS = [
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, pad TEXT)",
    "CREATE TABLE orders (id INTEGER, pad TEXT, PRIMARY KEY (id))  WITHOUT ROWID",
    "CREATE TABLE orders (id TEXT PRIMARY KEY, pad TEXT)",
    "CREATE TABLE orders (id, kind TEXT, pad TEXT, PRIMARY KEY (kind, id)) WITHOUT ROWID",
]
PAD = "x" * 20_000


def insert(app: sqlite3.Connection, numbers: Any) -> None:
    columns = [row[1] for row in app.execute("PRAGMA table_info(orders)")]
    kind = ", kind" if "kind" in columns else ""
    value = ", 'k' || (? % 7)" if kind else ""
    app.execute("BEGIN")
    for number in numbers:
        given = [number, number, PAD] if kind else [number, PAD]
        app.execute(f"REPLACE INTO orders (id{kind}, pad) VALUES (?{value}, ?)", given)
    app.execute("COMMIT")


def meddle(app: sqlite3.Connection, draw: random.Random) -> None:
    """What an application does while the snapshot is read: behind, ahead of and across the reader."""
    app.execute("BEGIN")
    for _ in range(5):
        number = draw.randrange(1, 260)
        what = draw.randrange(4)
        if what == 0:
            app.execute("DELETE FROM orders WHERE id = ?", (number,))
        elif what == 1:
            app.execute("UPDATE orders SET pad = 'changed' WHERE id = ?", (number,))
        elif what == 2:
            app.execute("UPDATE OR REPLACE orders SET id = ? WHERE id = ?", (260 - number, number))
        else:
            app.execute("COMMIT")
            insert(app, [number])
            app.execute("BEGIN")
    app.execute("ROLLBACK" if draw.random() < 0.2 else "COMMIT")


@pytest.mark.parametrize("create", KINDS)
def test_changes_while_the_snapshot_is_read_are_told_once(tmp_path: Path, create: str) -> None:
    app = database(tmp_path / "a.db", create)
    insert(app, range(1, 250))
    log, draw = Log(tmp_path / "a.db"), random.Random(create)
    while log.position is None or in_snapshot(log.position):
        log.drain(batches_max=draw.randrange(1, 3))  # each time a new run, from the stored position
        meddle(app, draw)
    assert len(log.batches) > 5, "several chunks"
    assert ordered(log.drain().fold().values()) == table(app)


def test_without_leaving_out_rows_to_come_a_reader_would_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The canary: if changes of rows that no chunk has brought yet are told, strict readers fail."""
    monkeypatch.setattr(Pending, "covers", lambda _self, _shape, _values: True)
    app = database(tmp_path / "a.db", KINDS[0])
    insert(app, range(1, 250))
    log, draw = Log(tmp_path / "a.db"), random.Random("canary")
    while log.position is None or in_snapshot(log.position):
        log.drain(batches_max=1)
        meddle(app, draw)
    with pytest.raises((AssertionError, KeyError)):
        log.drain().fold()


def test_a_requested_snapshot_reads_the_table_again_beside_the_changes(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", KINDS[0])
    insert(app, range(1, 120))
    log = Log(tmp_path / "a.db").drain().clear()
    other = log.open()
    assert other.request_snapshot(["Orders"]).startswith("Orders: will be read again")
    with pytest.raises(SourceRefused, match="'none' is not captured"):
        other.request_snapshot(["none"])
    other.close()
    draw = random.Random(1)
    for _ in range(6):
        log.drain(batches_max=1)
        meddle(app, draw)
    assert ordered(log.drain().reading().values()) == table(app)
    labels = {v["source"]["snapshot"] for v in log.values("shop.orders") if v and v["op"] == "r"}
    assert labels == {"incremental"}


def test_a_range_of_rows_is_read_again_and_a_condition_that_does_not_fit_is_refused(
    tmp_path: Path,
) -> None:
    app = database(tmp_path / "a.db", KINDS[0])
    insert(app, range(1, 30))
    log = Log(tmp_path / "a.db").drain().clear()
    other = log.open()
    other.request_snapshot(["orders"], Range("id % 2 = 0", "5", "12"))
    for tables, within in ((["orders"], Range("nonsense > 1")), ([], Range(first="1"))):
        with pytest.raises((SourceRefused, Misconfigured)):
            other.request_snapshot(tables, within)
    other.close()
    log.drain()
    assert [v["after"]["id"] for v in log.values("shop.orders")] == [6, 8, 10, 12]
    source = log.open()
    source.request_snapshot(["orders"], Range("pad IS NOT NULL"))
    app.execute("ALTER TABLE orders RENAME COLUMN pad TO thing")
    assert log.position is not None
    stream = source.stream(log.position)
    while source._drain.given_up is None:
        log.take(source, next(stream))
    assert "was not read again" in str(source.guard()) and source.guard() is None
    source.close()


def test_vacuum_in_the_middle_of_a_snapshot_loses_no_row(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", "CREATE TABLE orders (id, pad)")
    insert(app, range(1, 200))
    app.execute("DELETE FROM orders WHERE id < 50")
    log = Log(tmp_path / "a.db").drain(batches_max=2)
    assert in_snapshot(log.position)
    app.execute("VACUUM")
    app.execute("DELETE FROM orders WHERE id = 51")
    made = [{k: v for k, v in r.items() if k != "rowid"} for r in log.drain().reading().values()]
    assert ordered(made) == table(app)


def test_progress_tells_rows_and_tables(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", KINDS[0], "CREATE TABLE other (k INTEGER PRIMARY KEY)")
    insert(app, range(1, 100))
    log = Log(tmp_path / "a.db")
    source = log.open()
    batches = source.snapshot(None)
    next(batches)
    next(batches)
    progress = source.progress()
    assert progress is not None
    assert (progress.table, progress.rows_expected, progress.tables) == ("orders", 99, 2)
    assert 0 < progress.rows < 99
    source.close()


def test_a_snapshot_that_is_not_the_first_clears_what_readers_have(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", KINDS[0], "INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    log = Log(tmp_path / "a.db").drain()
    source = log.open()
    source.forget()
    source.close()
    app.execute("DELETE FROM orders WHERE id = 1")  # nobody sees it
    log.position = {"again": True}
    assert ordered(log.drain().fold().values()) == table(app)


def test_many_changes_that_the_log_does_not_take_are_told(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", KINDS[0])
    log = Log(tmp_path / "a.db").drain()
    source = log.open()
    assert source.guard() is None
    app.execute(
        "INSERT INTO orders WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 100001) SELECT i, 'x' FROM n"
    )
    sentence = source.guard()
    assert sentence is not None
    assert "changes wait" in sentence
    source.close()
