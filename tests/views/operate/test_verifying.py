"""A view compared with the log at one position, and repaired where it differs."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as sf

import headwater as hw
from headwater.client.position import Position
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.expected_rows import Checking
from headwater.pipelines.query import State
from headwater.pipelines.verify_job import verify
from headwater.views.operate.differences import Difference, differences_of
from headwater.views.operate.pause import FILE, LONGEST_S, held, wait_while_held
from headwater.views.operate.repair import NotRepairable, Repair, repair_rows
from tests.spark.run.desk import Desk
from tests.views.operate.conftest import Moved


def execute(path: Path, statement: str) -> list[Any]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def finish(desk: Desk, *views: View) -> None:
    for query in desk.begin(*views, once=True):
        desk.step_until(lambda query=query: query.state is not State.WAITING, "a start")
        desk.step_until(lambda query=query: query.state is State.FINISHED, "the end")


def checking(desk: Desk, view: View) -> Checking:
    return Checking(
        view=view,
        spark=desk.spark,
        context=lambda at: Context(desk.spark, desk.bootstrap, {}, view=view, pinned=at),
        checkpoint=Path(desk.checkpoints.of(view.checkpoint)),
        say=desk.said.append,
    )


def change(key: int, **row: Any) -> tuple[str, str]:
    return json.dumps({"id": key}), json.dumps({"op": "u", "after": {"id": key, **row}})


def deletion(key: int) -> tuple[str, str]:
    said = {"op": "d", "before": {"id": key, "total": 0, "note": ""}, "after": None}
    return json.dumps({"id": key}), json.dumps(said)


def test_a_planted_missing_extra_and_changed_row_are_found_by_key_and_repaired(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str]
):
    shop, changes, events = tmp_path / "shop.db", new_name(), new_name()
    for topic in (changes, events):
        desk.log.ensure_topic(topic, {}, partitions=2)

    @hw.view("checked", key="id", to=f"sqlite:{shop}")
    def checked():
        table = hw.table(changes, schema="id BIGINT, total DOUBLE, note STRING", key="id")
        return table.select("id", "total", "note", "_deleted")

    @hw.view("clicks", to=f"sqlite:{shop}")
    def clicks():
        return hw.stream(events, schema="who STRING, at TIMESTAMP")

    keyed, plain = DECLARED.views()[-2:]
    desk.send(changes, [change(n, total=n / 2, note="first") for n in range(3000)])
    desk.send(changes, [change(n, total=n / 4, note=None) for n in range(0, 3000, 3)])
    desk.send(changes, [deletion(n) for n in range(0, 3000, 100)])
    desk.send(events, [(None, '{"who": "Ada", "at": "2026-01-01T10:00:00Z"}')] * 3)
    finish(desk, keyed, plain)

    right = verify(checking(desk, keyed))
    assert (right.rows, right.found, right.differing) == (2970, 2970, 0)
    assert right.is_right

    before = execute(shop, "SELECT * FROM checked ORDER BY id")
    execute(shop, "DELETE FROM checked WHERE id = 11")
    execute(shop, "INSERT INTO checked VALUES (100, 1.0, 'deleted long ago')")
    execute(shop, "UPDATE checked SET note = 'planted' WHERE id = 1234")
    execute(shop, "UPDATE checked SET note = NULL WHERE id = 2999")
    execute(shop, "INSERT INTO clicks SELECT * FROM clicks LIMIT 1")

    twice = verify(checking(desk, plain))
    assert twice.counts == {"different": 1}
    assert twice.differences[0].columns == {"_count": [3, 4]}
    with pytest.raises(NotRepairable, match="kept as append"):
        verify(checking(desk, plain), repair=True)

    # The view moves on before it is repaired: corrections are those of where it is then.
    desk.send(changes, [change(11, total=1.0, note="anew"), deletion(1234)])
    moved = replace(checking(desk, keyed), say=lambda said: finish_once(desk, keyed, said))
    found = verify(moved, repair=True)
    assert dict(found.counts) == {"missing": 1, "extra": 1, "different": 2}
    named = {each.key["id"]: each for each in found.differences}
    assert named[11].kind == "missing"
    assert named[100].kind == "extra"
    assert named[1234].columns == {"note": ["first", "planted"]}
    assert named[2999].columns == {"note": ["first", None]}
    assert found.repaired == 2
    after = execute(shop, "SELECT * FROM checked ORDER BY id")
    expected = [row for row in before if row[0] != 1234]
    assert after == [(11, 1.0, "anew") if row[0] == 11 else row for row in expected]
    assert verify(checking(desk, keyed)).is_right


@pytest.mark.soak  # how two rows are compared is among the tests of `comparison`
def test_a_sum_of_floating_point_numbers_is_right_in_whatever_order_it_was_added(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str]
):
    orders = new_name()
    desk.log.ensure_topic(orders, {}, partitions=4)

    @hw.view("spent", key="who", to=f"sqlite:{tmp_path / 'shop.db'}")
    def spent():
        table = hw.table(orders, schema="id BIGINT, who BIGINT, total DOUBLE", key="id")
        return table.groupBy("who").agg(sf.sum("total").alias("total"))

    view = DECLARED.views()[-1]
    desk.send(orders, [change(n, who=n % 4, total=n * 0.1 + 0.01) for n in range(400)])
    finish(desk, view)
    assert verify(checking(desk, view)).is_right
    execute(tmp_path / "shop.db", "UPDATE spent SET total = total + 0.01 WHERE who = 2")
    report = verify(checking(desk, view))
    assert [(each.kind, each.key) for each in report.differences] == [("different", {"who": 2})]


def test_a_view_over_two_tables_is_computed_from_the_log_as_a_whole(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str]
):
    shop, orders, people = tmp_path / "shop.db", new_name(), new_name()
    for topic in (orders, people):
        desk.log.ensure_topic(topic, {}, partitions=2)

    @hw.view("named_orders", key="id", to=f"sqlite:{shop}")
    def named_orders():
        mine = hw.table(orders, schema="id BIGINT, person BIGINT, total DOUBLE", key="id")
        who = hw.table(people, schema="id BIGINT, name STRING", key="id")
        who = who.withColumnRenamed("id", "person")
        return mine.join(who, "person").select("id", "name", "total")

    (view,) = DECLARED.views()[-1:]
    desk.send(people, [change(n, name=f"person {n}") for n in range(20)])
    desk.send(orders, [change(n, person=n % 25, total=n / 2) for n in range(500)])
    desk.send(people, [change(3, name="somebody else"), deletion(4)])
    finish(desk, view)
    right = verify(checking(desk, view))
    assert (right.rows, right.found, right.differing) == (380, 380, 0)
    before = execute(shop, "SELECT * FROM named_orders ORDER BY id")
    execute(shop, "UPDATE named_orders SET name = 'planted' WHERE id = 3")
    execute(shop, "INSERT INTO named_orders VALUES (4, 'gone', 2.0)")
    repaired = verify(checking(desk, view), repair=True)
    assert (dict(repaired.counts), repaired.repaired) == ({"extra": 1, "different": 1}, 2)
    assert execute(shop, "SELECT * FROM named_orders ORDER BY id") == before


def test_verify_brings_no_row_back_that_moved_or_was_in_a_table_that_was_emptied(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str]
):
    shop, orders = tmp_path / "shop.db", new_name()
    desk.log.ensure_topic(orders, {}, partitions=1)

    @hw.view("dear_orders", key="id", to=f"sqlite:{shop}")
    def dear_orders():
        return hw.table(orders, schema="id BIGINT, total DOUBLE", key="id").where("total > 1")

    (view,) = DECLARED.views()[-1:]
    emptied = json.dumps({"op": "t", "before": None, "after": None})
    moved = {"op": "u", "before": {"id": 5, "total": 5}, "after": {"id": 6, "total": 5}}
    desk.send(orders, [change(2, total=2), (None, emptied), change(5, total=5)])
    desk.send(orders, [('{"id": 6}', json.dumps(moved))])
    finish(desk, view)
    assert execute(shop, "SELECT * FROM dear_orders") == [(6, 5.0)]
    assert verify(checking(desk, view), repair=True).is_right
    assert execute(shop, "SELECT * FROM dear_orders") == [(6, 5.0)]


def finish_once(desk: Desk, view: View, said: str) -> None:
    """Called when verify has taken the view's rows: brings the view up to date behind its back."""
    desk.said.append(said)
    if said.startswith("the view is at"):
        finish(desk, view)


# ---- without Spark -------------------------------------------------------------------------------


def rows_of(moved: Moved) -> dict[int, tuple[Any, ...]]:
    return {row[0]: row for row in execute(moved.target.path, f"SELECT * FROM {moved.name}")}


def row(key: int, name: str) -> dict[str, Any]:
    return {"id": key, "name": name, "total": 1.0}


def test_corrections_are_computed_anew_where_the_view_has_moved(moved: Moved):
    at = moved.write("t:0=2", [(1, "wrong", 1.0), (3, "extra", 1.0)])
    asked: list[Position] = []

    def expected(position: Position, _: Any) -> list[dict[str, Any]]:
        asked.append(position)
        if len(asked) == 1:  # while we think, the query goes on
            moved.write("t:0=4", [(2, "b", 1.0)])
        return [row(1, "newer"), row(2, "b")]

    moved.write("t:0=3", [(9, "else", 1.0)])
    differences = [
        Difference({"id": 1}, row(1, "right"), row(1, "wrong")),
        Difference({"id": 2}, row(2, "b"), None),
        Difference({"id": 3}, None, row(3, "extra")),
    ]
    said: list[str] = []
    assert repair_rows(Repair(moved.target, at, differences, expected, None, said.append)) == 2
    assert said == ["the view has moved on meanwhile; once more"]
    assert asked == [Position.parse("t:0=3"), Position.parse("t:0=4")]
    assert {key: r[1] for key, r in rows_of(moved).items()} == {1: "newer", 2: "b", 9: "else"}
    applied = moved.target.applied()
    assert applied is not None and applied.position == Position.parse("t:0=4")
    moved.write("t:0=5", [(1, "on", 1.0)])  # the query's next batch is not fenced, and counts
    assert rows_of(moved)[1][1] == "on"


def test_a_view_that_never_rests_is_not_repaired_by_force(moved: Moved):
    at = moved.write("t:0=1", [(1, "wrong", 1.0)])

    def expected(position: Position, _: Any) -> list[dict[str, Any]]:
        moved.write(f"t:0={position.offset('t', 0) + 1}", [])
        return [row(1, "right")]

    moved.write("t:0=2", [])
    differences = [Difference({"id": 1}, row(1, "right"), row(1, "wrong"))]
    with pytest.raises(NotRepairable, match="moves on faster"):
        repair_rows(Repair(moved.target, at, differences, expected, None, lambda _: None))
    assert rows_of(moved)[1][1] == "wrong"


def test_a_hold_makes_a_query_wait_and_ends_by_itself(tmp_path: Path):
    assert wait_while_held(tmp_path, sleep=pytest.fail) < 50
    clock = [1000.0]

    def note(until: float, pid: int = os.getpid()) -> None:
        said = {"until": until, "host": platform.node(), "pid": pid}
        (tmp_path / FILE).write_text(json.dumps(said))

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if 1005 < clock[0] < 1100:
            (tmp_path / FILE).unlink(missing_ok=True)

    note(until=1010.0)
    assert 4 < wait_while_held(tmp_path, sleep, lambda: clock[0]) < 6
    clock[0] = 2000.0
    note(until=1_000_000.0)
    assert LONGEST_S - 1 < wait_while_held(tmp_path, sleep, lambda: clock[0]) < LONGEST_S + 1
    ended = subprocess.Popen(["true"])
    ended.wait()
    note(until=1_000_000.0, pid=ended.pid)
    assert wait_while_held(tmp_path, sleep, lambda: clock[0]) == 0
    with held(tmp_path):
        assert json.loads((tmp_path / FILE).read_text())["pid"] == os.getpid()
    assert not (tmp_path / FILE).exists()


def test_rows_are_compared_by_key_and_not_a_number_is_the_same_value(moved: Moved):
    shape = moved.target.shape
    nan = {"id": 1, "name": "a", "total": float("nan")}
    assert differences_of([nan], [dict(nan)], shape) == []
    (found,) = differences_of([nan], [{**nan, "name": "b"}], shape)
    assert found.columns == {"name": ["a", "b"]}


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_three_planted_rows_are_found_among_a_million_while_the_stream_goes_on(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str]
):
    shop, topic, count = tmp_path / "shop.db", new_name(), 1_000_000
    desk.log.ensure_topic(topic, {}, partitions=2)

    @hw.view("million", key="id", to=f"sqlite:{shop}")
    def million():
        return hw.stream(topic, schema="id BIGINT, total DOUBLE, note STRING")

    view = DECLARED.views()[-1]
    for begin in range(0, count, 50_000):
        desk.send(topic, (event(n, "first") for n in range(begin, begin + 50_000)))
    finish(desk, view)
    execute(shop, "DELETE FROM million WHERE id = 11")
    execute(shop, "INSERT INTO million VALUES (-1, 1.0, 'nobody said so')")
    execute(shop, "UPDATE million SET total = 0.25 WHERE id = 654321")

    ending = threading.Event()

    def load() -> None:
        number = 700_000  # other keys than the planted ones
        while not ending.is_set():
            desk.send(topic, [event(number + n, "moving") for n in range(100)])
            number += 100

    (running,) = desk.begin(view)
    desk.step_until(lambda: running.state is State.RUNNING, "a start")
    thread = threading.Thread(target=load)
    thread.start()
    try:
        found = verify(checking(desk, view), repair=True)
        again = verify(checking(desk, view))
    finally:
        ending.set()
        thread.join()
    print(f"{found.rows:,} rows: {again.seconds:.1f} s; with repair {found.seconds:.1f} s")
    assert {each.key["id"]: each.kind for each in found.differences} == {
        11: "missing",
        -1: "extra",
        654321: "different",
    }
    assert found.repaired == 3
    assert again.is_right and again.differing == 0
    assert again.position.covers(found.position) and again.position != found.position
    assert running.state is State.RUNNING


def event(number: int, note: str) -> tuple[str, str]:
    return str(number), f'{{"id": {number}, "total": {number / 2}, "note": "{note}"}}'


def test_verify_sees_a_null_in_another_place(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str]
):
    shop, topic = tmp_path / "shop.db", new_name()
    desk.log.ensure_topic(topic, {}, partitions=1)
    wrong = ["a = NULL, b = 'x'", "l = NULL", "l = '[null]'", "l = '[null, null]'"]

    @hw.view("rows", key="id", to=f"sqlite:{shop}")
    def rows():
        return hw.table(topic, schema="id BIGINT, a STRING, b STRING, l ARRAY<STRING>", key="id")

    view = DECLARED.views()[-1]
    desk.send(topic, [change(n, a="x", b=None, l=[]) for n in range(len(wrong) + 1)])
    finish(desk, view)
    assert verify(checking(desk, view)).differing == 0
    for n, each in enumerate(wrong):
        execute(shop, f"UPDATE rows SET {each} WHERE id = {n}")
    assert verify(checking(desk, view)).differing == len(wrong)
