"""Columns and tables called anything: every SQL store keeps the rows, or says first why it cannot."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.testing.targets import Row, Writer, rows_of
from headwater.views.targets.contract import Kind, Misfit, RowsRefused, Shape, Target
from headwater.views.targets.registry import target_for
from headwater.views.targets.sql.names import OwnNames
from tests.conftest import SOAK

OURS = (
    "n", "at", "since", "until", "look", "before", "last", "_n", "_number", "_row", "_at", "_next",
    "_last", "_mine", "_before", "_before_deleted", "_key_id", "t", "s", "k", "r", "x", "row", "key",
    "part", "hw_n", "_hw_row", "HW_AT",
)  # fmt: skip
OTHERS = (
    "select", "order", "excluded", "user", "CURRENT_DATE", "null", "table", "rowid", 'quo"te', "it's",
    "back`tick", "semi; DROP TABLE x", "per%cent", "%s", "{brace}", "a.b", "a b", "ümläut", "漢字",
    "é", "e\u0301", "emoji🙂", "new\nline", " ", "back\\slash", "$1", "?1", ":a",
)  # fmt: skip
MAYBE = ("", "l" * 64, "ctid", "Current")
"""Names that some stores refuse, in words."""
TABLES = ("touched", "_versions", "_wanted", "wanted", "excluded", "held", "s",
          "hw_row", 'quo"te', "per%cent")  # fmt: skip

ONE_OF_THEM = [
    Kind.UPSERT,
    pytest.param(Kind.HISTORY, marks=pytest.mark.soak),
    pytest.param(Kind.APPEND, marks=pytest.mark.soak),
]
"""Where every store is asked, but nothing depends on the kind."""

Make = Callable[[Shape], Target]


@pytest.fixture(params=["sqlite", "postgresql", "duckdb", "delta"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "postgresql":
        database = request.getfixturevalue("database")
        return lambda shape: target_for(database, shape)
    if request.param == "delta":
        return lambda shape: target_for(f"delta:{tmp_path / shape.view}", shape)
    return lambda shape: target_for(f"{request.param}:{tmp_path / 'views.db'}", shape)


def moment(day: int) -> dt.datetime:
    return dt.datetime(2026, 1, day, tzinfo=dt.UTC)


def shape_with(
    number: int, keys: Sequence[str], values: Sequence[str], kind: Kind, **options: str
) -> Shape:
    """Columns of numbers, of which some are the key."""
    schema = pa.schema([(name, pa.int64()) for name in (*keys, *values)])
    key = () if kind is Kind.APPEND else tuple(keys)
    return Shape(f"view{number}", schema, key, kind, 1, options)


def write_and_read(target: Target) -> tuple[Any, Any]:
    """The first and the last column, and the times, of all rows after two batches; those of one key."""
    writer, kind = Writer(target), target.shape.kind
    width = len(target.shape.schema) - 1

    def row(key: int, value: int | None, *more: object) -> Row:
        return (*[key] * width, value, *more)

    if kind is Kind.APPEND:
        writer.write(0, [row(1, 10), row(2, 20)])
    elif kind is Kind.UPSERT:
        writer.write(0, [row(1, 10), row(2, 20)], [row(3, 30)])
        writer.write(1, [row(1, 11), row(3, None, True)])
    else:
        writer.write(0, [row(1, 10, False, moment(1)), row(2, 20, False, moment(1))])
        writer.write(1, [row(1, 11, False, moment(2)), row(2, None, True, moment(3))])
    one = None
    if target.shape.key:
        keys = pa.table({name: pa.array([1, 1, 9], pa.int64()) for name in target.shape.key})
        one = [(each[0], *each[width:]) for each in rows_of(target, keys)]
    return [(each[0], *each[width:]) for each in rows_of(target)], one


def refusal_of(target: Target) -> Misfit | None:
    try:
        target.create()
    except Misfit as error:
        return error
    return None


RIGHT: dict[Kind, tuple[Any, Any]] = {
    Kind.APPEND: ([(1, 10), (2, 20)], None),
    Kind.UPSERT: ([(1, 11), (2, 20)], [(1, 11)]),
    Kind.HISTORY: (
        [
            (1, 10, moment(1), moment(2), False),
            (1, 11, moment(2), None, True),
            (2, 20, moment(1), moment(3), False),
        ],
        [(1, 10, moment(1), moment(2), False), (1, 11, moment(2), None, True)],
    ),
}


@pytest.mark.parametrize("kind", Kind)
def test_columns_may_have_the_names_that_we_use_and_keywords_and_any_letters(
    make: Make, kind: Kind
) -> None:
    for number, (keys, values) in enumerate([(OURS, OTHERS), (OTHERS, OURS)]):
        target = make(shape_with(number, keys, values, kind))
        assert write_and_read(target) == RIGHT[kind]


@pytest.mark.parametrize("kind", ONE_OF_THEM)
def test_a_name_that_a_store_cannot_have_is_refused_in_words_before_anything_is_written(
    make: Make, kind: Kind
) -> None:
    for number, name in enumerate(MAYBE):
        for place, names in enumerate([([name], ["other"]), (["id"], [name])]):
            target = make(shape_with(2 * number + place, *names, kind))
            refused = refusal_of(target)
            if refused is None:
                assert write_and_read(target) == RIGHT[kind], names
            else:
                assert repr(name) in str(refused) and refused.hint, name
                assert make(target.shape).versions() == {}


@pytest.mark.parametrize("kind", ONE_OF_THEM)
def test_columns_that_differ_in_case_are_kept_apart_or_refused_in_words(
    make: Make, kind: Kind
) -> None:
    target = make(shape_with(1, ["total"], ["Total"], kind))
    refused = refusal_of(target)
    if refused is None:
        assert write_and_read(target) == RIGHT[kind]
    else:
        assert "'total'" in str(refused) and "takes them for one" in str(refused)
        assert make(target.shape).versions() == {}


@pytest.mark.parametrize("kind", ONE_OF_THEM[:2])
def test_a_view_may_be_called_as_our_temporary_tables_are(make: Make, kind: Kind) -> None:
    for number, name in enumerate(TABLES):
        if "%" in name and "delta" in str(make(shape_with(0, ["id"], [], kind)).address):
            continue  # a folder, which delta-rs cannot open
        target = make(shape_with(number, ["id"], ["name"], kind, table=name))
        assert write_and_read(target) == RIGHT[kind], name


def test_a_refused_row_is_numbered_whatever_columns_there_are(
    server: Any, database: str, tmp_path: Path
) -> None:
    """Rows that only the commit refuses are taken out by their number, which is a column beside theirs."""
    import sqlite3

    import duckdb

    names = ("_n", "_number", "_row", "hw_number", "hw_n")
    columns = ", ".join(f"{name} bigint" for name in names)
    table = f"CREATE TABLE v (id bigint PRIMARY KEY, {columns}, CHECK (_n < 5))"
    server.execute(table, database=database.rpartition("/")[2])
    with sqlite3.connect(tmp_path / "v.db") as connection:
        connection.execute(table)
    connection.close()
    with duckdb.connect(str(tmp_path / "v.duckdb")) as file:
        file.execute(table)
    schema = pa.schema([("id", pa.int64()), *((name, pa.int64()) for name in names)])
    for to in (database, f"sqlite:{tmp_path / 'v.db'}", f"duckdb:{tmp_path / 'v.duckdb'}"):
        writer = Writer(target_for(to, Shape("v", schema, ("id",))))
        good, bad = (1, 1, 1, 1, 1, 1), (2, 9, 9, 9, 9, 9)
        part = writer.stage(0, 0, [good, bad])
        try:
            writer.commit(0, [part])
            (refusal,) = part.refused
        except RowsRefused as error:
            (refusal,) = error.refusals
            writer.commit(0, [part])
        assert refusal.number == 1 and '"_n":9' in refusal.row
        assert rows_of(writer.target) == [good]


@given(st.lists(st.text(max_size=8), max_size=20))
def test_a_name_of_ours_is_never_a_name_that_is_taken(taken: list[str]) -> None:
    own = OwnNames(taken)
    assert not {own(word).casefold() for word in ("n", "", "row")} & {t.casefold() for t in taken}


@given(
    st.lists(
        st.text(
            st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12
        ),
        min_size=2, max_size=2, unique_by=str.casefold,
    ),
    st.sampled_from(list(Kind)),
    st.sampled_from(["sqlite", "duckdb"]),
)  # fmt: skip
@settings(
    max_examples=200 if SOAK else 8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_two_names_are_columns_of_a_view_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], kind: Kind, store: str
) -> None:
    folder = tmp_path_factory.mktemp("names")
    target = target_for(f"{store}:{folder / 'views.db'}", shape_with(1, names[:1], names[1:], kind))
    refused = refusal_of(target)
    if refused is None:
        assert write_and_read(target) == RIGHT[kind]
    else:
        assert refused.hint
