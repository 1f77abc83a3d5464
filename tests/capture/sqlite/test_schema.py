"""ALTER, DROP, CREATE, RENAME and VACUUM, with writes between them and the moment they are noticed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.capture.sqlite.drained import Log, database, ordered, table

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)"
ROWS = "INSERT INTO orders VALUES (1, 'tea'), (2, 'nuts'), (3, 'figs')"


def started(tmp_path: Path, *statements: str) -> tuple[sqlite3.Connection, Log]:
    app = database(tmp_path / "a.db", *(statements or (ORDERS, ROWS)))
    return app, Log(tmp_path / "a.db", "orders").drain()


def kinds(log: Log) -> list[str]:
    return [v["tableChanges"][0]["type"] for v in log.values("shop.schema-changes")]


def test_a_row_written_before_the_new_column_was_noticed_gets_its_value(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    app.execute("INSERT INTO orders VALUES (4, 'dates')")
    app.execute("ALTER TABLE orders ADD COLUMN n INTEGER DEFAULT 7")
    app.execute("INSERT INTO orders VALUES (5, 'plums', 50)")
    app.execute("INSERT INTO orders (id, item) VALUES (6, 'pears')")
    app.execute("UPDATE orders SET n = 20 WHERE id = 2")
    app.execute("UPDATE orders SET id = 30, n = 30 WHERE id = 3")
    log.drain()
    app.execute("INSERT INTO orders VALUES (8, 'kiwis', 80)")
    made = {row["id"]: row for row in log.drain_rows()}
    assert {key: row.get("n", 7) for key, row in made.items()} == {
        1: 7, 2: 20, 30: 30, 4: 7, 5: 50, 6: 7, 8: 80
    }  # fmt: skip
    healed = [c for c in log.changes() if c[0] == "u" and "n" in c[1]]
    assert len(healed) == 3, "only rows whose value is not the default need telling"
    assert kinds(log) == ["CREATE", "ALTER"]


def test_the_shape_of_their_moment_decodes_rows_of_long_ago(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    app.execute("INSERT INTO orders VALUES (4, 'old')")
    source = log.open()  # a run that notices, and is killed before it wrote anything
    assert log.position is not None
    app.execute("ALTER TABLE orders ADD COLUMN n")
    next(source.stream(log.position))
    source.close()
    app.execute("INSERT INTO orders VALUES (5, 'new', 5)")
    assert log.clear().drain().changes() == [
        ("c", None, {"id": 4, "item": "old"}),
        ("c", None, {"id": 5, "item": "new", "n": 5}),
    ]


def test_a_renamed_column_keeps_its_values(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    log.clear()
    app.execute('ALTER TABLE orders RENAME COLUMN item TO "it""em"')
    app.execute("INSERT INTO orders VALUES (4, 'between')")
    log.drain()
    app.execute("INSERT INTO orders VALUES (5, 'after')")
    assert log.drain().changes() == [
        ("c", None, {"id": 4, "item": "between"}),
        ("c", None, {"id": 5, 'it"em': "after"}),
    ]
    change = log.values("shop.schema-changes")[0]["tableChanges"][0]
    assert change["renamedColumns"] == {"item": 'it"em'}


def test_two_columns_that_swap_names_are_not_mixed_up(tmp_path: Path) -> None:
    app, log = started(tmp_path, "CREATE TABLE orders (id INTEGER PRIMARY KEY, a, b)")
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        app.execute(f"ALTER TABLE orders RENAME COLUMN {old} TO {new}")
    app.execute("INSERT INTO orders (id, a, b) VALUES (1, 'was b', 'was a')")
    log.drain()
    app.execute("INSERT INTO orders (id, a, b) VALUES (2, 'was b', 'was a')")
    assert [after for _op, _before, after in log.drain().changes()] == [
        {"id": 1, "a": "was a", "b": "was b"},
        {"id": 2, "b": "was a", "a": "was b"},
    ]


@pytest.mark.parametrize("tables", [(), ("orders",)])
def test_a_table_that_is_made_after_the_first_run_is_captured(
    tmp_path: Path, tables: tuple[str, ...]
) -> None:
    """Nothing has ever changed until then, and that is no change which was lost."""
    path = tmp_path / "shop.db"
    app = database(path)
    log = Log(path, *tables).drain()
    log.drain()
    app.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER)")
    log.drain()
    app.execute("INSERT INTO orders VALUES (1, 1)")
    log.drain()
    assert [(op, after) for op, _, after in log.changes()] == [("c", {"id": 1, "n": 1})]
    app.close()


def test_a_table_made_anew_is_truncated_and_read_again(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    app.execute("CREATE TABLE new (id INTEGER PRIMARY KEY, item TEXT, n REAL)")
    app.execute("INSERT INTO new SELECT id, item, id / 2.0 FROM orders WHERE id > 1")
    app.execute("DROP TABLE orders")
    app.execute("ALTER TABLE new RENAME TO orders")
    app.execute("INSERT INTO orders VALUES (9, 'unseen by any trigger', 0)")
    assert ordered(log.drain().fold().values()) == table(app)
    app.execute("UPDATE orders SET n = n + 1")
    assert ordered(log.drain().fold().values()) == table(app)
    assert "t" in [op for op, _before, _after in log.changes()]


def test_the_other_way_of_making_a_table_anew(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    app.execute("ALTER TABLE orders RENAME TO old")
    app.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, n)")
    app.execute("INSERT INTO orders SELECT id, length(item) FROM old")
    app.execute("UPDATE old SET item = 'x'")
    assert ordered(log.drain().fold().values()) == table(app)
    app.execute("DROP TABLE old")
    app.execute("DELETE FROM orders WHERE id = 1")
    assert ordered(log.drain().fold().values()) == table(app)


def test_a_dropped_table_is_empty_and_comes_back_when_made_again(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    app.execute("DROP TABLE orders")
    assert log.drain().fold() == {}
    assert kinds(log) == ["CREATE", "DROP"]
    app.execute("CREATE TABLE orders (code TEXT PRIMARY KEY) WITHOUT ROWID")
    app.execute("INSERT INTO orders VALUES ('a'), ('b')")
    assert log.drain().fold().keys() == {'{"code":"a"}', '{"code":"b"}'}


def test_a_renamed_table_moves_to_its_new_topic(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS, ROWS)
    log = Log(tmp_path / "a.db").drain()
    app.execute("ALTER TABLE orders RENAME TO purchases")
    app.execute("INSERT INTO purchases VALUES (4, 'between')")
    log.drain()
    app.execute("DELETE FROM purchases WHERE id = 1")
    log.drain()
    assert log.fold("shop.orders") == {}
    assert ordered(log.fold("shop.purchases").values()) == table(app, "purchases")


def test_dropping_a_column_is_refused_until_its_triggers_are_dropped(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    with pytest.raises(sqlite3.OperationalError, match="error in trigger _headwater_"):
        app.execute("ALTER TABLE orders DROP COLUMN item")
    app.execute("BEGIN")
    ours = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '_headwater_*'"
    for (name,) in app.execute(ours).fetchall():
        app.execute(f"DROP TRIGGER {name}")
    app.execute("ALTER TABLE orders DROP COLUMN item")
    app.execute("COMMIT")
    app.execute("DELETE FROM orders WHERE id = 2")
    assert ordered(log.drain().fold().values()) == table(app) == [{"id": 1}, {"id": 3}]


def test_a_generated_column_that_is_added_is_read_for_all_rows(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    app.execute("ALTER TABLE orders ADD COLUMN loud AS (upper(item))")
    app.execute("INSERT INTO orders (id, item) VALUES (4, 'dates')")
    assert ordered(log.drain().fold().values()) == table(app)


def test_vacuum_numbers_rows_without_a_key_anew_and_is_noticed(tmp_path: Path) -> None:
    app, log = started(tmp_path, "CREATE TABLE orders (item)")
    app.execute("INSERT INTO orders VALUES ('a'), ('b'), ('c')")
    log.drain()
    app.execute("DELETE FROM orders WHERE item = 'a'")
    app.execute("VACUUM")
    app.execute("UPDATE orders SET item = 'C' WHERE item = 'c'")
    log.drain()
    now = app.execute("SELECT rowid, item FROM orders").fetchall()
    assert [(row["rowid"], row["item"]) for row in log.reading().values()] == now


def test_a_new_unique_index_is_looked_after(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    app.execute("CREATE UNIQUE INDEX one ON orders (item)")
    log.drain()
    app.execute("REPLACE INTO orders VALUES (8, 'tea')")
    assert ordered(log.drain().fold().values()) == table(app)


def test_a_table_that_appears_is_captured_if_the_patterns_want_it(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", ORDERS)
    log = Log(tmp_path / "a.db", "ord*").drain()
    app.execute("CREATE TABLE order_lines (k TEXT PRIMARY KEY)")
    app.execute("CREATE TABLE other (k TEXT PRIMARY KEY)")
    app.execute("INSERT INTO order_lines VALUES ('x')")
    log.drain()
    assert log.fold("shop.order_lines") == {'{"k":"x"}': {"k": "x"}}
    assert app.execute(
        "SELECT count(*) FROM sqlite_schema WHERE tbl_name = 'other'"
    ).fetchone() == (2,)


def test_a_table_left_out_of_the_settings_is_let_go_and_read_again_later(tmp_path: Path) -> None:
    app, log = started(tmp_path)
    other = Log(tmp_path / "a.db", "none")
    other.position = log.position
    other.drain()
    assert kinds(other) == ["LEAVE"]
    app.execute("DELETE FROM orders WHERE id = 1")
    log.position = other.position
    assert ordered(log.drain().fold().values()) == table(app)


def test_a_wide_table_widens_the_change_table(tmp_path: Path) -> None:
    columns = ", ".join(f"c{place}" for place in range(60))
    app, log = started(tmp_path, f"CREATE TABLE orders (id INTEGER PRIMARY KEY, {columns})")
    app.execute("INSERT INTO orders (id, c0, c59) VALUES (1, 'a', 'z')")
    app.execute("UPDATE orders SET c59 = 'y'")
    assert ordered(log.drain().fold().values()) == table(app)
