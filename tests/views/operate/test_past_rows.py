"""Rows of a view as they were: computed from the log, equal to what the view held there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.cli import main
from headwater.client.cluster import Cluster
from headwater.client.errors import BadRequest
from headwater.client.log import Log
from headwater.client.position import Position
from headwater.pipelines.application import Order
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.expected_rows import Checking
from headwater.pipelines.handles import handle
from headwater.pipelines.past_rows import Asked, _chosen, past_rows, resolved, rows_at
from headwater.pipelines.query import State
from headwater.pipelines.view_rows.values import key_of, plain
from headwater.views.targets.contract import Shape
from tests.spark.run.desk import Desk
from tests.views.operate.conftest import Moved

FILE = """
import headwater as hw

@hw.view("orders_view", key="id", to="{to}")
def orders_view():
    return hw.table("orders", schema="id BIGINT, name STRING, total DOUBLE", key="id")
"""


def change(key: int, **row: Any) -> tuple[str, str]:
    return json.dumps({"id": key}), json.dumps({"op": "u", "after": {"id": key, **row}})


def deletion(key: int) -> tuple[str, str]:
    return json.dumps({"id": key}), json.dumps({"op": "d", "before": {"id": key}, "after": None})


def finish(desk: Desk, view: View) -> None:
    (query,) = desk.begin(view, once=True)
    desk.step_until(lambda: query.state is not State.WAITING, "a start")
    desk.step_until(lambda: query.state is State.FINISHED, "the end")


def held(shop: Path, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(shop)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY id")]


def checking(desk: Desk, view: View) -> Checking:
    return Checking(
        view=view,
        spark=desk.spark,
        context=lambda at: Context(desk.spark, desk.bootstrap, {}, view=view, pinned=at),
        checkpoint=None,
        say=desk.said.append,
    )


def test_rows_at_every_position_that_a_view_has_been_at_are_what_it_held_there(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str]
):
    shop, orders, people = tmp_path / "shop.db", new_name(), new_name()
    for topic in (orders, people):
        desk.log.ensure_topic(topic, {}, partitions=2)

    @hw.view("bought", key="id", to=f"sqlite:{shop}")
    def bought_view():
        mine = hw.table(orders, schema="id BIGINT, person BIGINT, total DOUBLE", key="id")
        who = hw.table(people, schema="id BIGINT, name STRING", key="id")
        who = who.withColumnRenamed("id", "person")
        return mine.join(who, "person").select("id", "name", "total")

    (view,) = DECLARED.views()[-1:]
    steps = [
        (
            [change(n, name=f"person {n}") for n in range(5)],
            [change(n, person=n % 5, total=n / 2) for n in range(40)],
        ),
        ([change(3, name="somebody else"), deletion(4)], [change(7, person=1, total=70.0)]),
        ([], [deletion(n) for n in range(0, 40, 2)]),
    ]
    seen: list[tuple[Position, list[dict[str, Any]]]] = []
    for persons, ordered in steps:
        desk.send(people, persons)
        desk.send(orders, ordered)
        finish(desk, view)
        at = handle(view).position()
        assert at is not None
        seen.append((at, held(shop, "bought")))
    assert len({len(rows) for _, rows in seen}) == len(seen)
    for at, rows in seen:
        found = rows_at(checking(desk, view), at, Asked(str(at), limit=100))
        assert (found.rows, found.is_all) == (rows, True)
    first, rows = seen[0]
    some = rows_at(checking(desk, view), first, Asked(str(first), limit=3))
    assert (some.rows, some.is_all) == (rows[:3], False)
    one = rows_at(checking(desk, view), first, Asked(str(first), key="7"))
    assert one.rows == [{"id": 7, "name": "person 2", "total": 3.5}]
    nobody = rows_at(checking(desk, view), first, Asked(str(first), key="x' OR 1=1"))
    assert (nobody.rows, nobody.is_all) == ([], True)

    # The whole way, as a request of the command line takes it: a moment before the first record.
    order = Order((), desk.bootstrap, str(tmp_path / "checkpoints"))
    asked = Asked("2001-01-01T00:00")
    past = past_rows(order, desk.spark, view, desk.said.append, asked)
    assert past.rows == [] and past.remarks == []
    asked = Asked(f"{orders}:0={first.offset(orders, 0)}")  # the others: as far as the view is
    past = past_rows(order, desk.spark, view, desk.said.append, asked)
    assert past.position.offset(people, 1) == seen[-1][0].offset(people, 1)


def test_a_key_is_found_by_the_text_that_it_has_everywhere(desk: Desk):
    rows = [
        {
            "a": bytes([0, 255]),
            "b": datetime(2026, 11, 15, 15, 0, tzinfo=UTC),
            "c": Decimal("1.50"),
        },
        {"a": b"x:y", "b": datetime(1969, 1, 1, tzinfo=UTC), "c": Decimal("-2.00")},
    ]
    frame = desk.spark.createDataFrame(rows, "a BINARY, b TIMESTAMP, c DECIMAL(9, 2)")
    key = ("a", "b", "c")
    shape = Shape("v", pa.schema([(name, pa.string()) for name in key]), key)
    for row in rows:
        text = key_of({name: plain(value) for name, value in row.items()}, key)
        assert [each["c"] for each in _chosen(frame, shape, text).collect()] == [row["c"]]
    assert _chosen(frame, shape, "AA==:never:1").collect() == []
    with pytest.raises(BadRequest, match="is no key of v"):
        _chosen(frame, shape, "AA==")
    with pytest.raises(BadRequest, match="has no text here"):
        _chosen(frame.selectExpr("array(1) AS a"), replace(shape, key=("a",)), "1")


def test_a_time_is_a_place_in_every_partition_that_the_view_has_read(
    cluster: Cluster, bootstrap: str, new_name: Callable[[], str]
):
    topic = new_name()
    with Log(bootstrap) as log:
        log.ensure_topic(topic, {}, partitions=2)
        for partition, times in enumerate(([1000, 2000, 3000], [1500, 2500])):
            for time_ms in times:
                log.producer.produce(topic, b"v", partition=partition, timestamp=time_ms)
        assert log.producer.flush(30) == 0
    reached = Position({topic: {0: 3, 1: 1}})

    def at(text: str) -> dict[int, int]:
        return dict(resolved(text, reached, cluster, "v").offsets[topic])

    assert at("1970-01-01T00:00:00") == {0: 0, 1: 0}
    assert at("1970-01-01T00:00:02") == {0: 2, 1: 1}
    assert at("1970-01-01T01:00:02+01:00") == {0: 2, 1: 1}
    assert at("2026-01-01") == {0: 3, 1: 1}
    assert at(f"{topic}:0=2") == {0: 2, 1: 1}
    for wrong, said in [
        (f"{topic}:1=2", "has come to"),
        (f"{topic}:7=1", "has read nothing of"),
        ("17", "neither a position nor a time"),
        ("yesterday", "neither a position nor a time"),
    ]:
        with pytest.raises(BadRequest, match=said):
            at(wrong)


def test_rows_as_they_are_come_from_the_store_and_no_spark_is_started_where_none_shall_be(
    moved: Moved, tmp_path: Path, bootstrap: str, capsys: pytest.CaptureFixture[str]
):
    moved.write("orders:0=17", [(1, "one", 1.0), (2, "two", 2.0), (3, "three", 3.0)])
    file = tmp_path / "views.py"
    file.write_text(FILE.format(to=moved.to))
    words = ["rows", "orders_view", str(file)]
    assert main([*words, "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("orders_view at orders:0=17\n") and "two" in out and "three" not in out
    assert "… and more" in out
    assert main([*words, "--key", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["rows"]] == ["three"] and found["all"]
    notes = str(tmp_path / "notes")
    past = ["--as-of", "orders:0=3", "--running", "--bootstrap", bootstrap, "--checkpoints", notes]
    assert main([*words, *past]) == 1
    assert "no running application can say how orders_view was" in capsys.readouterr().err
