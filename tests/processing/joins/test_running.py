"""Joins over a broker and Spark: in one batch, in any batches, after a kill, the same rows."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as sf

import headwater as hw
from headwater.pipelines.declarations import DECLARED
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.tables import table_of
from headwater.processing import joins
from headwater.processing.joins import BadJoin
from headwater.processing.joins.table_changes import Changes
from headwater.testing.rehearsal import Rehearsal
from headwater.views.tables import change_stream
from tests.conftest import SOAK
from tests.processing.joins.histories import (
    LATENESS_S,
    RANGE_S,
    Arrival,
    clicked,
    dated,
    enriched,
    history,
)
from tests.processing.killing import forget_the_last_commit, one_partition

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LATENESS = f"{LATENESS_S} seconds"
SEEDS = range(20) if SOAK else [14]


def found() -> Any:
    searches = hw.stream("searches", schema="id STRING, search STRING, searched TIMESTAMP")
    clicks = hw.stream("clicks", schema="id STRING, search STRING, clicked TIMESTAMP")
    return joins.within(
        searches,
        clicks.withColumnRenamed("id", "click"),
        on="search",
        times=("searched", "clicked"),
        between=("0 seconds", f"{RANGE_S} seconds"),
        how="full",
        lateness=LATENESS,
    )


def orders() -> Any:
    return hw.stream("orders", schema="id STRING, item STRING, ordered TIMESTAMP")


def prices() -> Changes:
    return joins.changes("prices", schema="item STRING, price BIGINT, since TIMESTAMP", key="item")


def every_join() -> Any:
    """Each of them, in one query: a query and a source cost seconds to start."""
    some, table = orders(), prices()
    dated = joins.as_of(some, table, at="ordered", valid_from="since", lateness=LATENESS, groups=3)
    enriched = joins.enrich(some, table, groups=3)
    parts = [
        found().selectExpr("'clicked' AS join", "id", "click AS other"),
        dated.selectExpr("'dated' AS join", "id", "string(price) AS other"),
        enriched.selectExpr("'enriched' AS join", "id", "string(price) AS other"),
    ]
    return parts[0].union(parts[1]).union(parts[2])


EXPECTED = {"clicked": clicked, "dated": dated, "enriched": enriched}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_batches_and_a_kill_give_the_rows_of_one_batch(headwater_test: Rehearsal, seed: int):
    arrivals, choice = history(seed, 400 if SOAK else 60), random.Random(seed)
    for run in ("many", "one"):
        hw.view(run)(every_join)
    start_ms = headwater_test.clock.now_ms()
    cuts = sorted(choice.sample(range(len(arrivals)), 20 if SOAK else 2))
    with one_partition(headwater_test):
        for number, arrival in enumerate(arrivals):
            if number in cuts:
                headwater_test.run("many")
            if number == cuts[-1]:
                forget_the_last_commit(headwater_test, "many")
            send(headwater_test, start_ms, arrival)
        end(headwater_test, start_ms, arrivals)
        headwater_test.run("many")
    found = {"many": headwater_test.changes("many"), "batch": headwater_test.batch("one")}
    if SOAK:
        headwater_test.run("one")
        found["one"] = headwater_test.changes("one")
    for join, expected in EXPECTED.items():
        wanted = sorted((text(each) for each in expected(arrivals)), key=repr)
        for run, rows in found.items():
            assert pairs(rows, join) == wanted, f"{join} in {run}, seed {seed}"


def text(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    return pair[0], None if pair[1] is None else str(pair[1])


def send(rehearsal: Rehearsal, start_ms: int, arrival: Arrival) -> None:
    rehearsal.clock.advance(start_ms + 1000 * arrival.second - rehearsal.clock.now_ms())
    row = dict(arrival.row)
    for name in ("searched", "clicked", "ordered", "since"):
        if row.get(name) is not None:
            row[name] = moment(start_ms, row[name])
    if arrival.topic == "prices":
        deleted = row.pop("deleted")
        row = {"op": "d", "before": row} if deleted else {"op": "u", "before": None, "after": row}
    rehearsal.send(arrival.topic, row)


def end(rehearsal: Rehearsal, start_ms: int, arrivals: list[Arrival]) -> None:
    """Events far behind all others: nothing before them can still be waited for."""
    later = arrivals[-1].second + 1000
    for topic, time in (("searches", "searched"), ("clicks", "clicked"), ("orders", "ordered")):
        key = "item" if topic == "orders" else "search"
        send(rehearsal, start_ms, Arrival(later, topic, {"id": "end", key: topic, time: later}))


def moment(start_ms: int, second: int) -> str:
    return dt.datetime.fromtimestamp(start_ms / 1000 + second, dt.UTC).isoformat()


def pairs(rows: list[dict[str, Any]], join: str) -> list[tuple[Any, Any]]:
    found = ((row["id"], row["other"]) for row in rows if row["join"] == join)
    return sorted((each for each in found if "end" not in each), key=repr)


def test_a_snapshot_and_what_is_backdated_count_from_their_valid_time(headwater_spark: Any):
    # All is recorded at 20:00, orders of 10:00 and prices since 9:00. `s` and `m` are of a snapshot; then
    # `m` was given the key `n`.
    at = "TIMESTAMP'2026-01-01 {}:00:00'"
    row = '{{"item": "{}", "price": {}, "since": "2026-01-01T09:00:00Z"}}'
    told = [
        ("u", "null", row.format("u", 1)),
        ("r", "null", row.format("s", 2)),
        ("r", "null", row.format("m", 3)),
        ("u", row.format("m", 3), row.format("n", 4)),
    ]
    values = [f'{{"op": "{op}", "before": {old}, "after": {new}}}' for op, old, new in told]
    records = headwater_spark.createDataFrame(
        [(None, value.encode(), n) for n, value in enumerate(values)],
        "key BINARY, value BINARY, offset BIGINT",
    ).selectExpr("*", "'prices' AS topic", "0 AS partition", f"{at.format(20)} AS timestamp")
    prices_table = table_of("prices", "item STRING, price BIGINT, since TIMESTAMP", ("item",))
    told_all = change_stream.changes(records, prices_table, None)
    table = Changes(told_all, ("item",))
    some = "VALUES ('u'), ('s'), ('m'), ('n') AS t(item)"
    orders = headwater_spark.sql(f"SELECT item, {at.format(10)} AS ordered FROM {some}")

    def prices(**how: Any) -> dict[str, int | None]:
        found = joins.as_of(
            orders, table, at="ordered", valid_from="since", lateness="1 hour", **how
        )
        return {row["item"]: row["price"] for row in found.collect()}

    assert prices() == {"u": None, "s": 2, "m": 3, "n": None}
    assert prices(backdated=True) == {"u": 1, "s": 2, "m": 3, "n": 4}
    assert prices(how="inner") == {"s": 2, "m": 3}


def test_a_join_that_cannot_mean_anything_is_refused_with_a_reason(headwater_test: Rehearsal):
    def refusal(join: Callable[[], Any]) -> str:
        hw.view("wrong")(join)
        with pytest.raises((BadJoin, PipelineError)) as refused:
            headwater_test.run("wrong")
        DECLARED.clear()
        return str(refused.value)

    wrong = {
        "no column item": lambda: joins.enrich(orders().drop("item"), prices()),
        "both have a column since": lambda: joins.enrich(
            orders().withColumnRenamed("ordered", "since"), prices()
        ),
        "item of the events is int": lambda: joins.enrich(
            orders().withColumn("item", sf.col("item").cast("int")), prices()
        ),
        "cannot be 'full'": lambda: joins.enrich(orders(), prices(), how="full"),
        "no column made": lambda: joins.as_of(orders(), prices(), at="made", lateness="1 minute"),
        "nobody says how late": lambda: joins.as_of(orders(), prices(), at="ordered"),
        "id is no TIMESTAMP": lambda: joins.as_of(orders(), prices(), at="id", lateness="1 s"),
        "the key of table 'prices' names thing": lambda: joins.changes(
            "prices", schema="item STRING", key="thing"
        ),
        "ends before that": lambda: joins.within(
            orders(), orders().withColumnRenamed("ordered", "again").drop("id"),
            on="item", times=("ordered", "again"), between=("1 minute", "-1 minute"),
        ),
        "both sides have a column id": lambda: joins.within(
            orders(), orders().withColumnRenamed("ordered", "again"),
            on="item", times=("ordered", "again"), between=("0 s", "1 minute"),
        ),
    }  # fmt: skip
    for reason, join in wrong.items():
        assert reason in refusal(join)


@pytest.mark.timeout(900)
def test_events_of_years_that_nanoseconds_do_not_reach_are_joined(headwater_test: Rehearsal):
    test = headwater_test

    @hw.view("priced")
    def priced():
        dated = joins.as_of(orders(), prices(), at="ordered", valid_from="since", lateness=LATENESS)
        return dated.selectExpr("id", "unix_micros(ordered) AS micros", "price")

    row = {"item": "a", "price": 7, "since": None}
    test.send("prices", {"op": "r", "before": None, "after": row})
    times = [
        "0001-01-01T00:00:00.000001Z",
        "2026-11-15T00:00:00.000000Z",
        "2500-01-01T00:00:00.000001Z",
        "9999-12-31T23:59:59.999999Z",
    ]
    for number, ordered in enumerate(times):
        test.send("orders", {"id": str(number), "item": "a", "ordered": ordered})
    test.run("priced")
    test.send("orders", {"id": "late", "item": "a", "ordered": "2600-01-01T00:00:00Z"})
    test.run("priced")
    wanted = [
        (str(n), (dt.datetime.fromisoformat(each) - EPOCH) // dt.timedelta(microseconds=1), 7)
        for n, each in enumerate(times)
    ]
    batch = [tuple(row[n] for n in ("id", "micros", "price")) for row in test.batch("priced")]
    live = [tuple(row[n] for n in ("id", "micros", "price")) for row in test.changes("priced")]
    assert sorted(batch)[:4] == wanted
    # What is before 1970 is late in every stream, and the newest event still waits.
    assert sorted(live) == wanted[1:3]
