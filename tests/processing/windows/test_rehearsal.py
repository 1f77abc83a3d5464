"""The fixture that users rely on: their views run unchanged, on a clock that the test turns."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import HeadwaterError
from headwater.testing.rehearsal import Rehearsal

pytestmark = pytest.mark.timeout(900)  # Spark on a loaded machine takes its time
ORDER = "order_id STRING, customer STRING, total DOUBLE, at TIMESTAMP"
PIPELINE = """
import headwater as hw
from pyspark.sql import functions as F

ORDER = "order_id STRING, customer STRING, total DOUBLE, at TIMESTAMP"


@hw.view("large_orders", key="order_id")
def large_orders():
    return hw.stream("orders", schema=ORDER).where("total > 1000").select("order_id", "total")


@hw.view("sales_by_hour", key=["hour", "customer"], to="topic:sales", mode="append")
def sales_by_hour():
    orders = hw.stream("orders", schema=ORDER).withWatermark("at", "10 minutes")
    sums = orders.groupBy(F.window("at", "1 hour"), "customer").agg(F.sum("total").alias("total"))
    return sums.select(F.col("window.start").alias("hour"), "customer", "total")


@hw.view("large_list", key="order_id", to="postgresql://shop@production/shop")
def large_list():
    return hw.stream("large_orders", schema="order_id STRING, total DOUBLE")
"""


def order(number: int, at: str, total: float = 5.0) -> dict[str, object]:
    return {"order_id": str(number), "customer": "ada", "total": total, "at": f"2026-01-01T{at}Z"}


def test_a_file_of_views_runs_unchanged_step_by_step(
    headwater_test: Rehearsal, tmp_path: Path
) -> None:
    file = tmp_path / "orders.py"
    file.write_text(PIPELINE)
    test = headwater_test
    test.send("orders", order(1, "10:05:00"), order(2, "10:50:00", 2000.0), key="order_id")
    test.run(file)
    assert test.rows("large_orders") == [{"order_id": "2", "total": 2000.0}]
    assert test.rows("large_list") == [{"order_id": "2", "total": 2000.0}]  # of a view, in a store
    assert test.rows("sales_by_hour") == []

    #   10:00 ──1────2── 11:00 ─────3 11:30      watermark: 11:20
    test.send("orders", order(3, "11:30:00"))
    test.run()
    hour = dt.datetime(2026, 1, 1, 10, tzinfo=dt.UTC)
    assert test.rows("sales_by_hour") == [{"hour": hour, "customer": "ada", "total": 2005.0}]

    test.restart()
    test.send("orders", order(4, "13:00:00", 3000.0), order(2, "11:45:00", 1500.0), key="order_id")
    before = test.now
    assert test.advance("2 hours") - before == dt.timedelta(hours=2)
    assert [row["total"] for row in test.rows("sales_by_hour")] == [2005.0, 1505.0]
    assert test.rows("large_list") == [
        {"order_id": "2", "total": 1500.0},
        {"order_id": "4", "total": 3000.0},
    ]
    assert [row["total"] for row in test.changes("large_orders")] == [2000.0, 3000.0, 1500.0]
    assert [row["total"] for row in test.batch("large_orders")] == [1500.0, 2000.0, 3000.0]
    assert test.records("orders")[-1].timestamp()[1] < test.clock.now_ms()


def test_views_of_one_test_are_unknown_to_the_next(headwater_test: Rehearsal) -> None:
    @hw.view("again", to="memory:")
    def again() -> object:
        return hw.stream("orders", schema=ORDER).select("order_id")

    with pytest.raises(HeadwaterError, match="has not run"):
        headwater_test.rows("again")
    headwater_test.send("orders", order(1, "10:05:00"), b"no JSON", None)
    headwater_test.run(again)
    assert headwater_test.rows(again) == [{"order_id": "1"}, {"order_id": None}]
    assert [each.value() for each in headwater_test.records("dlq.headwater-again")] == [b"no JSON"]
