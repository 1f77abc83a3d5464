"""Views over tables as `headwater run` keeps them: over a broker and Spark, into SQLite and a topic."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as sf

import headwater as hw
from headwater.errors import HeadwaterError
from headwater.pipelines.cluster import SETTING
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.query import State
from tests.spark.run.desk import Desk

NewName = Callable[[], str]
ORDERS = {"schema": "id BIGINT, customer STRING, total DOUBLE", "key": "id"}
CUSTOMERS = {"schema": "customer STRING, name STRING", "key": "customer"}


def select(path: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def declared(function: Callable[[], Any], name: str, **words: Any) -> View:
    hw.view(name, **words)(function)
    return DECLARED.views()[-1]


def finish(desk: Desk, *views: View) -> None:
    for query in desk.begin(*views, once=True):
        desk.step_until(lambda query=query: query.state is not State.WAITING, "a start")
        desk.step_until(lambda query=query: query.state is State.FINISHED, "the end")


def put(key: object, before: Any = None, **row: Any) -> tuple[str, str]:
    """Debezium's envelope."""
    return json.dumps(key), json.dumps({"op": "u", "before": before, "after": row})


@pytest.fixture(params=["auto", "shared"])
def state(request: pytest.FixtureRequest, desk: Desk) -> Iterator[str]:
    """Where the state of tables is: in a file of the driver's, or in files that executors keep."""
    desk.spark.conf.set(SETTING, request.param)
    yield request.param
    desk.spark.conf.unset(SETTING)


def test_views_over_tables_follow_them_into_a_database_and_a_topic(
    desk: Desk, tmp_path: Path, new_name: NewName, state: str
):
    orders, customers, told = new_name(), new_name(), new_name()
    shop = tmp_path / "shop.db"
    for topic in (orders, customers):
        desk.log.ensure_topic(topic, {}, partitions=2)

    def named() -> Any:
        both = hw.table(orders, **ORDERS).join(hw.table(customers, **CUSTOMERS), "customer", "left")
        return both.where("total >= 1").select("id", "name", "total")

    def spent() -> Any:
        both = hw.table(orders, **ORDERS).join(hw.table(customers, **CUSTOMERS), "customer")
        return both.groupBy("name").agg(sf.sum("total").alias("spent"), sf.count("*").alias("n"))

    def dearest() -> Any:
        return hw.table(orders, **ORDERS).orderBy(sf.desc("total")).limit(2).select("id", "total")

    views = (
        declared(named, "named", key="id", to=f"sqlite:{shop}"),
        declared(spent, "spent", key="name", to=f"topic:{told}"),
        # Cut off, so it cannot be followed row by row, and is asked to be computed as a whole.
        declared(dearest, "dearest", key="id", to=f"sqlite:{shop}", every="1 second"),
    )
    plain = [("c1", '{"customer": "c1", "name": "Ann"}'), ("c2", '{"customer": "c2"}')]
    envelope = {"op": "u", "before": None, "after": {"customer": "c2", "name": "Bea"}}
    desk.send(customers, [*plain, ("c2", json.dumps(envelope))])
    desk.send(orders, [put({"id": n}, id=n, customer=f"c{n % 3}", total=n) for n in range(6)])
    finish(desk, *views)
    rows = [(1, "Ann", 1.0), (2, "Bea", 2.0), (3, None, 3.0), (4, "Ann", 4.0), (5, "Bea", 5.0)]
    assert select(shop, "SELECT id, name, total FROM named ORDER BY id") == rows
    assert latest(desk, told) == {"Ann": (5.0, 2), "Bea": (7.0, 2)}
    assert select(shop, "SELECT * FROM dearest ORDER BY id") == [(4, 4.0), (5, 5.0)]

    moved = {"op": "u", "before": {"id": 5}, "after": {"id": 9, "customer": "c1", "total": 9}}
    desk.send(customers, [("c1", '{"customer": "c1", "name": "Cleo"}'), ("c2", None)])
    desk.send(customers, [("c0", '{"customer": "c0", "name": "Dan"}')])
    desk.send(orders, [('{"id": 1}', '{"op": "d", "before": {"id": 1}}')])
    desk.send(orders, [('{"id": 9}', json.dumps(moved))])
    desk.send(orders, [put({"id": 4}, id=4, customer="c1", total=t) for t in (0.5, 4)])
    finish(desk, *views)
    rows = [(2, None, 2.0), (3, "Dan", 3.0), (4, "Cleo", 4.0), (9, "Cleo", 9.0)]
    assert select(shop, "SELECT id, name, total FROM named ORDER BY id") == rows
    # Order 0 costs nothing, and counts all the same: only the other view leaves it out.
    assert latest(desk, told) == {"Ann": None, "Bea": None, "Cleo": (13.0, 2), "Dan": (3.0, 2)}
    assert select(shop, "SELECT * FROM dearest ORDER BY id") == [(4, 4.0), (9, 9.0)]
    (position,) = select(shop, "SELECT position FROM headwater_views WHERE view = 'named'")[0]
    assert sum(json.loads(position)[orders].values()) == 10

    DECLARED.clear()
    edited = declared(lambda: named().where("total > 3"), "named", key="id", to=f"sqlite:{shop}")
    desk.begin(edited, once=True)
    desk.step_until(lambda: desk.queries[0].state is State.REFUSED, "a refusal")
    assert "what it keeps as state has changed" in desk.said[-1]


def test_a_value_that_cannot_be_read_is_a_dead_letter_and_its_row_stays(
    desk: Desk, tmp_path: Path, new_name: NewName, state: str
):
    orders, shop = new_name(), tmp_path / "shop.db"
    desk.log.ensure_topic(orders, {}, partitions=1)

    def large() -> Any:
        return hw.table(orders, **ORDERS).where("total >= 1").select("id", "total")

    view = declared(large, new_name(), key="id", to=f"sqlite:{shop}")
    desk.send(orders, [put({"id": n}, id=n, customer="c", total=n) for n in (1, 2)])
    desk.send(orders, [('{"id": 1}', "no json"), ('{"id": 2}', '{"id": 2, "total": "much"}')])
    desk.send(orders, [put({"id": 3}, id=3, customer="c", total=3)])
    finish(desk, view)
    rows = f'SELECT id, total FROM "{view.name}" ORDER BY id'
    assert select(shop, rows) == [(1, 1.0), (2, 2.0), (3, 3.0)]
    found = desk.records(view.dead_letters)
    assert [(each.key(), each.value()) for each in found] == [
        (b'{"id": 1}', b"no json"),
        (b'{"id": 2}', b'{"id": 2, "total": "much"}'),
    ]
    said = [dict(each.headers()) for each in found]
    assert [each["__dlq.errors.offset"] for each in said] == [b"2", b"3"]
    assert b"no JSON" in said[0]["__dlq.errors.message"]
    assert said[1]["__dlq.errors.message"] == b"field total is 'much', which is no double"

    # The same batch once more, for a second view's state: no letter is added for a record that has one.
    DECLARED.clear()
    strict = declared(large, new_name(), key="id", to=f"sqlite:{shop}", on_refused="fail")
    desk.begin(strict, once=True)
    desk.step_until(
        lambda: any("cannot be read as a row" in each for each in desk.said), "a reason"
    )


def test_a_view_goes_on_from_the_checkpoint_of_a_query_of_sparks_own_and_that_from_its(
    desk: Desk, tmp_path: Path, new_name: NewName
):
    orders, shop, name = new_name(), tmp_path / "shop.db", new_name()
    desk.log.ensure_topic(orders, {}, partitions=2)
    rows: list[tuple[int, float]] = []
    for round_, every in enumerate(["1 second", None, None, "1 second", None]):
        DECLARED.clear()
        view = declared(
            lambda: over_the_table(orders), name, key="id", to=f"sqlite:{shop}", every=every
        )
        number = round_ + 1
        desk.send(orders, [put({"id": number}, id=number, customer="c", total=number)])
        rows.append((number, float(number)))
        finish(desk, view)
        assert select(shop, f'SELECT id, total FROM "{name}" ORDER BY id') == rows
    (batch,) = select(shop, f"SELECT batch FROM headwater_views WHERE view = '{name}'")[0]
    assert batch == 4


def test_commits_that_a_crash_lost_let_no_row_be_missed_in_a_database_or_a_topic(
    desk: Desk, tmp_path: Path, new_name: NewName
):
    orders, shop, topic = new_name(), tmp_path / "shop.db", new_name()
    stored, sent = new_name(), new_name()
    desk.log.ensure_topic(orders, {}, partitions=1)

    def run(*numbers: int) -> None:
        desk.send(orders, [put({"id": n}, id=n, customer="c", total=n) for n in numbers])
        DECLARED.clear()
        to_store = declared(lambda: over_the_table(orders), stored, key="id", to=f"sqlite:{shop}")
        to_topic = declared(lambda: over_the_table(orders), sent, key="id", to=f"topic:{topic}")
        finish(desk, to_store, to_topic)

    for number in (1, 2, 3, 4):
        run(number)
    for name in (stored, sent):
        commits = Path(desk.checkpoints.of(name)) / "commits"
        for lost in ("2", "3"):
            (commits / lost).unlink()
    run(5, 6)
    expected = [(n, float(n)) for n in range(1, 7)]
    assert select(shop, f'SELECT id, total FROM "{stored}" ORDER BY id') == expected
    assert {row["id"] for row in desk.rows(topic)} == set(range(1, 7))


def marked(orders: str) -> Any:
    return hw.table(orders, **ORDERS).select("id", "total", "_op", "_deleted")


def as_it_is(orders: str) -> Any:
    return hw.table(orders, **ORDERS)


def over_the_table(orders: str) -> Any:
    return hw.table(orders, **ORDERS).where("total >= 1").select("id", "total")


@pytest.mark.parametrize(
    "query", [marked, pytest.param(as_it_is, marks=pytest.mark.soak), over_the_table]
)
def test_a_bad_value_is_one_dead_letter_however_often_its_batch_comes(
    desk: Desk, new_name: NewName, query: Callable[[str], Any]
):
    orders, calls = new_name(), list[list[int]]()
    desk.log.ensure_topic(orders, {}, partitions=1)

    def taken(batch: Any) -> None:
        calls.append(sorted(row["id"] for row in batch.rows()))
        if len(calls) == 1:
            raise RuntimeError("ends after the letters and before the batch counts")

    view = declared(lambda: query(orders), new_name(), key="id", to=taken)
    bad = [("1", "no json"), ("x", '{"id": "x", "total": 1}'), ("2", '{"op": "u", "after": {"id"')]
    before = json.dumps({"op": "d", "before": {"id": "x", "total": 3}, "after": None})
    desk.send(orders, [put({"id": 1}, id=1, total=1), *bad, ("2", before)])
    desk.send(orders, [put({"id": 2}, id=2, total=2)])
    finish(desk, view)
    assert calls == [[1, 2]] * 2
    found = desk.records(view.dead_letters)
    assert [dict(each.headers())["__dlq.errors.offset"] for each in found] == [
        b"1",
        b"2",
        b"3",
        b"4",
    ]
    assert [each.value() for each in found][:3] == [value.encode() for _, value in bad]


def test_a_key_that_is_no_key_of_its_table_does_not_stop_a_stream_of_changes(
    desk: Desk, tmp_path: Path, new_name: NewName
):
    orders, shop = new_name(), tmp_path / "shop.db"
    desk.log.ensure_topic(orders, {}, partitions=1)
    view = declared(lambda: marked(orders), new_name(), key="id", to=f"sqlite:{shop}")
    desk.send(orders, [("no number", json.dumps({"id": 1, "total": 1}))])
    finish(desk, view)
    assert select(shop, f'SELECT id, total FROM "{view.name}"') == [(1, 1.0)]


def latest(desk: Desk, topic: str) -> dict[str, tuple[float, int] | None]:
    """The last that a topic says of each key."""
    found: dict[str, tuple[float, int] | None] = {}
    for record in desk.records(topic):
        row = json.loads(record.value() or b"null")
        found[(record.key() or b"").decode()] = row and (row["spent"], row["n"])
    return found


@pytest.mark.parametrize(
    ("function", "words", "sentence"),
    [
        (lambda o, c: o.join(c, "customer"), {}, "each needs a key"),
        (
            lambda o, c: o.join(c, "customer").select("name"),
            {"key": "id"},
            "no column of its result",
        ),
        (lambda o, c: o.join(c.select("name")), {"key": "id"}, "joined without comparing"),
        (lambda o, c: o.limit(3), {"key": "id"}, "it is cut off (limit)"),
        (
            lambda o, c: o.join(c.localCheckpoint(), "customer", "left"),
            {"key": "id"},
            "its function reads its tables while it runs",
        ),
        (lambda o, c: o.withColumn("r", sf.rand()), {"key": "id"}, "rand gives another value"),
        (
            lambda o, c: o.join(c, "customer", "left"),
            {"key": "name"},
            "comes from a side of an outer join that may have no row",
        ),
        (
            lambda o, c: o.groupBy("customer").agg(sf.max("id").alias("id")),
            {"key": "id"},
            "is the result of an aggregate",
        ),
        (lambda o, c: o.join(c, "customer"), {"key": "id", "to": "memory:"}, "only be added to"),
    ],
)
def test_what_cannot_be_kept_current_is_refused_with_what_to_do(
    desk: Desk,
    new_name: NewName,
    function: Callable[[Any, Any], Any],
    words: dict[str, Any],
    sentence: str,
):
    def view() -> Any:
        return function(hw.table("orders", **ORDERS), hw.table("customers", **CUSTOMERS))

    with pytest.raises(HeadwaterError) as found:
        desk.build(declared(view, new_name(), **words))
    assert sentence in str(found.value)
    assert "\n" not in str(found.value)
    assert found.value.hint
