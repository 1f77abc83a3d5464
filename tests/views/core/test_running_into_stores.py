"""Views in stores as `headwater run` keeps them: end to end over a broker and Spark, into SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.pipelines.declared import DECLARED, View
from headwater.pipelines.query import State
from tests.spark.run.desk import Desk

NewName = Callable[[], str]


def select(path: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def declared() -> View:
    return DECLARED.views()[-1]


def finish(desk: Desk, *views: View) -> None:
    """Bring views up to date, as `headwater run --once` does."""
    for query in desk.begin(*views, once=True):
        desk.step_until(lambda query=query: query.state is not State.WAITING, "a start")
        desk.step_until(lambda query=query: query.state is State.FINISHED, "the end")


def change(key: int, **row: Any) -> tuple[str, str]:
    return json.dumps({"id": key}), json.dumps({"op": "u", "after": {"id": key, **row}})


def deletion(key: int) -> list[tuple[str, str | None]]:
    """Debezium's delete, and the tombstone after it."""
    name = json.dumps({"id": key})
    return [(name, json.dumps({"op": "d", "before": {"id": key}, "after": None})), (name, None)]


def test_a_keyed_view_over_a_table_and_an_append_view_over_a_stream_follow_the_log(
    desk: Desk, tmp_path: Path, new_name: NewName
):
    shop, changes, events = tmp_path / "shop.db", new_name(), new_name()
    for topic in (changes, events):
        desk.log.ensure_topic(topic, {}, partitions=2)

    @hw.view("orders", key="id", to=f"sqlite:{shop}")
    def orders():
        table = hw.table(changes, schema="id BIGINT, total DOUBLE, note STRING", key="id")
        return table.select("id", "total", "note", "_deleted")

    keyed = declared()

    @hw.view("clicks", to=f"sqlite:{shop}", options={"table": "all clicks"})
    def clicks():
        return hw.stream(events, schema="who STRING, at TIMESTAMP")

    plain = declared()
    many = [change(n, total=n / 2, note="first") for n in range(200)]
    many += [change(n, total=n / 2, note="last") for n in range(100)]
    many += deletion(7) + deletion(8) + [change(8, total=80.0, note="back")]
    desk.send(changes, many)
    desk.send(events, [(None, '{"who": "Ada", "at": "2026-01-01T10:00:00Z"}')] * 3)
    finish(desk, keyed, plain)
    notes = {n: "last" if n < 100 else "first" for n in range(200)} | {8: "back"}
    totals = {n: n / 2 for n in range(200)} | {8: 80.0}
    expected = [(n, totals[n], notes[n]) for n in range(200) if n != 7]
    assert select(shop, "SELECT id, total, note FROM orders ORDER BY id") == expected
    assert (
        select(shop, 'SELECT * FROM "all clicks"') == [("Ada", "2026-01-01T10:00:00.000000Z")] * 3
    )

    desk.send(changes, [change(199, total=0.5, note=None), *deletion(0)])
    desk.send(events, [(None, '{"who": "Bob", "at": null}')])
    finish(desk, keyed, plain)
    expected = [*expected[1:-1], (199, 0.5, None)]
    assert select(shop, "SELECT id, total, note FROM orders ORDER BY id") == expected
    assert select(shop, 'SELECT who FROM "all clicks" ORDER BY who')[-1] == ("Bob",)
    (position,) = select(shop, "SELECT position FROM headwater_views WHERE view = 'orders'")[0]
    assert sum(json.loads(position)[changes].values()) == len(many) + 3
