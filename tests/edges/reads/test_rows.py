"""Rows of views as each store has them: by key, page by page, all, and by words where there is a search."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.errors import BadRequest, NotThere, RequestRefused
from headwater.pipelines.declarations import View
from headwater.pipelines.view_rows import rows_of
from headwater.pipelines.view_rows.arrow import type_of
from headwater.pipelines.view_rows.values import key_of, parts_of
from headwater.testing.targets import TYPES, Writer, at, gone
from headwater.views.targets.contract import Kind
from headwater.views.targets.texts import key_texts
from tests.edges.reads.conftest import KINDS, Made

MAKES = [(n, f"name {n}", n / 2) for n in (3, 1, 20, 100, 11)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_found_by_key_and_page_by_page_in_order(kind: str, make: Callable[..., Made]):
    view, writer = make(kind)
    rows = rows_of(view)
    assert rows.get("1") == (None, None)
    writer.write(0, MAKES)
    position, found = rows.get("20")
    assert position == at(1)
    assert found is not None
    assert (found.key, found.fields) == ("20", {"id": 20, "name": "name 20", "total": 10.0})
    assert rows.get("2") == (at(1), None)
    assert rows.get("no number")[1] is None
    assert rows.get("20abc")[1] is None
    keys, after = [], None
    while True:
        position, page = rows.page(after, 2)
        assert position == at(1)
        if not page:
            break
        keys += [row.fields["id"] for row in page]
        after = page[-1].key
    assert keys == [1, 3, 11, 20, 100]
    writer.write(1, [gone(3), (1, "Ada", None)])
    with rows.all() as (position, everything):
        assert position == at(2)
        assert {row.key: row.fields["name"] for row in everything} == {
            "1": "Ada",
            "11": "name 11",
            "20": "name 20",
            "100": "name 100",
        }


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_several_columns_is_its_texts_with_colons(kind: str, make: Callable[..., Made]):
    view, writer = make(kind, key=("name", "id"))
    writer.write(0, [(1, "a:b", 1.0), (2, "a:b", 2.0), (1, "c\\", 3.0)])
    rows = rows_of(view)
    assert [row.key for row in rows.page(None, 10)[1]] == ["a\\:b:1", "a\\:b:2", "c\\\\:1"]
    found = rows.get("a\\:b:2")[1]
    assert found is not None and found.fields["total"] == 2.0
    assert [row.key for row in rows.page("a\\:b:1", 10)[1]] == ["a\\:b:2", "c\\\\:1"]
    assert rows.get("a")[1] is None
    with pytest.raises(BadRequest):
        rows.page("a:b:c:d", 10)


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_is_json(kind: str, make: Callable[..., Made]):
    view, writer = make(kind, schema=TYPES)
    moment = dt.datetime(2026, 11, 15, 12, 30, 0, 123456, tzinfo=dt.UTC)
    row = ("k", -7, True, Decimal("1234567890123456.7890"), moment, dt.date(1969, 7, 20),
           b"\x00\xff", ["a", None], {"x": 0.5, "y": 2})  # fmt: skip
    writer.write(0, [row, ("empty", *[None] * 8)])
    found = rows_of(view).get("k")[1]
    assert found is not None
    fields = found.fields
    assert fields["small"] == -7
    assert fields["yes"] in (True, 1)
    assert fields["price"] == "1234567890123456.7890"
    assert fields["at"] == "2026-11-15T12:30:00.123456Z"
    assert fields["day"] == "1969-07-20"
    assert fields["raw"] == "AP8="
    if kind == "sqlite":  # which has no lists
        assert fields["tags"] == '["a", null]'
    else:
        assert fields["tags"] == ["a", None]
        assert fields["place"] == {"x": 0.5, "y": 2}


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "delta", "postgresql"])
def test_of_a_history_the_row_is_the_one_that_holds_now(kind: str, make: Callable[..., Made]):
    def day(n: int) -> dt.datetime:
        return dt.datetime(2026, 1, n, tzinfo=dt.UTC)

    view, writer = make(kind, kind=Kind.HISTORY, key=("id",))
    writer.write(0, [(1, "Ada", 1.0, False, day(1)), (1, "Ava", 2.0, False, day(2)),
                     (2, "Bob", 1.0, False, day(2))])  # fmt: skip
    writer.write(1, [(2, None, None, True, day(4))])
    rows = rows_of(view)
    found = rows.get("1")[1]
    assert found is not None and found.fields["name"] == "Ava"
    assert rows.get("2")[1] is None
    assert [row.key for row in rows.page(None, 10)[1]] == ["1"]


@pytest.mark.parametrize("kind", KINDS)
def test_readers_see_the_version_that_was_switched_to(kind: str, make: Callable[..., Made]):
    view, writer = make(kind)
    writer.write(0, [(1, "old", None)])
    rows = rows_of(view)
    assert rows.page(None, 10)[1][0].fields["name"] == "old"
    second = type(writer.target)(view.to, _second(writer))
    Writer(second).write(0, [(1, "new", None)])
    assert rows.page(None, 10)[1][0].fields["name"] == "old"
    second.switch()
    assert rows.page(None, 10)[1][0].fields["name"] == "new"


def _second(writer: Writer):
    import dataclasses

    return dataclasses.replace(writer.target.shape, version=2)


def test_words_find_the_rows_that_fit_best(make: Callable[..., Made]):
    view, writer = make("search")
    writer.write(0, [(1, "Ada Lovelace", 1.0), (2, "Alan Turing", 2.0)])
    position, found = rows_of(view).search("turing", 10, 0)
    assert position == at(1)
    assert [row["name"] for row in found] == ["Alan Turing"]
    assert found[0]["_score"] > 0
    with pytest.raises(BadRequest):
        rows_of(view).search("nosuch:[", 10, 0)


def test_where_there_is_no_search_it_is_said(make: Callable[..., Made]):
    view, _ = make("sqlite")
    with pytest.raises(RequestRefused, match="has no search"):
        rows_of(view).search("ada", 10, 0)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "search", "delta"])
def test_a_view_that_nothing_has_filled_is_said_to_be_so(kind: str, tmp_path):
    view = View("orders", lambda: None, f"{kind}:{tmp_path / 'nothing'}", ("id",))
    with pytest.raises(NotThere, match="no rows yet"):
        rows_of(view).get("1")


def test_what_has_no_rows_to_read_is_refused():
    for to, key in (("topic:x", ("id",)), ("console:", ("id",)), ("sqlite:x.db", ())):
        with pytest.raises(RequestRefused):
            rows_of(View("orders", lambda: None, to, key))


# ---- keys and types as texts ----------------------------------------------------------------------


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_the_columns_of_a_key_come_back_from_its_text(parts):
    names = [str(n) for n in range(len(parts))]
    text = key_of(dict(zip(names, parts, strict=True)), names)
    assert parts_of(text, len(parts)) == parts
    table = pa.table({name: [part] for name, part in zip(names, parts, strict=True)})
    assert key_texts(table, names) == [text]


@given(st.text(), st.integers(2, 4))
def test_any_text_is_a_key_or_none(text, count):
    parts = parts_of(text, count)
    assert parts is None or len(parts) == count


@pytest.mark.parametrize(
    "kind",
    [
        *[field.type for field in TYPES],
        pa.float32(),
        pa.timestamp("ns"),
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.struct([("a", pa.decimal128(5, 2)), ("b", pa.list_(pa.int8()))])),
    ],
)
def test_a_type_is_read_from_how_it_is_written(kind):
    assert type_of(str(kind)) == kind
