"""Columns that come and go upstream while a view runs, from the schema to the target."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.sql import functions as sf

import headwater as hw
from headwater.pipelines import evolution
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.pinned_schemas import KeptPins
from headwater.views.tables import new_columns
from headwater.views.targets.contract import Unavailable
from headwater.views.targets.search.index import SearchIndex
from headwater.views.targets.sql.target import SqlTarget
from tests.spark.run.desk import Desk
from tests.views.registry.test_streams import avro, send
from tests.views.tables.test_running import declared, finish, select

NewName = Callable[[], str]
NULL = {"type": ["null", "string"], "default": None}


def order(*more: dict[str, Any], without: str = "") -> dict[str, Any]:
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "item", **NULL},
        {"name": "total", "type": "double"},
    ]
    kept = [each for each in fields if each["name"] != without]
    return {"type": "record", "name": "Order", "fields": [*more, *kept]}


NOTE = {"name": "note", **NULL}
PAID = {"name": "paid", "type": "int", "default": 7}


@pytest.fixture
def client(registry: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry}) as found:
        yield found


@pytest.fixture
def orders(desk: Desk, client: SchemaRegistryClient, new_name: NewName) -> str:
    topic = new_name()
    desk.log.ensure_topic(topic, {}, partitions=1)
    rows = [{"id": n, "item": "tea", "total": n / 2} for n in (1, 2)]
    send(desk, topic, *avro(client, topic, order(), *rows))
    return topic


def columns(shop: Path, view: str) -> list[str]:
    return [name for _, name, *_ in select(shop, f'PRAGMA table_info("{view}")')]


def test_a_column_added_upstream_appears_in_the_view_of_a_stream(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    view = declared(lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    assert columns(shop, view.name) == ["id", "item", "total"]
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    finish(desk, view)
    rows = f'SELECT id, item, total, note FROM "{view.name}" ORDER BY id'
    assert select(shop, rows) == [(1, "tea", 0.5, None), (2, "milk", 1.0, "cold")]
    assert any("gets note" in said for said in desk.said)
    # Older writers go on, and a restart finds the view as it is.
    send(desk, orders, *avro(client, orders, order(), {"id": 1, "item": "rye", "total": 3.0}))
    finish(desk, view)
    assert select(shop, rows) == [(1, "rye", 3.0, None), (2, "milk", 1.0, "cold")]


def test_a_view_over_tables_gets_a_column_with_what_a_rebuild_would_give_its_rows(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    view = declared(
        lambda: hw.table(orders, key="id").fillna("none"),
        new_name(),
        key="id",
        to=f"sqlite:{shop}",
    )
    finish(desk, view)
    send(desk, orders, *avro(client, orders, order(), {"id": 3, "item": "rye", "total": 3.0}))
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold", "paid": 1}
    send(desk, orders, *avro(client, orders, order(NOTE, PAID), row))
    finish(desk, view)
    assert any("gets note, paid" in said for said in desk.said)
    rows = f'SELECT id, item, total, note, paid FROM "{view.name}" ORDER BY id'
    wanted = [(1, "tea", 0.5, "none", 7), (2, "milk", 1.0, "cold", 1), (3, "rye", 3.0, "none", 7)]
    assert select(shop, rows) == wanted
    # Older writers go on, and so does the view, row by row.
    send(desk, orders, *avro(client, orders, order(), {"id": 1, "item": "rye", "total": 3.0}))
    finish(desk, view)
    assert select(shop, rows) == [(1, "rye", 3.0, "none", 7), *wanted[1:]]


@pytest.mark.parametrize(
    "ended",
    [
        "before the note",
        pytest.param("before the state", marks=pytest.mark.soak),
        pytest.param("after the note", marks=pytest.mark.soak),
    ],
)
def test_an_evolution_of_a_view_over_tables_that_was_cut_short_is_gone_on_with(
    desk: Desk,
    client: SchemaRegistryClient,
    orders: str,
    tmp_path: Path,
    new_name: NewName,
    ended: str,
):
    shop = tmp_path / "shop.db"
    view = declared(lambda: hw.table(orders, key="id"), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    folder = decided(desk, view, "gets note")
    built = desk.build(view)
    note = partial(desk.checkpoints.note, view.checkpoint, built.shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptPins, "finish", _end)
        if ended == "before the state":
            patch.setattr(new_columns, "widen", _end)
        with pytest.raises(Ended):
            built.evolution.carry_out(_end if ended == "before the note" else note)
    assert (folder / "evolution.json").exists()
    finish(desk, view)
    assert not (folder / "evolution.json").exists()
    rows = select(shop, f'SELECT id, item, note FROM "{view.name}" ORDER BY id')
    assert rows == [(1, "tea", None), (2, "milk", "cold")]


class Ended(Exception):
    """In place of the process's end."""


def _end(*_: object) -> None:
    raise Ended


def test_a_view_over_tables_that_keeps_totals_leaves_new_columns_out_and_says_so(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"

    def totals() -> Any:
        table = hw.table(orders, key="id")
        numbers = [name for name in table.columns if name in ("id", "paid")]
        return table.groupBy("item").agg(*(sf.sum(name).alias(name) for name in numbers))

    view = declared(totals, new_name(), key="item", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "paid": 1}
    send(desk, orders, *avro(client, orders, order(PAID), row))
    finish(desk, view)
    assert any("goes on without paid: it keeps totals" in said for said in desk.said)
    rows = select(shop, f'SELECT * FROM "{view.name}" ORDER BY item')
    assert rows == [("milk", 2), ("tea", 1)]


def test_a_view_that_is_set_to_ignore_new_columns_goes_on_without(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    view = declared(
        lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}", new_columns="ignore"
    )
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    finish(desk, view)
    assert select(shop, f'SELECT * FROM "{view.name}" WHERE id = 2') == [(2, "milk", 1.0)]


def test_a_column_removed_upstream_is_refused_before_a_row_is_written(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    whole = declared(lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}")
    part = declared(
        lambda: hw.stream(orders).select("id", "total"), new_name(), key="id", to=f"sqlite:{shop}"
    )
    named = declared(
        lambda: hw.table(orders, key="id").selectExpr("id", "upper(item) AS item"),
        new_name(),
        key="id",
        to=f"sqlite:{shop}",
    )
    finish(desk, whole, part, named)
    before = select(shop, f'SELECT * FROM "{whole.name}" ORDER BY id')
    send(desk, orders, *avro(client, orders, order(without="item"), {"id": 1, "total": 9.0}))
    queries = desk.begin(whole, part, named, once=True)
    desk.step_until(lambda: all(q.state.value in ("refused", "finished") for q in queries), "all")
    assert [query.state.value for query in queries] == ["refused", "finished", "refused"]
    said = [each for each in desk.said if "refused" in each]
    assert all("has lost item with the schema" in each for each in said)
    assert select(shop, f'SELECT * FROM "{whole.name}" ORDER BY id') == before
    assert select(shop, f'SELECT total FROM "{part.name}" WHERE id = 1') == [(9.0,)]
    assert select(shop, f'SELECT item FROM "{named.name}" ORDER BY id') == [("TEA",), ("TEA",)]


@pytest.mark.soak  # what is compared there: test_schema_trials
def test_a_column_inside_of_another_is_left_out_and_said_and_none_is_lost(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    def bought(*names: str) -> dict[str, Any]:
        buyer = {"type": "record", "name": "Buyer", "fields": [{"name": n, **NULL} for n in names]}
        return order({"name": "buyer", "type": ["null", buyer], "default": None})

    row = {"id": 3, "item": "rye", "total": 3.0, "buyer": {"name": "Ada", "city": "Ulm"}}
    send(desk, orders, *avro(client, orders, bought("name", "city"), row))
    shop = tmp_path / "shop.db"
    view = declared(lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row |= {"id": 4, "buyer": {"name": "Bob", "city": "Bonn", "mail": "b@x"}}
    send(desk, orders, *avro(client, orders, bought("name", "city", "mail"), row))
    finish(desk, view)
    assert any("goes on without buyer.mail" in said for said in desk.said)
    rows = f'SELECT buyer FROM "{view.name}" WHERE id > 2 ORDER BY id'
    there = select(shop, rows)
    assert [json.loads(buyer) for (buyer,) in there] == [
        {"name": "Ada", "city": "Ulm"}, {"name": "Bob", "city": "Bonn"}]  # fmt: skip
    row |= {"id": 3, "buyer": {"name": "Eve"}}
    send(desk, orders, *avro(client, orders, bought("name"), row))
    (query,) = desk.begin(view, once=True)
    desk.step_until(lambda: query.state.value in ("refused", "finished"), "it")
    assert query.state.value == "refused"
    assert any("has lost buyer.city with the schema" in said for said in desk.said)
    assert select(shop, rows) == there


def decided(desk: Desk, view: View, said: str) -> Path:
    """Run a view until it has decided what becomes of new columns; its checkpoint."""
    (query,) = desk.begin(view, once=True)
    desk.step_until(lambda: any(said in each for each in desk.said), "the decision")
    query.stop()
    return Path(desk.checkpoints.of(view.checkpoint))


def test_an_evolution_that_was_cut_short_is_gone_on_with(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    view = declared(lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    folder = decided(desk, view, "gets note")
    assert (folder / "evolution.json").exists()
    widen = desk.build(view).evolution.context.widen
    assert widen is not None
    widen()  # the target has the column; the process ends here
    assert columns(shop, view.name)[-1] == "note"
    assert (folder / "evolution.json").exists()
    finish(desk, view)
    assert not (folder / "evolution.json").exists()
    kept = json.loads((folder / "schemas.json").read_text())
    assert len(kept[f"stream {orders}"]["before"]) == 1
    rows = select(shop, f'SELECT id, item, note FROM "{view.name}" ORDER BY id')
    assert rows == [(1, "tea", None), (2, "milk", "cold")]


@pytest.mark.soak  # as decided: the test of one that is set to ignore, and that of one cut short
def test_an_evolution_that_has_not_begun_is_left_where_new_columns_are_to_be_ignored(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    view = declared(lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    folder = decided(desk, view, "gets note")
    finish(desk, replace(view, new_columns="ignore"))
    assert not (folder / "evolution.json").exists()
    assert select(shop, f'SELECT * FROM "{view.name}" WHERE id = 2') == [(2, "milk", 1.0)]


def test_a_function_that_was_changed_during_an_evolution_is_refused(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    view = declared(lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    decided(desk, view, "gets note")
    other = replace(view, function=lambda: hw.stream(orders).selectExpr("*", "1 AS one"))
    with pytest.raises(PipelineError, match="no longer gives those"):
        desk.begin(other)
    to = f"sqlite:{tmp_path / 'other.db'}"
    (query,) = desk.begin(replace(view, to=to), once=True)
    desk.step_until(lambda: query.state.value == "refused", "the guard of the checkpoint")
    assert "its target was" in desk.said[-1]
    finish(desk, view)
    assert select(shop, f'SELECT id, note FROM "{view.name}" WHERE id = 2') == [(2, "cold")]


def test_a_store_that_is_away_during_an_evolution_is_waited_for_by_its_view_alone(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    view = declared(lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    decided(desk, view, "gets note")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlTarget, "widen", _away)
        (query,) = desk.begin(view)
        desk.step_until(lambda: any("tried again" in each for each in desk.said), "a failure")
        query.stop()
    finish(desk, view)
    assert select(shop, f'SELECT id, note FROM "{view.name}" WHERE id = 2') == [(2, "cold")]


def _away(_: object) -> None:
    raise Unavailable("it does not answer")


@pytest.mark.parametrize(
    "later",
    [
        order(NOTE, PAID),
        pytest.param(order(PAID), marks=pytest.mark.soak),
        pytest.param(order(PAID, NOTE), marks=pytest.mark.soak),
    ],
)
def test_a_column_whose_values_were_read_past_comes_by_a_rebuild_only(
    desk: Desk,
    client: SchemaRegistryClient,
    orders: str,
    tmp_path: Path,
    new_name: NewName,
    later: dict[str, Any],
):
    shop = tmp_path / "shop.db"
    view = declared(
        lambda: hw.stream(orders).withColumnsRenamed({"note": "said"}),
        new_name(),
        key="id",
        to=f"sqlite:{shop}",
    )
    ignoring = replace(view, new_columns="ignore")
    finish(desk, ignoring)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold", "paid": 1}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    finish(desk, ignoring)
    send(desk, orders, *avro(client, orders, later, {**row, "id": 3}))
    finish(desk, view)
    names = columns(shop, view.name)
    if NOTE in later["fields"]:
        assert any("were read without said" in said for said in desk.said)
        assert names == ["id", "item", "total"]
    else:  # only this one is new
        assert names == ["id", "item", "total", "paid"]


@pytest.mark.soak  # as the one whose values were read past
def test_a_column_that_came_and_went_between_was_read_past_too(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    view = declared(lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold", "paid": 1}
    values = avro(client, orders, order(NOTE), row)
    client.register_schema(f"{orders}-value", Schema(json.dumps({**order(), "doc": "x"}), "AVRO"))
    send(desk, orders, *values)
    finish(desk, view)
    send(desk, orders, *avro(client, orders, order(NOTE, PAID), {**row, "id": 3}))
    finish(desk, view)
    assert any("were read without note" in said for said in desk.said)
    assert columns(shop, view.name) == ["id", "item", "total"]


@pytest.mark.soak
def test_a_view_gets_columns_though_the_registry_does_not_know_another_of_its_topics(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop, plain = tmp_path / "shop.db", new_name()
    desk.log.ensure_topic(plain, {}, partitions=1)

    def both() -> Any:
        told = hw.stream(plain, schema="id BIGINT, item STRING")
        unknown = hw.stream(plain).selectExpr("CAST(offset AS BIGINT) AS id").where("id < 0")
        return hw.stream(orders).unionByName(told, True).unionByName(unknown, True)

    view = declared(both, new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    finish(desk, view)
    assert select(shop, f'SELECT id, note FROM "{view.name}" WHERE id = 2') == [(2, "cold")]


@pytest.mark.soak
def test_a_decision_that_fails_is_tried_again(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"
    view = declared(lambda: hw.stream(orders), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evolution, "_moved", lambda *_: {}["what nobody thought of"])
        (query,) = desk.begin(view)
        desk.step_until(lambda: any("tried again" in each for each in desk.said), "a failure")
    desk.step_until(lambda: any("gets note" in each for each in desk.said), "the decision")
    query.stop()


@pytest.mark.parametrize("new_columns", ["add", pytest.param("ignore", marks=pytest.mark.soak)])
def test_a_column_that_spark_has_no_type_for_changes_nothing(
    desk: Desk,
    client: SchemaRegistryClient,
    orders: str,
    tmp_path: Path,
    new_name: NewName,
    new_columns: str,
):
    shop = tmp_path / "shop.db"
    view = declared(
        lambda: hw.stream(orders),
        new_name(),
        key="id",
        to=f"sqlite:{shop}",
        new_columns=new_columns,
    )
    finish(desk, view)
    either = {"name": "either", "type": ["int", "string"], "default": 0}
    row = {"id": 2, "item": "milk", "total": 1.0, "either": "cold"}
    send(desk, orders, *avro(client, orders, order(either), row))
    finish(desk, view)
    assert any("goes on as it was" in said for said in desk.said)
    send(desk, orders, *avro(client, orders, order(NOTE), {**row, "id": 3, "note": "warm"}))
    finish(desk, view)  # what the schema between had besides, nobody can say
    assert select(shop, f'SELECT * FROM "{view.name}" WHERE id > 1 ORDER BY id') == [
        (2, "milk", 1.0),
        (3, "milk", 1.0),
    ]


def test_columns_that_the_topic_of_a_view_may_not_have_are_left_out_and_not_registered(
    desk: Desk, client: SchemaRegistryClient, orders: str, new_name: NewName
):
    name = new_name()
    view = declared(lambda: hw.stream(orders), name, key="id", options={"format": "json-schema"})
    finish(desk, view)
    client.set_compatibility(f"{name}-value", level="FULL")
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    finish(desk, view)
    assert any("goes on without note" in said for said in desk.said)
    assert client.get_versions(f"{name}-value") == [1]


def test_a_query_with_state_leaves_new_columns_out_and_says_so(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    shop = tmp_path / "shop.db"

    def distinct() -> Any:
        kept = hw.stream(orders)
        return kept.drop("_key", "_topic", "_partition", "_offset", "_timestamp").dropDuplicates()

    view = declared(distinct, new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    finish(desk, view)
    assert any("goes on without note: it keeps state" in said for said in desk.said)
    assert select(shop, f'SELECT * FROM "{view.name}" WHERE id = 2') == [(2, "milk", 1.0)]


def test_every_kind_of_target_gets_the_column(
    desk: Desk, client: SchemaRegistryClient, orders: str, tmp_path: Path, new_name: NewName
):
    names = [new_name() for _ in range(4)]
    places = [f"duckdb:{tmp_path / 'shop.duckdb'}", f"delta:{tmp_path / 'lake'}"]
    places += [f"search:{tmp_path / 'index'}", f"topic:{names[3]}"]
    views = [
        declared(lambda: hw.stream(orders), name, key="id", to=to)
        for name, to in zip(names, places, strict=True)
    ]
    finish(desk, *views)
    row = {"id": 2, "item": "milk", "total": 1.0, "note": "cold"}
    send(desk, orders, *avro(client, orders, order(NOTE), row))
    finish(desk, *views)
    wanted = [(1, "tea", 0.5, None), (2, "milk", 1.0, "cold")]
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        found = connection.execute(f'SELECT id, item, total, note FROM "{names[0]}" ORDER BY id')
        assert found.fetchall() == wanted
    lake = deltalake.DeltaTable(tmp_path / "lake" / "current").to_pyarrow_table()
    kept = sorted(lake.select(["id", "item", "total", "note"]).to_pylist(), key=lambda r: r["id"])
    assert [tuple(each.values()) for each in kept] == wanted
    index = SearchIndex.current(tmp_path / "index")
    assert [each["id"] for each in index.search("note:cold")] == [2]
    assert [each["id"] for each in index.search("item:tea")] == [1]
    last = {each["id"]: each for each in desk.rows(names[3])}
    assert last[2]["note"] == "cold"
