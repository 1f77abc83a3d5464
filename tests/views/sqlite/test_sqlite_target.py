"""Views in SQLite: what every target must do, and what only this one does."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path

import pytest

from headwater.testing.targets import ADA, BOB, CAT, Conformance, Make, Writer, rows_of, shape
from headwater.views.registry import target_for
from headwater.views.target import Misfit, RowsRefused, Unavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def make(path: Path) -> Make:
    return lambda given: target_for(f"sqlite:{path}", given)


class TestConformance(Conformance):
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


def test_a_locked_database_is_unavailable(path: Path, tmp_path: Path):
    folder = tmp_path / "folder.db"
    folder.mkdir()
    with pytest.raises(Unavailable):
        target_for(f"sqlite:{folder}", shape()).create()
