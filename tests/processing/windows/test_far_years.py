"""A late event of a year that Python does not have."""

from __future__ import annotations

import pytest

import headwater as hw
from headwater import processing as p
from headwater.processing import patterns

ORDER = "order_id STRING, customer STRING, total DOUBLE, at TIMESTAMP"


def test_a_late_event_of_a_year_that_python_does_not_have_is_a_late_record(headwater_test):
    test = headwater_test

    @hw.view("sales_by_hour", mode="append")
    def sales_by_hour():
        hourly = p.tumbling("1 hour")
        orders = p.event_stream(
            "orders", schema=ORDER, time="at", lateness="10 minutes", window=hourly
        )
        sums = p.aggregate(orders, "customer", total=p.sum("total"))
        return sums.select("window.start", "customer", "total")

    at = test.now.replace(minute=5).isoformat()
    test.send("orders", {"order_id": "1", "customer": "ada", "total": 5.0, "at": at})
    test.run(sales_by_hour)
    test.send("orders", {"order_id": "2", "customer": "ada", "at": "0000-01-01T00:00:00Z"})
    test.run()
    assert len(test.records("late.headwater-sales_by_hour")) == 1


@pytest.mark.soak  # such years in a stream: joins/test_running
@pytest.mark.timeout(900)
def test_an_event_of_a_year_that_nanoseconds_do_not_reach_does_not_end_a_query(headwater_test):
    """pandas, through which rows come to the workers, has no year after 2262 by itself."""
    test = headwater_test

    def orders():
        return p.event_stream("orders", schema=ORDER, time="at", lateness="10 minutes")

    @hw.view("last_hour", mode="append")
    def last_hour():
        found = p.sliding(orders(), "customer", "1 hour", time="at", spent=p.sum("total"))
        return found.select("order_id", "spent")

    @hw.view("pairs", mode="append")
    def pairs():
        return patterns.match(
            orders(),
            key="customer",
            pattern="A B",
            define={"A": "A.total = 1", "B": "B.total = 2"},
            within="1 hour",
            measures={"first": "A.order_id", "second": "B.order_id"},
        ).select("first", "second")

    times = ["2026-11-15T00:00:00Z", "2026-11-15T00:00:01Z", "9000-01-01T00:00:00Z"]
    times += ["9000-01-01T00:00:01Z", "9999-12-31T23:59:59Z"]
    for number, at in enumerate(times):
        total = 1.0 + number % 2
        order = {"order_id": str(number), "customer": "ada", "total": total, "at": at}
        test.send("orders", order)
    for view in (last_hour, pairs):
        test.run(view)
        test.run(view)
    assert [tuple(row.values()) for row in test.changes("last_hour")] == [
        ("0", 1.0), ("1", 3.0), ("2", 1.0), ("3", 3.0),
    ]  # fmt: skip
    assert [tuple(row.values()) for row in test.changes("pairs")] == [("0", "1"), ("2", "3")]
