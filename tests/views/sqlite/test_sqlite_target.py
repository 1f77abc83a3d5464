"""Views in SQLite: what every target must do, and what only this one does."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headwater.testing.target_columns import WideningConformance
from headwater.testing.targets import (
    ADA,
    BOB,
    CAT,
    SCHEMA,
    Make,
    TargetConformance,
    Writer,
    rows_of,
    shape,
)
from headwater.views.targets.contract import Misfit, RowsRefused, Unavailable
from headwater.views.targets.registry import target_for


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def make(path: Path) -> Make:
    return lambda given: target_for(f"sqlite:{path}", given)


class TestConformance(TargetConformance, WideningConformance):
    @pytest.fixture
    def make(self, path: Path) -> Make:
        return lambda given: target_for(f"sqlite:{path}", given)


def test_readers_see_plain_columns_under_the_views_name(make: Make, path: Path):
    Writer(make(shape(options={"table": "people"}))).write(0, [ADA, CAT])
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM people ORDER BY id").fetchall() == [ADA, CAT]
    connection.close()


def test_a_row_that_a_constraint_refuses_is_taken_out_and_the_rest_goes_on(make: Make, path: Path):
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT CHECK (length(name) < 4),"
            " total REAL)"
        )
    connection.close()
    writer = Writer(make(shape()))
    staged = [writer.stage(0, 0, [ADA, (4, "Alexander", 1.0), BOB, (5, "Berta", 1.0)])]
    with pytest.raises(RowsRefused) as raised:
        writer.commit(0, staged)
    assert [(each.number, each.row) for each in raised.value.refusals] == [
        (1, '{"id":4,"name":"Alexander","total":1.0}'),
        (3, '{"id":5,"name":"Berta","total":1.0}'),
    ]
    assert "CHECK constraint failed" in raised.value.refusals[0].reason
    assert (rows_of(writer.target), writer.target.applied()) == ([], None)
    writer.commit(0, staged)
    assert rows_of(writer.target) == [ADA, BOB]


def test_nan_is_refused_and_not_turned_into_null(make: Make):
    writer = Writer(make(shape()))
    (refusal,) = writer.write(0, [ADA, BOB, (9, "x", math.nan), CAT])
    assert (refusal.number, refusal.reason) == (2, "total is NaN, which SQLite does not have")
    assert rows_of(writer.target) == [ADA, BOB, CAT]


@pytest.mark.parametrize("collation", ["NOCASE", "RTRIM", "BINARY"])
def test_a_table_that_takes_two_keys_for_one_is_refused(make: Make, path: Path, collation: str):
    with sqlite3.connect(path) as connection:
        columns = f"id INTEGER, name TEXT COLLATE {collation} PRIMARY KEY, total REAL"
        connection.execute(f"CREATE TABLE customers ({columns})")
    connection.close()
    if collation != "BINARY":
        with pytest.raises(Misfit, match="takes texts that differ for one key in name"):
            Writer(make(shape(key=("name",))))
        return
    writer = Writer(make(shape(key=("name",))))
    writer.write(0, [(1, "Ada", 1.0), (2, "ada", 1.0)])
    assert rows_of(writer.target) == [(1, "Ada", 1.0), (2, "ada", 1.0)]


@pytest.mark.parametrize("strict", ["", " STRICT"])
def test_texts_that_are_numbers_stay_texts_in_a_table_that_somebody_made(
    make: Make, path: Path, strict: str
):
    """Only in a strict table is ANY what it says: elsewhere "007" would become 7."""
    with sqlite3.connect(path) as connection:
        columns = "id INTEGER NOT NULL PRIMARY KEY, name ANY, total REAL"
        connection.execute(f"CREATE TABLE customers ({columns}){strict}")
    connection.close()
    agent = (7, "007", 1.0)
    if not strict:
        with pytest.raises(Misfit, match="name"):
            Writer(make(shape()))
        return
    writer = Writer(make(shape()))
    writer.write(0, [agent])
    assert rows_of(writer.target) == [agent]


def test_a_table_with_rows_of_somebody_else_is_left_alone(make: Make, path: Path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, total REAL)")
        connection.execute("INSERT INTO customers VALUES (1, 'x', 1)")
    connection.close()
    with pytest.raises(Misfit, match="rows that are not of the view"):
        make(shape()).create()


def test_a_part_that_is_gone_makes_the_batch_come_again(make: Make):
    writer = Writer(make(shape()))
    part = writer.stage(0, 0, [ADA])
    Path(part.place).unlink()
    with pytest.raises(Unavailable):
        writer.commit(0, [part])
    writer.write(0, [ADA])
    assert rows_of(writer.target) == [ADA]


def test_a_file_that_cannot_be_one_and_a_column_that_was_dropped_are_not_waited_for(
    make: Make, path: Path, tmp_path: Path
):
    folder = tmp_path / "folder.db"
    folder.mkdir()
    with pytest.raises(Misfit):
        target_for(f"sqlite:{folder}", shape()).create()
    (tmp_path / "text.db").write_text("this is no database, " * 100)
    with pytest.raises(Misfit, match="not a database"):
        target_for(f"sqlite:{tmp_path / 'text.db'}", shape()).create()
    writer = Writer(make(shape()))
    writer.write(0, [ADA])
    part = writer.stage(1, 0, [BOB])
    change(path, "ALTER TABLE customers DROP COLUMN total")
    with pytest.raises(Misfit, match="total") as raised:
        writer.commit(1, [part])
    assert raised.value.hint is not None and "headwater rebuild customers" in raised.value.hint
    with pytest.raises(Misfit, match="it has no column total"):
        make(shape()).create()


def test_a_database_that_is_locked_is_waited_for(make: Make, path: Path, monkeypatch: Any):
    monkeypatch.setattr("headwater.views.targets.sqlite.book.BUSY_S", 0.05)
    writer = Writer(make(shape()))
    part = writer.stage(0, 0, [ADA])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable):
            writer.commit(0, [part])
        other.execute("ROLLBACK")
    writer.commit(0, [part])
    assert rows_of(writer.target) == [ADA]


def change(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """As somebody does it by hand; what the last statement gave."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(each).fetchall() for each in statements][-1]


def test_indexes_views_and_triggers_made_by_hand_are_there_after_a_rebuild(make: Make, path: Path):
    Writer(make(shape())).write(0, [ADA])
    change(
        path,
        'CREATE UNIQUE INDEX "by Name" ON customers(lower(name)) WHERE total > 0',
        "CREATE VIEW names AS SELECT name FROM customers",
        "CREATE TABLE seen (id)",
        "CREATE TABLE orders (customer REFERENCES customers (id))",
        "CREATE TRIGGER note AFTER INSERT ON customers BEGIN INSERT INTO seen VALUES (new.id); END",
    )
    second = make(shape(version=2))
    writer = Writer(second)
    staged = [writer.stage(0, 0, [BOB, (5, "bob", 1.0)])]
    with pytest.raises(RowsRefused, match="UNIQUE"):
        writer.commit(0, staged)
    writer.commit(0, staged)
    assert second.switch() == []
    assert change(path, "SELECT name FROM names") == [("Bob",)]
    writer.write(1, [(3, "Cat", None)])
    assert change(path, "SELECT id FROM seen") == [(3,)]
    (plan,) = change(
        path, "EXPLAIN QUERY PLAN SELECT id FROM customers WHERE lower(name) = 'x' AND total > 0"
    )
    assert "by Name__v2" in plan[3]
    change(path, "PRAGMA foreign_keys = ON", "INSERT INTO orders VALUES (2)")
    assert make(shape()).switch() == []
    assert change(path, "SELECT name FROM names") == [("Ada",)]
    second.drop()
    third = make(shape(version=3))
    Writer(third).write(0, [BOB])
    assert third.switch() == []


def test_a_view_made_by_hand_that_a_version_would_break_is_named(make: Make, path: Path):
    Writer(make(shape())).write(0, [ADA])
    change(path, "CREATE VIEW totals AS SELECT total FROM customers")
    narrow = SCHEMA.remove(SCHEMA.get_field_index("total"))
    second = make(shape(version=2, schema=narrow))
    Writer(second).write(0, [(2, "Bob")])
    with pytest.raises(Misfit, match="the view totals"):
        second.switch()
    assert (second.current(), change(path, "SELECT total FROM totals")) == (1, [(1.5,)])
    change(path, "DROP VIEW totals", "CREATE VIEW old AS SELECT id FROM customers__v2")
    with pytest.raises(Misfit, match="still needed by the view old"):
        second.drop()
    change(path, "DROP VIEW old")
    second.drop()
