"""What each kind of write becomes, whoever writes: the triggers and what is made of their rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.sqlite.drained import Log, database, ordered, table

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, n INTEGER)"


def row(id: int, item: str | None, n: int | None) -> dict[str, object]:
    return {"id": id, "item": item, "n": n}


def test_inserts_updates_and_deletes_become_changes_in_their_order(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    log = Log(tmp_path / "a.db").drain()
    app.execute("INSERT INTO orders VALUES (1, 'tea', 2)")
    app.execute("UPDATE orders SET n = 3")
    app.execute("DELETE FROM orders")
    assert log.drain().changes() == [
        ("c", None, row(1, "tea", 2)),
        ("u", row(1, "tea", 2), row(1, "tea", 3)),
        ("d", row(1, "tea", 3), None),
    ]
    assert log.values("shop.orders")[-1] is None, "a tombstone follows"


def test_another_program_is_captured_as_well(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database(path, ORDERS)
    log = Log(path).drain()
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()"
    )
    sql = "INSERT INTO orders VALUES (7, 'nuts', 1)"
    subprocess.run([sys.executable, "-c", program, path, sql], check=True)
    assert log.drain().changes() == [("c", None, row(7, "nuts", 1))]


def test_a_key_that_changes_is_a_delete_a_tombstone_and_a_create(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS, "INSERT INTO orders VALUES (1, 'tea', 2)")
    log = Log(tmp_path / "a.db").drain().clear()
    app.execute("UPDATE orders SET id = 5")
    log.drain()
    assert [(r[1], r[2] is None) for r in log.records if r[0] == "shop.orders"] == [
        (b'{"id":1}', False),
        (b'{"id":1}', True),
        (b'{"id":5}', False),
    ]


def test_what_is_rolled_back_never_was(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    log = Log(tmp_path / "a.db").drain()
    app.execute("BEGIN")
    app.execute("INSERT INTO orders VALUES (1, 'tea', 2)")
    app.execute("SAVEPOINT s")
    app.execute("INSERT INTO orders VALUES (2, 'nuts', 2)")
    app.execute("ROLLBACK TO s")
    app.execute("COMMIT")
    app.execute("BEGIN")
    app.execute("DELETE FROM orders")
    app.execute("ROLLBACK")
    assert log.drain().changes() == [("c", None, row(1, "tea", 2))]


def test_all_storage_classes_come_through_as_stored(tmp_path: Path) -> None:
    app = database(
        tmp_path / "a.db",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, any, b BLOB, t TEXT, r REAL)",
    )
    app.execute("INSERT INTO orders VALUES (1, 9223372036854775807, x'00ff', 'a\"\u2603', 1)")
    app.execute("INSERT INTO orders VALUES (2, 7.0, 'text', x'01', 1e300)")
    app.execute("INSERT INTO orders VALUES (3, x'', 5, NULL, 9e999)")
    app.execute("INSERT INTO orders VALUES (4, -0.1, NULL, '1', -9e999)")
    log = Log(tmp_path / "a.db").drain()
    texts = [r[2].decode() for r in log.records if r[0] == "shop.orders"]
    after = [text.partition('"after":')[2].partition(',"source"')[0] for text in texts]
    assert after == [
        '{"id":1,"any":9223372036854775807,"b":"AP8=","t":"a\\"\u2603","r":1.0}',
        '{"id":2,"any":7.0,"b":{"text":"text"},"t":{"blob":"AQ=="},"r":1e+300}',
        '{"id":3,"any":{"blob":""},"b":5,"t":null,"r":9.0e+999}',
        '{"id":4,"any":-0.1,"b":null,"t":"1","r":-9.0e+999}',
    ]
    assert json.loads(after[2])["r"] == float("inf")


def test_text_that_is_no_utf_8_does_not_stop_the_capture(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    log = Log(tmp_path / "a.db").drain()
    app.execute("INSERT INTO orders VALUES (1, CAST(x'61ff62' AS TEXT), 0)")
    assert log.drain().changes() == [("c", None, row(1, "a\ufffdb", 0))]
    app.execute("CREATE TRIGGER own AFTER UPDATE ON orders BEGIN SELECT 1; END")
    app.execute("UPDATE orders SET n = 1")
    assert log.drain().changes()[-1][2] == row(1, "a\ufffdb", 1)


UNIQUE = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT COLLATE NOCASE UNIQUE, n INTEGER)",
    "INSERT INTO orders VALUES (1, 'tea', 1), (2, 'nuts', 2), (3, 'figs', 3)",
)


@pytest.mark.parametrize("recursive", ["OFF", "ON"])
def test_rows_that_replace_removes_are_told(tmp_path: Path, recursive: str) -> None:
    app = database(tmp_path / "a.db", *UNIQUE)
    app.execute(f"PRAGMA recursive_triggers={recursive}")
    log = Log(tmp_path / "a.db").drain()
    app.execute("REPLACE INTO orders VALUES (1, 'NUTS', 9)")
    assert ordered(log.drain().fold().values()) == table(app)
    told = log.changes()[3:]
    assert ("d", row(2, "nuts", 2), None) in told
    if recursive == "OFF":
        assert told[-1] == ("u", row(1, "tea", 1), row(1, "NUTS", 9))


def test_an_insert_that_is_ignored_or_refused_leaves_nothing(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", *UNIQUE)
    log = Log(tmp_path / "a.db").drain().clear()
    app.execute("INSERT OR IGNORE INTO orders VALUES (1, 'x', 0), (8, 'tea', 0)")
    app.execute("INSERT OR IGNORE INTO orders VALUES (1, 'y', 0)")
    app.execute("INSERT INTO orders VALUES (9, 'new', 0)")
    app.execute("INSERT INTO orders VALUES (2, 'up', 0) ON CONFLICT DO UPDATE SET n = n + 1")
    with pytest.raises(Exception, match="UNIQUE"):
        app.execute("INSERT OR FAIL INTO orders VALUES (10, 'ten', 0), (1, 'z', 0)")
    assert log.drain().changes() == [
        ("c", None, row(9, "new", 0)),
        ("u", row(2, "nuts", 2), row(2, "nuts", 3)),
        ("c", None, row(10, "ten", 0)),
    ]


def test_update_or_replace_tells_of_the_rows_in_the_way(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", *UNIQUE)
    log = Log(tmp_path / "a.db").drain()
    app.execute("UPDATE OR REPLACE orders SET item = 'FIGS', id = 2 WHERE id = 1")
    assert ordered(log.drain().fold().values()) == table(app) == [row(2, "FIGS", 1)]


def test_a_row_number_of_minus_one_is_not_mistaken(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS, "INSERT INTO orders VALUES (-1, 'odd', 0)")
    log = Log(tmp_path / "a.db").drain()
    app.execute("INSERT INTO orders(item) VALUES ('auto')")
    app.execute("REPLACE INTO orders VALUES (-1, 'even', 0)")
    assert ordered(log.drain().fold().values()) == table(app)
    assert log.changes()[-1] == ("u", row(-1, "odd", 0), row(-1, "even", 0))


def test_replace_that_fills_in_a_default_is_followed(tmp_path: Path) -> None:
    app = database(
        tmp_path / "a.db",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL DEFAULT 'x' UNIQUE)",
        "INSERT INTO orders VALUES (1, 'x')",
    )
    log = Log(tmp_path / "a.db").drain()
    app.execute("REPLACE INTO orders VALUES (2, NULL)")
    assert ordered(log.drain().fold().values()) == table(app) == [{"id": 2, "item": "x"}]


def test_cascades_are_changes_too(tmp_path: Path) -> None:
    app = database(
        tmp_path / "a.db",
        ORDERS,
        "CREATE TABLE lines (k INTEGER PRIMARY KEY, oid REFERENCES orders(id)"
        " ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO orders VALUES (1, 'tea', 1), (2, 'nuts', 1)",
        "INSERT INTO lines VALUES (10, 1), (11, 1), (12, 2)",
    )
    log = Log(tmp_path / "a.db").drain()
    app.execute("UPDATE orders SET id = 5 WHERE id = 2")
    app.execute("DELETE FROM orders WHERE id = 1")
    app.execute("REPLACE INTO orders VALUES (5, 'dates', 1)")
    log.drain()
    for name in ("orders", "lines"):
        assert ordered(log.fold(f"shop.{name}").values()) == table(app, name)
    assert table(app, "lines") == []


def test_a_delete_of_all_rows_tells_each_row(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", *UNIQUE)
    log = Log(tmp_path / "a.db").drain().clear()
    app.execute("DELETE FROM orders")
    assert [op for op, _before, _after in log.drain().changes()] == ["d", "d", "d"]


@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE orders (a TEXT, b BLOB, c, PRIMARY KEY (b, a)) WITHOUT ROWID",
        "CREATE TABLE orders (a TEXT, b BLOB, c, PRIMARY KEY (a, b))",
        "CREATE TABLE orders (a TEXT PRIMARY KEY, b BLOB UNIQUE, c) WITHOUT ROWID",
        "CREATE TABLE orders (a TEXT PRIMARY KEY DESC, rowid BLOB, c)",
        "CREATE TABLE orders (a TEXT, b INTEGER AS (length(a)), c, d AS (c || '!') STORED UNIQUE,"
        " PRIMARY KEY (a))",
    ],
)
def test_every_kind_of_key_folds_to_the_table(tmp_path: Path, create: str) -> None:
    app = database(tmp_path / "a.db", create)
    log = Log(tmp_path / "a.db").drain()
    names = [r[1] for r in app.execute("PRAGMA table_info(orders)")]
    marks = ", ".join("?" for _ in names)
    for statement, values in [
        ("INSERT", ["x", b"1", "n"]),
        ("INSERT", ["y", b"2", "m"]),
        ("REPLACE", ["x", b"2", "m"]),
        ("REPLACE", ["x", b"2", "o"]),
        ("INSERT OR IGNORE", ["x", b"2", "p"]),
    ]:
        given = values if len(names) == 3 else [values[0], values[2]]
        marks = ", ".join("?" for _ in given)
        app.execute(f"{statement} INTO orders({', '.join(names)}) VALUES ({marks})", given)
    app.execute("UPDATE orders SET a = 'z' WHERE a = 'x'")
    made = log.drain().fold().values()
    expected = table(app)
    for one in expected:
        for name in ("b", "rowid"):
            if isinstance(one.get(name), dict):
                one[name] = one[name]["blob"]
    assert ordered(made) == ordered(expected)


def test_a_table_without_a_key_is_keyed_by_rowid(tmp_path: Path) -> None:
    app = database(
        tmp_path / "a.db", "CREATE TABLE orders (item)", "INSERT INTO orders VALUES ('a')"
    )
    log = Log(tmp_path / "a.db").drain()
    app.execute("INSERT INTO orders VALUES ('a'), ('b')")
    app.execute("DELETE FROM orders WHERE rowid = 1")
    assert log.drain().fold() == {
        '{"rowid":2}': {"rowid": 2, "item": "a"},
        '{"rowid":3}': {"rowid": 3, "item": "b"},
    }


OWN_TRIGGERS = {
    "touch": "AFTER UPDATE ON orders WHEN NEW.n < 100 BEGIN"
    " UPDATE orders SET n = n + 100 WHERE id = NEW.id; END",
    "again": "AFTER UPDATE ON orders WHEN NEW.n BETWEEN 100 AND 199 BEGIN"
    " UPDATE orders SET n = n + 100, item = item || '!' WHERE id = NEW.id; END",
    "fill": "AFTER INSERT ON orders BEGIN UPDATE orders SET item = upper(item) WHERE id = NEW.id; END",
    "keep": "AFTER DELETE ON orders WHEN OLD.n > 0 BEGIN"
    " INSERT INTO orders VALUES (OLD.id, OLD.item, -1); END",
    "refuse": "AFTER INSERT ON orders WHEN NEW.n = 13 BEGIN DELETE FROM orders WHERE id = NEW.id; END",
}


@pytest.mark.parametrize("running", [True, False])
def test_what_an_applications_own_trigger_does_comes_after_what_set_it_off(
    tmp_path: Path, running: bool
) -> None:
    """Also if the trigger is newer than ours, and nobody has noticed it yet."""
    app = database(tmp_path / "a.db", ORDERS, "INSERT INTO orders VALUES (1, 'tea', 1)")
    log = Log(tmp_path / "a.db").drain()
    for name, trigger in OWN_TRIGGERS.items():
        app.execute(f"CREATE TRIGGER {name} {trigger}")
        if running:
            log.drain()
        app.execute("INSERT INTO orders (item, n) VALUES ('nuts', 5), ('figs', 13)")
        app.execute("UPDATE orders SET n = abs(n) % 50 + 1")
        app.execute("UPDATE orders SET n = 3 WHERE id % 2")
        app.execute("UPDATE orders SET id = id + 100 WHERE id = 2")
        app.execute("DELETE FROM orders WHERE id IN (1, 3)")
    assert ordered(log.drain().fold().values()) == table(app)


def test_a_row_that_a_new_trigger_deletes_at_once_is_not_there_in_the_end(tmp_path: Path) -> None:
    """Delete and insert of the same values fit both ways round; the table says which it was."""
    app = database(tmp_path / "a.db", ORDERS, "INSERT INTO orders VALUES (1, 'tea', 1)")
    log = Log(tmp_path / "a.db").drain()
    app.execute(
        "CREATE TRIGGER refuse AFTER INSERT ON orders WHEN NEW.n = 13 BEGIN"
        " DELETE FROM orders WHERE id = NEW.id; END"
    )
    app.execute("INSERT INTO orders VALUES (2, 'nuts', 13)")
    assert list(log.drain().reading().values()) == table(app) == [row(1, "tea", 1)]


def test_capture_leaves_what_the_application_sees_alone(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    Log(tmp_path / "a.db").drain()
    cursor = app.execute("INSERT INTO orders(item) VALUES ('a'), ('b')")
    assert (cursor.lastrowid, cursor.rowcount) == (2, 2)
    assert app.execute("SELECT last_insert_rowid(), changes()").fetchone() == (2, 2)
