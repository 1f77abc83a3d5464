"""What refused rows leave, end to end over a broker and Spark: of records, and of a computed result."""

from __future__ import annotations

import json
from pathlib import Path

import headwater as hw
from tests.spark.run.desk import Desk
from tests.views.core.finishing import finish
from tests.views.core.test_running_into_stores import NewName, declared, letters_of, select

NAN = -1.0
"""In the topic: JSON has no NaN."""
TOTAL = f"CASE WHEN total = {NAN} THEN double('NaN') ELSE total END AS total"


def record(key: int, total: float) -> tuple[str, str]:
    return json.dumps({"id": key}), json.dumps({"id": key, "total": total})


def test_a_refused_record_leaves_what_was_before_it_also_within_one_batch(
    desk: Desk, tmp_path: Path, new_name: NewName
):
    topic, name, shop = new_name(), new_name(), tmp_path / "shop.db"
    desk.log.ensure_topic(topic, {}, partitions=1)

    @hw.view(name, key="id", to=f"sqlite:{shop}", options={"table": "t"})
    def records():
        rows = hw.stream(topic, schema="id LONG, total DOUBLE")
        return rows.selectExpr("id", TOTAL, "_topic", "_partition", "_offset")

    view = declared()
    # id 1: 1.0, NaN, NaN      id 2: NaN, 2.0      all of one batch
    desk.send(topic, [record(1, 1.0), record(1, NAN), record(1, NAN)])
    desk.send(topic, [record(2, NAN), record(2, 2.0)])
    finish(desk, view)
    assert select(shop, "SELECT id, total FROM t ORDER BY id") == [(1, 1.0), (2, 2.0)]
    letters = letters_of(desk, view.dead_letters)
    assert [each["offset"] for each in letters] == ["1", "2", "3"]
    assert {each["message"] for each in letters} == {"total is NaN, which SQLite does not have"}


def test_a_refused_aggregate_takes_its_row_away_as_nobody_knows_what_was_between(
    desk: Desk, tmp_path: Path, new_name: NewName
):
    topic, name, shop = new_name(), new_name(), tmp_path / "shop.db"
    desk.log.ensure_topic(topic, {}, partitions=1)

    @hw.view(name, key="id", to=f"sqlite:{shop}", options={"table": "t"})
    def sums():
        from pyspark.sql import functions as F  # noqa: N812

        rows = hw.stream(topic, schema="id LONG, total DOUBLE").selectExpr("id", TOTAL)
        return rows.groupBy("id").agg(F.sum("total").alias("total"))

    view = declared()
    desk.send(topic, [record(1, 1.0), record(2, 1.0)])
    finish(desk, view)
    assert select(shop, "SELECT id, total FROM t ORDER BY id") == [(1, 1.0), (2, 1.0)]
    desk.send(topic, [record(1, NAN), record(2, 2.0)])
    finish(desk, view)
    assert select(shop, "SELECT id, total FROM t ORDER BY id") == [(2, 3.0)]
    (letter,) = letters_of(desk, view.dead_letters)
    assert "total is NaN" in letter["message"]
