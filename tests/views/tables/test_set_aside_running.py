"""Views over tables whose function fails for some rows, as `headwater run` keeps and `verify` sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import functions as sf

import headwater as hw
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import View
from headwater.pipelines.expected_rows import Checking
from headwater.pipelines.past_rows import Asked, rows_at
from headwater.pipelines.verify_job import verify
from tests.spark.run.desk import Desk
from tests.views.tables.test_running import declared, finish, put, select

NewName = Callable[[], str]
ORDERS = {"schema": "id BIGINT, parts INT, total BIGINT, code STRING", "key": "id"}
CODES = {"schema": "code INT, name STRING", "key": "code"}


def checking(desk: Desk, view: View) -> Checking:
    return Checking(
        view=view,
        spark=desk.spark,
        context=lambda at: Context(desk.spark, desk.bootstrap, {}, view=view, pinned=at),
        checkpoint=Path(desk.checkpoints.of(view.checkpoint)),
        say=desk.said.append,
    )


def order(key: int, parts: int = 1, code: str = "1") -> tuple[str, str]:
    return put({"id": key}, id=key, parts=parts, total=100, code=code)


def sums(desk: Desk, topic: str) -> dict[str, int | None]:
    """The last that a topic says of each key."""
    found: dict[str, int | None] = {}
    for record in desk.records(topic):
        row = json.loads(record.value() or b"null")
        found[(record.key() or b"").decode()] = row and row["sum"]
    return found


def test_keys_for_which_the_function_fails_are_dead_letters_until_they_are_corrected(
    desk: Desk, tmp_path: Path, new_name: NewName
):

    def shout(text):  # type: ignore[no-untyped-def]  # PySpark cannot read hints that are texts
        if text == "7":
            raise ValueError("seven")
        return text.upper()

    upper = sf.udf(shout, "string")
    orders, codes, told = new_name(), new_name(), new_name()
    shop = tmp_path / "shop.db"
    for topic in (orders, codes):
        desk.log.ensure_topic(topic, {}, partitions=2)

    def shared() -> Any:
        return hw.table(orders, **ORDERS).selectExpr("id", "total DIV parts AS each")

    def summed() -> Any:
        each = hw.table(orders, **ORDERS).selectExpr("code", "total DIV parts AS each")
        return each.groupBy("code").agg(sf.sum("each").alias("sum"))

    def named() -> Any:
        both = (
            hw.table(orders, **ORDERS)
            .alias("o")
            .join(
                hw.table(codes, **CODES).alias("c"), sf.expr("CAST(o.code AS INT) = c.code"), "left"
            )
        )
        return both.select("id", "name")

    def spelt() -> Any:
        return hw.table(orders, **ORDERS).select("id", upper("code").alias("code"))

    views = (
        declared(shared, "shared", key="id", to=f"sqlite:{shop}"),
        declared(summed, "summed", key="code", to=f"topic:{told}"),
        declared(named, "named", key="id", to=f"sqlite:{shop}"),
        declared(spelt, "spelt", key="id", to=f"sqlite:{shop}"),
    )
    failing, _, by_code, by_udf = views
    desk.send(codes, [put({"code": 1}, code=1, name="one")])
    desk.send(orders, [order(1), order(2, parts=0), order(3, code="7"), order(4, code="x")])
    finish(desk, *views)  # the first batch: the view as a whole
    assert select(shop, "SELECT * FROM shared ORDER BY id") == [(1, 100), (3, 100), (4, 100)]
    assert sums(desk, told) == {"7": 100, "x": 100}
    assert select(shop, "SELECT * FROM named ORDER BY id") == [(1, "one"), (2, "one"), (3, None)]
    assert select(shop, "SELECT * FROM spelt ORDER BY id") == [(1, "1"), (2, "1"), (4, "X")]
    (letter,) = desk.records(failing.dead_letters)
    assert (letter.key(), letter.value()) == (b"2", b'{"id":2}')
    said = dict(letter.headers())
    assert b"DIVIDE_BY_ZERO" in said["__dlq.errors.message"]
    assert json.loads(said["__dlq.errors.row"]) == {"id": 2}
    assert orders.encode() in said["__dlq.errors.position"]
    (letter,) = desk.records(by_udf.dead_letters)
    assert dict(letter.headers())["__dlq.errors.message"] == b"ValueError: seven"
    # What it compares cannot be computed of a record either, and the record is kept as well.
    assert {each.key() for each in desk.records(by_code.dead_letters)} == {b'{"id": 4}', b"4"}

    report = verify(checking(desk, failing))
    assert (report.rows, report.found, report.differing, report.aside) == (3, 3, 0, 1)
    assert '{"id":2}' in report.remarks[-1]
    for view in (by_code, by_udf):
        report = verify(checking(desk, view))
        assert (report.rows, report.found, report.differing, report.aside) == (3, 3, 0, 1)
    past = rows_at(checking(desk, failing), report.position, Asked(as_of="", key="1"))
    assert past.rows == [{"id": 1, "each": 100}]

    desk.send(orders, [order(3, parts=0), order(1, parts=2)])
    finish(desk, *views)  # one batch of few rows
    assert select(shop, "SELECT * FROM shared ORDER BY id") == [(1, 50), (4, 100)]
    assert sums(desk, told) == {"7": None, "x": 100}
    assert [each.value() for each in desk.records(failing.dead_letters)][1:] == [b'{"id":3}']

    desk.send(orders, [order(n, parts=4) for n in (2, 3, 4)])
    finish(desk, *views)
    everything = [(1, 50), (2, 25), (3, 25), (4, 25)]
    assert select(shop, "SELECT * FROM shared ORDER BY id") == everything
    assert [n for (n,) in select(shop, "SELECT id FROM named ORDER BY id")] == [1, 2, 3, 4]
    assert sums(desk, told) == {"7": None, "x": None, "1": 125}
    report = verify(checking(desk, failing))
    assert (report.rows, report.found, report.differing, report.aside) == (4, 4, 0, 0)

    # One that is to stop at the first does.
    stopping = declared(shared, "stopping", key="id", to=f"sqlite:{shop}", on_refused="fail")
    desk.send(orders, [order(1, parts=0)])
    desk.begin(stopping, once=True)
    desk.step_until(lambda: any("DIVIDE_BY_ZERO" in each for each in desk.said), "a failure")
    assert not select(shop, "SELECT * FROM stopping")
