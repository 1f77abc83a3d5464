"""Views in OpenSearch: what every target must do, and what only this one does, over real HTTP."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
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
    gone,
    rows_of,
    shape,
)
from headwater.views.targets.contract import Kind, Misfit, RowsRefused, Shape, Target, Unavailable
from headwater.views.targets.opensearch.target import OpenSearchTarget
from headwater.views.targets.registry import target_for
from tests.views.opensearch.server import Store, search_server


@pytest.fixture
def server() -> Iterator[tuple[str, Store]]:
    with search_server() as running:
        yield running


@pytest.fixture
def store(server: tuple[str, Store]) -> Store:
    return server[1]


def maker(address: str, folder: Path) -> Make:
    def make(given: Shape) -> Target:
        options = {"staging": str(folder / "staging"), **given.options}
        return target_for(address, replace(given, options=options))

    return make


@pytest.fixture
def make(server: tuple[str, Store], tmp_path: Path) -> Make:
    return maker(server[0], tmp_path)


class TestConformance(TargetConformance, WideningConformance):
    @pytest.fixture
    def make(self, server: tuple[str, Store], tmp_path: Path) -> Make:
        return maker(server[0], tmp_path)


def test_readers_search_below_the_views_name(make: Make, store: Store):
    writer = Writer(make(shape()))
    writer.write(0, [ADA, BOB])
    assert store.aliases == {"customers": {"customers-v1"}}
    assert isinstance(writer.target, OpenSearchTarget)
    assert writer.target.search("ada") == [{"id": 1, "name": "Ada", "total": 1.5, "_score": 1.0}]
    fields = store.indexes["customers-v1"]["mappings"]["properties"]
    assert (fields["id"], fields["name"]["type"]) == ({"type": "long"}, "text")


def test_a_commit_that_breaks_half_way_is_done_again_without_traces(make: Make, store: Store):
    writer = Writer(make(shape()))
    writer.write(0, [ADA, BOB])
    store.bulk_limit = 2
    part = writer.stage(1, 0, [CAT, gone(1), (2, "Bea", None), (4, "Dan", None)])
    with pytest.raises(Unavailable):
        writer.commit(1, [part])
    assert writer.target.applied().batch == 0  # type: ignore[union-attr]
    store.bulk_limit = None
    again = Writer(make(shape()))
    again.write(1, [(4, "Dan", None), CAT], [gone(1), (2, "Bea", None)])
    assert rows_of(again.target) == [(2, "Bea", None), CAT, (4, "Dan", None)]


def test_added_rows_of_a_commit_that_broke_are_not_there_twice(make: Make, store: Store):
    writer = Writer(make(shape(Kind.APPEND)))
    writer.write(0, [ADA])
    store.bulk_limit = 2
    with pytest.raises(Unavailable):
        writer.write(1, [ADA, BOB], [CAT])
    store.bulk_limit = None
    again = Writer(make(shape(Kind.APPEND)))
    again.write(1, [CAT, ADA, BOB])  # other parts than before
    assert rows_of(again.target) == [ADA, ADA, BOB, CAT]


def test_older_rows_of_a_replaced_writer_lose(make: Make):
    old = Writer(make(shape()))
    old.write(0, [ADA, BOB])
    new = Writer(make(shape()))
    new.write(1, [(1, "Ava", None)])
    new.write(2, [gone(2), (1, "Eva", None)])
    part = old.stage(1, 0, [(1, "stale", None), (2, "stale", None)])
    assert isinstance(old.target, OpenSearchTarget)
    with old.target._connected() as (server, _):
        old.target._send(server, 1, part)  # a bulk request that was under way all the time
    assert rows_of(new.target) == [(1, "Eva", None)]


def test_a_reader_does_not_see_a_batch_that_is_being_written(
    make: Make, store: Store, monkeypatch: pytest.MonkeyPatch
):
    writer = Writer(make(shape()))
    writer.write(0, [ADA, BOB])
    store.bulk_limit = 1
    with pytest.raises(Unavailable):
        writer.write(1, [CAT, gone(1)])
    monkeypatch.setattr("headwater.views.targets.opensearch.target.PATIENCE_S", 0.1)
    with pytest.raises(Unavailable, match="always being written"):
        rows_of(make(shape()))


def test_rows_that_the_server_refuses_are_taken_out_and_the_rest_goes_on(make: Make, store: Store):
    writer = Writer(make(shape()))
    store.indexes["customers-v1"]["mappings"]["properties"]["name"] = {"type": "date"}
    parts = [writer.stage(0, 0, [CAT, (1, "2026-01-01", None), (2, "not a date", None)])]
    with pytest.raises(RowsRefused) as raised:
        writer.commit(0, parts)
    (refusal,) = raised.value.refusals
    assert json.loads(refusal.row) == {"id": 2, "name": "not a date", "total": None}
    assert refusal.reason == "failed to parse field [name]"
    assert writer.target.applied() is None
    writer.commit(0, parts)
    assert rows_of(writer.target) == [(1, "2026-01-01", None), CAT]


def test_what_cannot_be_a_document_is_refused_before_it_is_sent(make: Make):
    schema = pa.schema([("id", pa.string()), ("total", pa.float64())])
    writer = Writer(make(shape(schema=schema)))
    refusals = writer.write(0, [("a", 1.0), ("k" * 600, 1.0), ("b", math.nan), ("", None)])
    assert [(each.number, each.reason) for each in refusals] == [
        (1, "its key has more than 512 bytes"),
        (2, "total is no number"),
    ]
    assert rows_of(writer.target) == [("", None), ("a", 1.0)]


def test_a_server_that_is_busy_or_down_is_unavailable(make: Make, store: Store):
    writer = Writer(make(shape()))
    part = writer.stage(0, 0, [ADA])
    for status in (429, 503):
        store.answers = [status]
        with pytest.raises(Unavailable, match=str(status)):
            writer.commit(0, [part])
    writer.commit(0, [part])
    assert rows_of(writer.target) == [ADA]
    nobody = target_for("elasticsearch+http://127.0.0.1:1", shape())
    for call in (nobody.create, nobody.claim, nobody.applied, nobody.current, nobody.versions):
        with pytest.raises(Unavailable, match="does not answer"):
            call()


def test_a_password_in_the_address_is_sent_and_not_shown():
    from headwater.views.targets.opensearch.http import Server

    server = Server("opensearch+https://ada:s%40cret@search.example/prefix/")
    assert server._headers == {"Authorization": "Basic YWRhOnNAY3JldA=="}
    assert (server._shown, server._prefix) == ("search.example:9200", "/prefix")


def test_names_that_no_index_can_have_are_refused(make: Make):
    with pytest.raises(Misfit, match="cannot be the name of an index"):
        make(shape(options={"table": "Customers/2"}))


def test_an_index_of_somebody_else_is_left_alone(make: Make, store: Store):
    store.put_index("customers-v1", {"mappings": {"properties": {}}})
    with pytest.raises(Misfit, match="not this view's"):
        make(shape()).create()


def test_an_alias_of_another_view_is_refused_in_every_version(make: Make):
    Writer(make(shape(view="one", options={"table": "t"}))).write(0, [ADA])
    for view, version, table in (("two", 1, "t"), ("two", 2, "t"), ("two", 1, "t-v1")):
        with pytest.raises(Misfit, match="holds the view 'one'"):
            make(shape(view=view, version=version, options={"table": table})).create()
    with pytest.raises(Misfit, match="not for views"):
        make(shape(view="headwater_views")).create()


def test_an_index_that_somebody_removed_is_not_waited_for_nor_are_rows_left_out(
    make: Make, store: Store
):
    writer = Writer(make(shape()))
    part = writer.stage(0, 0, [ADA])
    del store.indexes["customers-v1"]
    with pytest.raises(Misfit, match="404") as raised:
        writer.commit(0, [part])
    assert raised.value.hint is not None and "headwater rebuild customers" in raised.value.hint


def test_decimals_do_not_go_where_doubles_were(make: Make):
    make(shape()).create()
    decimals = SCHEMA.set(2, pa.field("total", pa.decimal128(20, 4)))
    with pytest.raises(Misfit, match="its column total is of double, the view's of decimal"):
        make(shape(schema=decimals)).create()
