"""A view whose columns changed their types: refused in words that say what differs, before any row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.testing.targets import SCHEMA, Writer, shape
from headwater.views.targets.contract import Misfit
from headwater.views.targets.postgres.values import keeps
from headwater.views.targets.registry import target_for

STORES = ["sqlite", "postgresql", "duckdb", "delta", "search"]
OTHERS = [pa.string(), pa.decimal128(20, 4), pa.float32(), pa.int64(), pa.timestamp("us", "UTC")]


@pytest.fixture(params=STORES)
def to(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("database"))
    return f"{request.param}:{tmp_path / 'views'}"


def with_total(kind: pa.DataType) -> pa.Schema:
    return SCHEMA.set(SCHEMA.get_field_index("total"), pa.field("total", kind))


def test_another_type_is_refused_in_words_that_name_it_and_the_remedy(to: str) -> None:
    Writer(target_for(to, shape())).write(0, [(1, "Ada", 1.25)])
    for kind in OTHERS:
        with pytest.raises(Misfit, match="total") as raised:
            target_for(to, shape(schema=with_total(kind))).create()
        assert "double" in str(raised.value).lower()
        assert raised.value.hint is not None and "headwater rebuild customers" in raised.value.hint
    target_for(to, shape()).create()  # as it was


def test_the_second_version_has_the_new_type(to: str) -> None:
    Writer(target_for(to, shape())).write(0, [(1, "Ada", 1.25)])
    again = target_for(to, shape(schema=with_total(pa.string()), version=2))
    Writer(again).write(0, [(1, "Ada", "one and a quarter")])
    again.switch()
    with again.reading() as (_, rows):
        assert [row["total"] for batch in rows for row in batch.to_pylist()] == [
            "one and a quarter"
        ]


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_table_that_says_nothing_of_its_view_is_compared_by_its_own_types(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """As the first release left it: the book has no column `shape`."""
    to = f"sqlite:{tmp_path / 'old.db'}"
    if store == "postgresql":
        to = str(request.getfixturevalue("database"))
    Writer(target_for(to, shape())).write(0, [(1, "Ada", 1.25)])
    forget_shapes(store, to, request)
    for kind in (pa.string(), pa.decimal128(20, 4)):
        with pytest.raises(Misfit, match="total"):
            target_for(to, shape(schema=with_total(kind))).create()
    again = Writer(target_for(to, shape()))
    again.write(1, [(2, "Bob", 2.5)])
    with pytest.raises(Misfit, match="total"):
        target_for(to, shape(schema=with_total(pa.float32()))).create()


def forget_shapes(store: str, to: str, request: pytest.FixtureRequest) -> None:
    statement = "ALTER TABLE headwater_views DROP COLUMN shape"
    if store == "postgresql":
        server: Any = request.getfixturevalue("server")
        server.execute(statement, database=to.rpartition("/")[2])
        return
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(to.partition(":")[2])) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("ours", "found", "kept"),
    [
        ("timestamp", "timestamp", True),
        ("timestamp", "timestamp(3) without time zone", False),
        ("timestamp", "timestamp(3) with time zone", False),
        ("timestamptz", "timestamp(3) with time zone", False),
        ("time", "time(0) without time zone", False),
        ("interval", "interval(0)", False),
        ("text", "character varying(5)", True),  # what is too long is refused
        ("text", "character(5)", False),  # what is too short gets blanks
        ("text", "name", False),
        ("numeric(20,4)", "money", False),
        ("text", "uuid", True),
    ],
)
def test_a_type_of_postgresql_that_would_change_a_value_is_not_taken(
    ours: str, found: str, kept: bool
):
    assert keeps(ours, found) is kept
