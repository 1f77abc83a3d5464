"""Views in DuckDB: what every target must do, and what only this one does."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from headwater.testing.target_columns import WideningConformance
from headwater.testing.targets import ADA, BOB, CAT, Make, TargetConformance, Writer, rows_of, shape
from headwater.views.targets.contract import Kind, Misfit, RowsRefused, Unavailable
from headwater.views.targets.duckdb import refusals
from headwater.views.targets.duckdb import target as target_module
from headwater.views.targets.duckdb.statements import Rows
from headwater.views.targets.registry import target_for


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "shop.duckdb"


@pytest.fixture
def make(path: Path) -> Make:
    return lambda given: target_for(f"duckdb:{path}", given)


class TestConformance(TargetConformance, WideningConformance):
    @pytest.fixture
    def make(self, path: Path) -> Make:
        return lambda given: target_for(f"duckdb:{path}", given)


class TestConformanceInPlace(TargetConformance, WideningConformance):
    """As many rows of one batch are brought to their table."""

    @pytest.fixture
    def make(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
        monkeypatch.setattr(refusals, "MANY", 0)
        return lambda given: target_for(f"duckdb:{path}", given)


@pytest.mark.parametrize("spoilt", [None, "CREATE INDEX own ON people (name)"])
def test_many_rows_are_changed_in_place_where_the_table_is_ours(
    make: Make, path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str | None
):
    monkeypatch.setattr(refusals, "MANY", 3)
    said: list[bool] = []
    before = Rows.applying
    monkeypatch.setattr(
        Rows,
        "applying",
        lambda self, place, in_place=False: said.append(in_place) or before(self, place, in_place),
    )
    writer = Writer(make(shape(options={"table": "people"})))
    writer.write(0, [ADA, BOB])
    if spoilt is not None:
        with duckdb.connect(str(path)) as connection:
            connection.execute(spoilt)
    writer.write(1, [(1, "Ann", None), CAT, (9, "Dan", 9.0)])
    writer.write(
        2, [(1, None, None, True), (2, None, None, True), (9, "Dana", 9.5), (7, None, None, True)]
    )
    with duckdb.connect(str(path)) as connection:
        found = connection.execute("FROM people ORDER BY id").fetchall()
    assert found == [CAT, (9, "Dana", 9.5)]
    assert said == [False, spoilt is None, spoilt is None]


def test_readers_see_plain_columns_under_the_views_name(make: Make, path: Path):
    Writer(make(shape(options={"table": "people"}))).write(0, [ADA, CAT])
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("FROM people ORDER BY id").fetchall() == [ADA, CAT]


def test_nothing_is_left_in_the_staging_folder(make: Make, path: Path):
    writer = Writer(make(shape()))
    writer.stage(0, 0, [ADA])
    writer.write(0, [ADA], [BOB])
    writer.write(1, [CAT])
    assert list(path.parent.rglob("*.arrow")) == []


def test_a_file_that_another_process_has_open_is_waited_for_then_unavailable(
    make: Make, path: Path, monkeypatch: pytest.MonkeyPatch
):
    writer = Writer(make(shape()))
    monkeypatch.setattr(target_module, "PATIENCE_S", 0.1)
    program = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == b"open\n"
        part = writer.stage(0, 0, [ADA])  # staging needs no lock
        with pytest.raises(Unavailable, match="cannot be used now"):
            writer.commit(0, [part])
        other.stdin.write(b"\n")
    writer.commit(0, [part])
    assert rows_of(writer.target) == [ADA]


def test_rows_that_break_a_rule_are_taken_out_and_the_rest_goes_on(make: Make, path: Path):
    path.parent.mkdir()
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE customers (id BIGINT PRIMARY KEY, name VARCHAR CHECK (length(name) < 4),"
            " total DOUBLE NOT NULL)"
        )
    writer = Writer(make(shape()))
    staged = [writer.stage(0, 0, [ADA, (4, "Alexander", 1.0), BOB]), writer.stage(0, 1, [CAT])]
    with pytest.raises(RowsRefused) as raised:
        writer.commit(0, staged)
    assert [(each.part, each.number, each.row) for each in raised.value.refusals] == [
        (0, 1, '{"id":4,"name":"Alexander","total":1.0}'),
        (1, 0, '{"id":3,"name":null,"total":null}'),
    ]
    assert "CHECK" in raised.value.refusals[0].reason
    assert raised.value.refusals[1].reason == "total may not be null"
    assert (rows_of(writer.target), writer.target.applied()) == ([], None)
    writer.commit(0, staged)
    assert rows_of(writer.target) == [ADA, BOB]


def test_a_table_of_somebody_else_is_left_alone(make: Make, path: Path):
    path.parent.mkdir()
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE customers (id BIGINT, name VARCHAR, total DOUBLE)")
    with pytest.raises(Misfit, match="lacks the key"):
        make(shape()).create()
    assert make(shape()).versions() == {}


def test_a_part_that_is_gone_makes_the_batch_come_again(make: Make):
    writer = Writer(make(shape()))
    part = writer.stage(0, 0, [ADA])
    Path(part.place).unlink()
    with pytest.raises(Unavailable):
        writer.commit(0, [part])
    writer.write(0, [ADA])
    assert rows_of(writer.target) == [ADA]


def test_views_of_one_file_are_written_side_by_side(make: Make):
    def write(view: str) -> None:
        writer = Writer(make(shape(view=view)))
        for batch in range(8):
            writer.write(batch, [(n, f"{view} {batch}", None) for n in range(batch, batch + 50)])

    names = ("left", "middle", "right")
    Writer(make(shape(view="first")))
    with ThreadPoolExecutor() as pool:
        list(pool.map(write, names))
    for view in names:
        expected = [(n, f"{view} {min(n, 7)}", None) for n in range(57)]
        assert rows_of(make(shape(view=view))) == sorted(expected, key=repr)


def test_histories_can_be_asked_as_of_a_time(make: Make, path: Path):
    import datetime as dt

    def day(number: int) -> dt.datetime:
        return dt.datetime(2026, 1, number, tzinfo=dt.UTC)

    writer = Writer(make(shape(Kind.HISTORY)))
    writer.write(0, [(1, "Ada", 1.0, False, day(1)), (1, "Eve", 2.0, False, day(3))])
    with duckdb.connect(str(path)) as connection:
        asked = (
            "SELECT name FROM customers WHERE valid_from <= $1 AND coalesce(valid_to > $1, true)"
        )
        assert connection.execute(asked, [day(2)]).fetchall() == [("Ada",)]
        assert connection.execute("SELECT name FROM customers WHERE current").fetchall() == [
            ("Eve",)
        ]


def test_indexes_and_views_made_by_hand_are_there_after_a_rebuild(make: Make, path: Path):
    Writer(make(shape())).write(0, [ADA])
    with duckdb.connect(str(path)) as file:
        file.execute("CREATE INDEX by_name ON customers (name)")
        file.execute("CREATE VIEW names AS SELECT name FROM customers")
    second = make(shape(version=2))
    Writer(second).write(0, [BOB])
    second.switch()
    with duckdb.connect(str(path)) as file:
        assert file.execute("SELECT name FROM names").fetchall() == [("Bob",)]
        found = file.execute("SELECT index_name, table_name FROM duckdb_indexes()").fetchall()
    assert found == [("by_name", "customers")]
    make(shape()).switch()
    second.drop()
    assert rows_of(make(shape())) == [ADA]


def test_a_file_that_is_no_database_and_a_column_that_was_dropped_are_not_waited_for(
    make: Make, path: Path, tmp_path: Path
):
    (tmp_path / "text").write_text("this is no database, " * 1000)
    with pytest.raises(Misfit, match="not a valid DuckDB"):
        target_for(f"duckdb:{tmp_path / 'text'}", shape()).create()
    writer = Writer(make(shape()))
    writer.write(0, [ADA])
    part = writer.stage(1, 0, [BOB])
    with duckdb.connect(str(path)) as file:
        file.execute("ALTER TABLE customers DROP COLUMN total")
    with pytest.raises(Misfit, match="total") as raised:
        writer.commit(1, [part])
    assert raised.value.hint is not None and "headwater rebuild customers" in raised.value.hint
