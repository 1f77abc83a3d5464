"""The contract: positions, pruning, gaps, commits and their boundaries, locks, removal, preflight."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from headwater.capture.errors import Gap, Interrupted, Misconfigured, SourceRefused
from headwater.capture.sqlite import source as source_module
from headwater.capture.sqlite import watch
from tests.capture.sqlite.drained import Log, database, ordered, table
from tests.compat.waiting import AT_ONCE_SECONDS, LONG_MS

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)"


def kept(app: sqlite3.Connection) -> list[int]:
    return [seq for (seq,) in app.execute("SELECT seq FROM _headwater_changes")]


def test_changes_are_pruned_once_the_log_has_them_and_numbers_never_come_again(
    tmp_path: Path,
) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    log = Log(tmp_path / "a.db").drain()
    for number in range(10):
        app.execute("INSERT INTO orders (item) VALUES (?)", (str(number),))
    log.drain()
    source = log.open()
    assert log.position is not None
    stream = source.stream(log.position)
    next(stream)
    source._pruner.prune(now=True)
    source.close()
    assert kept(app) == [log.position["seq"]]
    app.execute("INSERT INTO orders (item) VALUES ('next')")
    assert kept(app) == [log.position["seq"], log.position["seq"] + 1]
    assert ordered(log.drain().fold().values()) == table(app)


def test_a_file_restored_from_a_copy_is_a_gap_not_silence(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    app = database(path, ORDERS, mode="delete")
    log = Log(path).drain()
    shutil.copy(path, tmp_path / "copy.db")
    app.execute("INSERT INTO orders VALUES (1, 'lost')")
    log.drain()
    app.close()
    shutil.copy(tmp_path / "copy.db", path)
    app = sqlite3.connect(path, isolation_level=None)
    app.execute("INSERT INTO orders VALUES (1, 'other')")
    app.execute("INSERT INTO orders VALUES (2, 'another')")
    with pytest.raises(Gap, match="not in _headwater_changes"):
        log.drain()


@pytest.mark.parametrize("with_capture", [True, False])
def test_a_copy_put_back_while_the_capture_runs_is_a_gap(
    tmp_path: Path, with_capture: bool
) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    log, copy = Log(tmp_path / "a.db"), sqlite3.connect(tmp_path / "copy.db")
    if with_capture:
        log.drain()
    app.backup(copy)
    log.drain()
    app.execute("INSERT INTO orders VALUES (1, 'lost')")
    source = log.open()
    assert log.position is not None
    stream = source.stream(log.position)
    next(stream)
    copy.backup(app)
    with pytest.raises(Gap):
        next(stream)
    source.close()
    copy.close()


def test_removed_triggers_are_a_gap(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    before = app.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    log = Log(tmp_path / "a.db").drain()
    source = log.open()
    source.forget()
    source.close()
    assert app.execute("SELECT count(*) FROM sqlite_schema").fetchone() == before
    app.execute("INSERT INTO orders VALUES (1, 'unseen')")
    with pytest.raises(Gap, match="removed"):
        log.drain()


def test_one_file_has_one_capture(tmp_path: Path) -> None:
    database(tmp_path / "a.db", ORDERS)
    Log(tmp_path / "a.db").drain()
    other = Log(tmp_path / "a.db")
    object.__setattr__(other.config, "name", "other")
    with pytest.raises(SourceRefused, match="captured as 'shop' already"):
        other.drain()
    assert [f.ok for f in other.open().check() if f.name == "triggers"] == [False]


def test_a_commit_has_its_beginning_its_end_and_its_counts(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS, "CREATE TABLE lines (k INTEGER PRIMARY KEY)")
    log = Log(tmp_path / "a.db").drain()
    app.execute("BEGIN")
    app.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    app.execute("INSERT INTO lines VALUES (1)")
    app.execute("COMMIT")
    log.drain()
    begin, end = log.values("shop.transaction")
    assert (begin["status"], end["status"], begin["id"]) == ("BEGIN", "END", end["id"])
    assert end["event_count"] == 3
    assert {c["data_collection"]: c["event_count"] for c in end["data_collections"]} == {
        "shop.orders": 2,
        "shop.lines": 1,
    }
    orders = [v["transaction"] for v in log.values("shop.orders")]
    assert [o["total_order"] for o in orders] == [1, 2]
    assert log.values("shop.lines")[0]["transaction"]["total_order"] == 3


def test_a_large_commit_is_cut_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", "CREATE TABLE orders (id INTEGER PRIMARY KEY, u UNIQUE, pad)")
    log = Log(tmp_path / "a.db").drain()
    app.execute("BEGIN")
    for number in range(400):
        app.execute("INSERT INTO orders VALUES (?, ?, ?)", (number, number, "x" * 80_000))
    for number in range(200):
        app.execute("REPLACE INTO orders VALUES (?, ?, 'y')", (1000 + number, number))
    app.execute("COMMIT")
    while log.position is not None and len(log.values("shop.transaction")) < 2:
        log.drain(batches_max=1)
    assert len(log.batches) > 3
    assert ordered(log.drain().fold().values()) == table(app)
    begin, end = log.values("shop.transaction")
    assert begin["id"] == end["id"]
    assert end["event_count"] == 800
    orders = [v["transaction"]["total_order"] for v in log.values("shop.orders") if v]
    assert orders == list(range(1, 801))


@pytest.mark.parametrize("mode", ["wal", "delete", "truncate", "persist"])
def test_every_journal_mode_is_followed_with_low_latency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    # Nobody looks unasked: what is seen at once was heard of.
    monkeypatch.setattr(source_module, "IDLE_S", LONG_MS / 1000)
    monkeypatch.setattr(watch, "LOOK_S", LONG_MS / 1000)
    app = database(tmp_path / "a.db", ORDERS, mode=mode)
    log = Log(tmp_path / "a.db").drain()
    app.close()
    source, seen, delays = log.open(), threading.Event(), []
    assert log.position is not None
    written = 0.0

    def write() -> None:
        nonlocal written
        own = sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=60)
        own.execute("PRAGMA synchronous=OFF")
        for number in range(20):
            seen.clear()
            own.execute("INSERT INTO orders VALUES (?, 'x')", (number,))
            written = time.monotonic()
            assert seen.wait(LONG_MS / 1000)
        own.close()

    writer = threading.Thread(target=write)
    writer.start()
    for batch in source.stream(log.position):
        if batch.rows:
            delays.append(time.monotonic() - written)
            log.take(source, batch)
            seen.set()
        if len(delays) == 20:
            break
    writer.join()
    source.close()
    assert len(log.changes()) == 20
    assert sorted(delays)[10] < AT_ONCE_SECONDS, delays  # about 1 ms on an idle machine


def test_a_lock_that_stays_is_an_interruption_and_a_short_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    app = database(path, ORDERS, mode="delete")
    log = Log(path).drain()
    app.execute("INSERT INTO orders VALUES (1, 'x')")
    source = log.open()
    app.execute("BEGIN EXCLUSIVE")
    source._connection.execute("PRAGMA busy_timeout=50")
    assert log.position is not None
    with pytest.raises(Interrupted, match="locked"):
        next(source.stream(log.position))
    source.close()
    app.execute("COMMIT")
    assert len(log.drain().changes()) == 1


def test_another_file_put_in_its_place_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    app = database(path, ORDERS, mode="delete")
    log = Log(path).drain()
    app.close()
    source = log.open()
    assert log.position is not None
    stream = source.stream(log.position)
    next(stream)
    shutil.copy(path, tmp_path / "b.db")
    (tmp_path / "b.db").rename(path)
    with pytest.raises(Interrupted, match="another file"):
        list(stream)
    source.close()


def test_records_can_carry_their_schema(tmp_path: Path) -> None:
    database(
        tmp_path / "a.db",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, b BLOB, r REAL NOT NULL)",
        "INSERT INTO orders VALUES (1, x'00', 2)",
    )
    value = Log(tmp_path / "a.db", schema=True).drain().values("shop.orders")[0]
    assert value["payload"]["after"] == {"id": 1, "b": "AA==", "r": 2.0}
    after = value["schema"]["fields"][1]["fields"]
    assert [(f["field"], f["type"], f["optional"]) for f in after] == [
        ("id", "int64", False),
        ("b", "bytes", True),
        ("r", "double", False),
    ]


def test_lag_is_told_in_changes_and_seconds(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    log = Log(tmp_path / "a.db").drain()
    source = log.open()
    assert log.position is not None
    next(source.stream(log.position))
    app.execute("INSERT INTO orders VALUES (1, 'x'), (2, 'y')")
    assert source.lag().detail == "2 changes not yet in the log"
    source.close()


def test_settings_and_files_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceRefused, match="there is no file"):
        Log(tmp_path / "none.db").open()
    (tmp_path / "text.db").write_text("no database at all, only some text that is long enough" * 30)
    with pytest.raises(SourceRefused, match="not a database"):
        Log(tmp_path / "text.db").open()
    database(tmp_path / "a.db", ORDERS)
    with pytest.raises(Misconfigured, match="no setting 'slot'"):
        Log(tmp_path / "a.db", options={"slot": "x"}).open()
    with pytest.raises(Misconfigured, match="names no database file"):
        Log(Path(":memory:")).open()


def test_preflight_names_what_is_amiss_and_the_remedy(tmp_path: Path) -> None:
    database(
        tmp_path / "a.db",
        ORDERS,
        "CREATE TABLE keyless (a)",
        "CREATE TABLE nulls (a TEXT PRIMARY KEY)",
        "INSERT INTO nulls VALUES (NULL)",
        "CREATE UNIQUE INDEX partial ON orders (item) WHERE id > 5",
        "CREATE UNIQUE INDEX expression ON orders (lower(item))",
        mode="delete",
    )
    log = Log(tmp_path / "a.db", "orders", "keyless", "nulls", "missing", outbox="orders")
    found = {finding.name: finding for finding in log.open().check()}
    bad = {name for name, finding in found.items() if not finding.ok}
    assert bad == {
        "journal", "key of keyless", "key of nulls", "index partial", "index expression",
        "table missing", "outbox orders",
    }  # fmt: skip
    assert all(found[name].remedy for name in bad)
    assert found["journal"].remedy == f"sqlite3 {tmp_path / 'a.db'} 'PRAGMA journal_mode=WAL'"
